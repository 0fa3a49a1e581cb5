"""One size of store with everything around it: home, settings, repositories, a writer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.benchmarks.floors import BareSqlite, Keys
from tests.benchmarks.measure import Effort
from tests.benchmarks.repos import build_repositories
from tests.benchmarks.store import (
    DORMANT,
    GROVES,
    HUGE,
    IMPORTED,
    MIDDLING,
    RARE,
    RECIPE,
    build_small_store,
    build_store,
    build_wide_store,
    new_observation,
    worktree_name,
    worktrees_of,
)
from tests.support.stores import OtherProcess, run_sql

FIFTY: Final = "fifty"
"""The project whose rows lie in fifty stores."""
WIDE: Final = "wide"
"""The project whose narratives have a megabyte each."""
JOURNAL: Final = "journal"
"""The project whose store is given one kind of journal and then the other."""
HANGING: Final = "hanging"
"""The project with a store in a folder of its own, where there is none unless it is made to hang."""
STORES: Final = 50
BY_SIZE: Final = (RARE, MIDDLING, HUGE, DORMANT, IMPORTED)
_WIDE_BYTES: Final = 1_000_000
_TAKE_BACK: Final = (
    "DELETE FROM observations WHERE content_hash >= 'new-' AND content_hash < 'new.'"
)
"""Removes what `new_observation` added."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all sizes share: repositories (project key -> main checkout), and the further stores in
    which a project has rows."""

    folder: str
    repositories: Mapping[str, str]
    stores: Mapping[str, Sequence[str]]


def prepare_ground(folder: str, effort: Effort) -> Ground:
    """Repositories and extra stores below `folder`, built where they are not there yet."""
    extra = os.path.join(folder, f"extra-{RECIPE}-{effort.worst_rows}")
    fifty = small_stores(extra, STORES, [FIFTY] * effort.worst_rows * 3)
    wide = os.path.join(extra, "wide.db")
    if not os.path.exists(wide):
        build_wide_store(wide, WIDE, effort.worst_rows, _WIDE_BYTES)
    journal = small_stores(os.path.join(extra, "journal"), 1, [JOURNAL] * effort.worst_rows * 100)
    names = (*BY_SIZE, FIFTY, WIDE, JOURNAL, HANGING)
    hanging = os.path.join(extra, "hanging")
    os.makedirs(hanging, exist_ok=True)
    repositories = build_repositories(os.path.join(folder, "repos"), names, GROVES)
    stores = {FIFTY: fifty, WIDE: [wide], JOURNAL: journal, HANGING: [f"{hanging}/store.db"]}
    return Ground(folder, repositories, stores)


def small_stores(folder: str, number: int, projects: Sequence[str]) -> list[str]:
    """So many stores below `folder` with one row for each of `projects`, their times between each
    other's; built where they are not there yet."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"store-{place:03d}.db") for place in range(number)]
    for place, path in enumerate(paths):
        if not os.path.exists(path):
            build_small_store(path, projects, offset=place * 7 + 1)
    return paths


class Site:
    """The store of `rows` rows in a home of its own; leaving the block takes back what was
    written, so that a kept store can be used again."""

    def __init__(
        self, ground: Ground, rows: int, groves: Sequence[int] = GROVES, *, short: bool = False,
        timeout_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.ground = ground
        self.rows = rows
        self._settings = {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": timeout_ms} if timeout_ms else {}
        kind = "".join(f"-{worktrees}" for worktrees in groves) + ("-short" if short else "")
        self.home = os.path.join(ground.folder, f"home-{RECIPE}-{rows}{kind}")
        self.store = os.path.join(self.home, ".claude-mem", "claude-mem.db")
        self.bare: BareSqlite
        self._build = partial(build_store, self.store, rows, groves, short=short)
        self._writers: dict[str, OtherProcess] = {}
        self._stack = ExitStack()
        self._last: dict[str, int] = {}

    def __enter__(self) -> Site:
        if not os.path.exists(self.store):
            os.makedirs(os.path.dirname(self.store), exist_ok=True)
            self._build()
        stores = {self.cwd(project): list(paths) for project, paths in self.ground.stores.items()}
        with open(
            os.path.join(os.path.dirname(self.store), "settings.json"), "w", encoding="utf-8"
        ) as file:
            json.dump({"CLAUDE_MEM_DAEMON_STORES": stores, **self._settings}, file)
        self.bare = self._stack.enter_context(BareSqlite(self.store))
        return self

    def cwd(self, project: str) -> str:
        return self.ground.repositories[project]

    def write(self, project: str, store: str | None = None) -> str:
        """One row by another process, which has the store open all the time; returns its title."""
        path = store or self.store
        writer = self._writers.get(path)
        if writer is None:
            writer = self._stack.enter_context(OtherProcess(path))
            self._writers[path] = writer
            self._last[path] = writer.run("SELECT max(id) FROM observations")[0][0]
        self._last[path] += 1
        title = f"Written meanwhile {self._last[path]}"
        writer.run(*new_observation(self._last[path], project, title))
        return title

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for path in self._writers:
            run_sql(path, _TAKE_BACK)


def keys_of(project: str) -> Keys:
    """The names under which this project's rows may lie."""
    worktrees = worktrees_of(project)
    return Keys(project, tuple(worktree_name(worktrees, number) for number in range(worktrees)))


def stdin_of(event: str, cwd: str, session: str) -> dict[str, Any]:
    """What Claude Code sends a hook."""
    body = {
        "session_id": session,
        "transcript_path": os.path.join(cwd, "no-transcript.jsonl"),
        "cwd": cwd,
        "hook_event_name": event,
    }
    return body | ({"source": "startup"} if event == "SessionStart" else {"prompt": "Go on."})
