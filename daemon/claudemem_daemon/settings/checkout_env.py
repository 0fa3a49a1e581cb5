"""Variables that a checkout's own files put into the caller's environment.

Assistants hand the `env` of a project's `.claude/settings*.json` to their hooks. Such a variable
seems to be the user's, and is whatever the author of the checkout wrote.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.settings.model import DATA_DIR
from claudemem_daemon.settings.sources import read_values
from claudemem_daemon.warning import AnswerWarning

GUARDED: Final = frozenset(
    [
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_MEM_DAEMON_ALIASES",
        "CLAUDE_MEM_DAEMON_STORES",
        "CLAUDE_MEM_EXCLUDED_PROJECTS",
        "CLAUDE_MEM_MODES_DIR",
    ]
)
"""What opens files, claims other projects' rows, or lifts an exclusion: only the user may set it.
All other variables only shape the answer about this checkout. CLAUDEMEM_DAEMON_HOME is not sent to a
daemon; without one, a `trusted.json` that a checkout brings cannot know the inode of its store."""

FILES: Final = ("settings.json", "settings.local.json")


class CheckoutEnv(NamedTuple):
    """`env` is the caller's without the variables that are `refused` to a checkout; `data_dir` tells
    whether the checkout names the data dir, whose stores then wait for `allow`."""

    env: Mapping[str, str]
    refused: frozenset[str] = frozenset()
    data_dir: bool = False
    warnings: tuple[AnswerWarning, ...] = ()
    dependencies: tuple[FileState, ...] = ()


def without_checkouts_word(
    env: Mapping[str, str], folders: Iterable[str], home: str
) -> CheckoutEnv:
    """`env` without what the files of these folders, and of those around them, put there. The home
    folder's own `.claude` is the user's."""
    suspects = {name: value for name, value in env.items() if name in GUARDED or name == DATA_DIR}
    if not suspects:
        return CheckoutEnv(env)
    dependencies: list[FileState] = []
    named_by: dict[str, str] = {}
    for path in _files(folders, os.path.realpath(home)):
        seen = file_state(path)
        dependencies.append(seen)
        if seen.state is not None:
            named_by |= {name: path for name in _named(path, suspects) if name not in named_by}
    refused = frozenset(named_by) & GUARDED
    warnings = (
        AnswerWarning(
            "setting_of_checkout",
            f"{name} in the caller's environment is ignored: {named_by[name]} puts it there, and a"
            " checkout does not decide it; put it into your own settings.json",
            named_by[name],
            name,
        )
        for name in sorted(refused)
    )
    left = {name: value for name, value in env.items() if name not in refused}
    return CheckoutEnv(left, refused, DATA_DIR in named_by, tuple(warnings), tuple(dependencies))


def _named(path: str, suspects: Mapping[str, str]) -> Iterable[str]:
    """The variables whose values this file names; all of them where we cannot read it, because an
    assistant may be able to."""
    values = read_values(path)
    if values is None:
        return suspects
    named = values.get("env")
    return [
        name
        for name, value in (named.items() if isinstance(named, dict) else ())
        if suspects.get(name) == (value if isinstance(value, str) else json.dumps(value))
    ]


def _files(folders: Iterable[str], home: str) -> Iterator[str]:
    seen: set[str] = set()
    for folder in folders:
        while folder not in seen and os.path.realpath(folder) != home:
            seen.add(folder)
            yield from (os.path.join(folder, ".claude", name) for name in FILES)
            folder = os.path.dirname(folder)
