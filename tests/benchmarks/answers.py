"""Warm answers, and answers after a write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from typing import Final

from tests.benchmarks.client import HEALTHZ, Client, inject, post
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.benchmarks.site import BY_SIZE, Site, keys_of, stdin_of
from tests.benchmarks.sockets import bare_socket
from tests.benchmarks.store import (
    DORMANT,
    GROVES,
    HUGE,
    IMPORTED,
    grove,
    worktrees_of,
)
from tests.benchmarks.writes import Case, after_write

_HEALTHZ_NAME: Final = "/healthz"
_MANY_MS: Final = {grove(100): 4.0, grove(1000): 8.0}


def same_rows(site: Site, daemon: Daemon, project: str) -> None:
    """The daemon's answer and the one by hand name the same rows in the same order."""
    keys = keys_of(project)
    reply = daemon.client.ask(post("/v1/query", {"cwd": site.cwd(project)}))
    if reply.status != 200:
        raise AssertionError(f"{project}: {reply.status} {reply.text[:500]}")
    answer = reply.json()
    theirs = [row["id"] for row in answer["observations"]]
    ours = [row[0] for row in site.bare.rows(site.bare.best_plan(keys), keys)]
    if theirs != ours:
        raise AssertionError(
            f"{project}, {site.rows} rows: the daemon answers {theirs[:5]}... ({len(theirs)}), by"
            f" hand it is {ours[:5]}... ({len(ours)}); warnings {answer['warnings']}"
        )


def warm(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """The same question again, nothing having changed; a fresh connection each."""
    client = daemon.client
    healthz: Turn = lambda: client.seconds(HEALTHZ)  # noqa: E731 - a turn is a bare callable
    body = client.ask(inject(site.cwd(HUGE))).body
    with (
        tempfile.TemporaryDirectory(prefix="cmd-bench-") as folder,
        bare_socket(os.path.join(folder, "s"), body),
        bare_socket(os.path.join(folder, "c"), body, _checks(site)),
    ):
        bare, checks = Client(os.path.join(folder, "s")), Client(os.path.join(folder, "c"))
        turns: dict[str, Turn] = {
            "bare": lambda: bare.seconds(b"x"),
            "checks": lambda: checks.seconds(b"x"),
            "healthz": healthz,
        }
        taken = interleave(turns, effort.turns)
        cost = bare.load([b"x"], 1, effort.turns)
    checking = median(taken["checks"]) - median(taken["bare"])
    yield Figure(
        "warm", "checks by hand, in a thread", site.rows, median(taken["checks"]),
        p99=p99(taken["checks"]), floor=median(taken["bare"]), floor_name="bare socket",
    )  # fmt: skip
    yield Figure(
        "warm", "/healthz", site.rows, median(taken["healthz"]), p99=p99(taken["healthz"]),
        floor=median(taken["bare"]), floor_name=f"bare socket, {len(body) / 1000:.1f} kB",
        note=f"of each, our client's own CPU: {cost.client_cpu / effort.turns * 1e6:.0f} µs",
    )  # fmt: skip

    groups = (BY_SIZE, tuple(grove(n) for n in GROVES))
    for group in groups:
        turns = {_HEALTHZ_NAME: healthz}
        for project in group:
            turns[project] = _asking(client, inject(site.cwd(project)))
        taken = interleave(turns, effort.turns)
        floor = median(taken[_HEALTHZ_NAME])
        for project in group:
            yield Figure(
                "warm", named(project), site.rows, median(taken[project]), p99=p99(taken[project]),
                floor=floor, floor_name=_HEALTHZ_NAME, times=1.5,
            )  # fmt: skip

    query = post("/v1/query", {"cwd": site.cwd(HUGE)})
    turns = {
        _HEALTHZ_NAME: healthz,
        "huge, POST /v1/query": lambda: client.seconds(query),
        "huge, hook, SessionStart": _hook(site, client, "SessionStart"),
        "huge, hook, prompt without news": _hook(site, client, "UserPromptSubmit"),
    }
    taken = interleave(turns, effort.turns)
    floor = median(taken.pop(_HEALTHZ_NAME))
    for what, values in taken.items():
        yield Figure(
            "warm", what, site.rows, median(values), p99=p99(values), floor=floor,
            floor_name=_HEALTHZ_NAME, times=1.5 if "hook" in what else None,
            note=f"/healthz and the checks by hand are {floor + checking:.3f} ms, the ratio is"
            f" {median(values) / (floor + checking):.2f}",
        )  # fmt: skip


def _checks(site: Site) -> list[str]:
    """What no answer can be sent again without a look at: the store, settings and repository."""
    cwd, data = site.cwd(HUGE), os.path.dirname(site.store)
    names = ("settings.json", "observer-health.json", "modes", "daemon/trusted.json")
    inside = (".git", ".git/config", ".git/worktrees", ".claude-mem", ".claude")
    return [
        *(site.store, site.store, f"{site.home}/.claude", "/etc/localtime"),
        *(os.path.join(data, name) for name in names),
        *(os.path.join(cwd, name) for name in inside),
    ]


def _hook(site: Site, client: Client, event: str) -> Turn:
    """A session's start, or the prompt that follows it: another session each time, for one that
    asks again within two seconds is answered once."""
    sessions = count()

    def turn() -> float:
        session = f"{event}-{next(sessions)}"
        start = client.ask(_hook_call(site, "SessionStart", session))
        if "additionalContext" not in start.text:
            raise AssertionError(f"no context at a session's start: {start.text[:500]!r}")
        if event == "SessionStart":
            return start.seconds
        prompt = client.ask(_hook_call(site, event, session))
        if "additionalContext" in prompt.text:
            raise AssertionError(f"a prompt without news got: {prompt.text[:500]!r}")
        return prompt.seconds

    return turn


def _hook_call(site: Site, event: str, session: str) -> bytes:
    return post("/v1/hooks/claude-code", stdin_of(event, site.cwd(HUGE), session))


def after_writes(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """The row written is the project's own and must be in the answer; for projects at rest it is
    another project's and must not be."""
    for project in (*BY_SIZE, *(grove(n) for n in GROVES)):
        case = Case(project, written=HUGE if project in (DORMANT, IMPORTED) else project)
        taken = after_write(site, daemon, case, effort.writes)
        if taken.wrong:
            raise AssertionError(f"{project}: {taken.wrong[0]}")
        yield Figure(
            "after a write", named(project), site.rows, median(taken.ours), p99=p99(taken.ours),
            floor=median(taken.floor), floor_name=taken.floor_name, times=2,
            at_most=_MANY_MS.get(project, 2.0),
            note="" if case.written == project else "the row is another project's",
        )  # fmt: skip


def _asking(client: Client, request: bytes) -> Turn:
    return lambda: client.seconds(request)


def named(project: str) -> str:
    worktrees = worktrees_of(project)
    return f"{worktrees} worktree{'s' * (worktrees > 1)}" if worktrees else project
