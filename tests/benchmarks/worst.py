"""The worst that can be asked: all of it bounded by the deadline, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

from tests.benchmarks.client import HEALTHZ, Reply, inject, post
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.floors import BareSqlite, Keys
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.benchmarks.site import FIFTY, WIDE, Site
from tests.benchmarks.store import HUGE, MIDDLING, RARE

DEADLINE_MS: Final = 1500.0
"""The default of CLAUDE_MEM_DAEMON_TIMEOUT_MS."""
WRONG: Final = "answers without the newest row: "
_INSIDE: Final = "inside the deadline, 1,500 ms"


def heavy(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """Many concepts, many rows, many stores, wide rows: each after a write."""
    concepts = ",".join(["how-it-works", *(f"concept-{n:02d}" for n in range(39))])
    asked: tuple[tuple[str, str, dict[str, str], str, int], ...] = (
        ("huge, 40 concepts", HUGE, {"concepts": concepts}, site.store, effort.slow * 3),
        ("huge, limit 5,000", HUGE, {"limit": "5000"}, site.store, effort.slow),
        ("middling, full=true", MIDDLING, {"full": "true"}, site.store, effort.slow),
        ("50 stores", FIFTY, {}, site.ground.fifty[7], effort.slow * 3),
        ("narratives of 1 MB", WIDE, {}, site.ground.wide, effort.slow * 3),
        ("narratives of 1 MB, full=true", WIDE, {"full": "true"}, site.ground.wide, effort.slow),
    )
    with ExitStack() as stack:
        open_stores = [stack.enter_context(BareSqlite(path)) for path in site.ground.fifty]
        for what, project, query, store, rounds in asked:
            request = inject(site.cwd(project), **query)

            wrong: list[str] = []

            def ours(
                project: str = project,
                store: str = store,
                request: bytes = request,
                wrong: list[str] = wrong,
            ) -> float:
                title = site.write(project, store)
                reply = daemon.client.ask(request)
                if reply.status != 200 or title not in reply.text:
                    wrong.append(f"{reply.status} {reply.text[:120]!r}")
                return reply.seconds

            turns: dict[str, Turn] = {"ours": ours}
            floor_name = ""
            if project == HUGE:
                limit = int(query.get("limit", "50"))
                plan = site.bare.best_plan(Keys(HUGE), limit=limit)
                floor_name = f"SQLite, {plan}"
                turns["floor"] = _by_hand(site, plan, limit)
            elif project == FIFTY:
                floor_name = "SQLite, 50 connections in turn"
                turns["floor"] = _fifty(site, open_stores)
            taken = interleave(turns, rounds)
            value = median(taken["ours"])
            yield Figure(
                "worst cases", what, site.rows, value, p99=p99(taken["ours"]),
                floor=median(taken["floor"]) if floor_name else None, floor_name=floor_name,
                goal=_INSIDE, met=not wrong and max(taken["ours"]) <= DEADLINE_MS,
                note=f"{WRONG}{len(wrong)} of {rounds + 1}, {wrong[0]}" if wrong else "",
            )  # fmt: skip


def _by_hand(site: Site, plan: str, limit: int) -> Turn:
    def turn() -> float:
        site.write(HUGE)
        return site.bare.seconds(plan, Keys(HUGE), limit=limit)

    return turn


def _fifty(site: Site, open_stores: Sequence[BareSqlite]) -> Turn:
    def turn() -> float:
        site.write(FIFTY, site.ground.fifty[7])
        return sum(connection.seconds("project index", Keys(FIFTY)) for connection in open_stores)

    return turn


def endless(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """A concept that no row of the huge project has, another one each time; what the others feel
    meanwhile; and the whole of the huge project."""
    replies = [_hopeless(site, daemon, number) for number in range(max(1, effort.slow // 2))]
    slowest = max(reply.seconds for reply in replies) * 1000
    answers = [reply.json() for reply in replies]
    yield Figure(
        "worst cases", "huge, a concept that matches nothing", site.rows,
        median([reply.seconds * 1000 for reply in replies]), p99=slowest, goal=_INSIDE,
        met=slowest <= DEADLINE_MS and all(not answer["observations"] for answer in answers),
        note=_said(answers[0]),
    )  # fmt: skip

    quiet = [daemon.client.seconds(HEALTHZ) * 1000 for _ in range(effort.turns)]
    warm = inject(site.cwd(RARE))
    daemon.client.ask(warm)
    meanwhile, others = [], []
    slow = threading.Thread(target=_hopeless, args=(site, daemon, 1000))
    slow.start()
    while slow.is_alive():
        meanwhile.append(daemon.client.seconds(HEALTHZ) * 1000)
        others.append(daemon.client.seconds(warm) * 1000)
    slow.join()
    for what, values in (("/healthz meanwhile", meanwhile), ("rare, warm, meanwhile", others)):
        yield Figure(
            "worst cases", what, site.rows, median(values), p99=p99(values), floor=median(quiet),
            floor_name="/healthz alone", note=f"{len(values)} answers while one was slow",
        )  # fmt: skip

    reply = daemon.client.ask(inject(site.cwd(HUGE), full="true"))
    yield Figure(
        "worst cases", "huge, full=true", site.rows, reply.seconds * 1000, goal=_INSIDE,
        met=reply.status == 200 and len(reply.body) > 1000
        and reply.seconds * 1000 <= DEADLINE_MS,
        note=f"{len(reply.body) / 1e6:.1f} MB of text",
    )  # fmt: skip
    after = daemon.client.ask(inject(site.cwd(RARE)))
    if after.status != 200 or not daemon.healthy():
        raise AssertionError(f"after the worst, {after.status}: {after.text[:500]}")


def _hopeless(site: Site, daemon: Daemon, number: int) -> Reply:
    body = {"cwd": site.cwd(HUGE), "concepts": [f"nowhere-{number}"]}
    reply = daemon.client.ask(post("/v1/query", body))
    if reply.status != 200:
        raise AssertionError(f"{reply.status}: {reply.text[:500]}")
    return reply


def _said(answer: dict[str, Any]) -> str:
    codes = sorted({warning["code"] for warning in answer["warnings"]})
    return f"warned: {', '.join(codes)}" if codes else "whole, no warning needed"
