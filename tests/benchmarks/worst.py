"""The worst that can be asked: all of it bounded by the deadline, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks.client import HEALTHZ, Reply, inject, post
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.floors import NARROW, BareSqlite, Keys
from tests.benchmarks.measure import Effort, Figure, interleave, median, p99
from tests.benchmarks.site import FIFTY, WIDE, Site
from tests.benchmarks.store import HUGE, MIDDLING, RARE

DEADLINE_MS: Final = 1500.0
"""The default of CLAUDE_MEM_DAEMON_TIMEOUT_MS."""
WRONG: Final = "answers without the newest row: "
_INSIDE: Final = "inside the deadline, 1,500 ms"


@dataclass(frozen=True, slots=True)
class _Case:
    """A question after a write into `written`; its floor reads the same rows from `stores` by hand,
    `limit` at most, whole where `whole`. times: the goal, beside the deadline."""

    what: str
    project: str
    query: Mapping[str, str]
    rounds: int
    stores: Sequence[BareSqlite]
    written: str
    limit: int = 50
    whole: bool = False
    times: float | None = None


def heavy(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """Many concepts, many rows, many stores, wide rows: each after a write."""
    concepts = ",".join(["how-it-works", *(f"concept-{n:02d}" for n in range(39))])
    full, slow, ground = {"full": "true"}, effort.slow, site.ground
    with ExitStack() as stack:
        fifty = [stack.enter_context(BareSqlite(path)) for path in ground.fifty]
        wide, own = [stack.enter_context(BareSqlite(ground.wide))], [site.bare]
        for case in (
            _Case("huge, 40 concepts", HUGE, {"concepts": concepts}, slow * 3, own, site.store),
            _Case("huge, limit 5,000", HUGE, {"limit": "5000"}, slow, own, site.store, 5000,
                  whole=True, times=3),
            _Case("middling, full=true", MIDDLING, full, slow, own, site.store, -1, whole=True),
            _Case("50 stores", FIFTY, {}, slow * 3, fifty, ground.fifty[7]),
            _Case("narratives of 1 MB", WIDE, {}, slow * 3, wide, ground.wide, whole=True, times=3),
            _Case("narratives of 1 MB, full=true", WIDE, full, slow, wide, ground.wide, -1,
                  whole=True),
        ):  # fmt: skip
            yield _figure(case, site, daemon)


def _figure(case: _Case, site: Site, daemon: Daemon) -> Figure:
    request = inject(site.cwd(case.project), **case.query)
    keys, columns = Keys(case.project), "*" if case.whole else NARROW
    plan = case.stores[0].best_plan(keys, limit=case.limit)
    wrong: list[str] = []

    def ours() -> float:
        title = site.write(case.project, case.written)
        reply = daemon.client.ask(request)
        if reply.status != 200 or title not in reply.text:
            wrong.append(f"{reply.status} {reply.text[:120]!r}")
        return reply.seconds

    def floor() -> float:
        site.write(case.project, case.written)
        return sum(
            store.seconds(plan, keys, limit=case.limit, columns=columns) for store in case.stores
        )

    taken = interleave({"ours": ours, "floor": floor}, case.rounds)
    inside = not wrong and max(taken["ours"]) <= DEADLINE_MS
    many = f", {len(case.stores)} in turn" if len(case.stores) > 1 else ""
    return Figure(
        "worst cases", case.what, site.rows, median(taken["ours"]), p99=p99(taken["ours"]),
        floor=median(taken["floor"]),
        floor_name=f"SQLite, {plan}{', rows read whole' if case.whole else ''}{many}",
        times=case.times, rule=None if case.times and inside else (_INSIDE, inside),
        note=f"{WRONG}{len(wrong)} of {case.rounds + 1}, {wrong[0]}" if wrong else "",
    )  # fmt: skip


def endless(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """A concept that no row of the huge project has, another one each time; what the others feel
    meanwhile; and the whole of the huge project."""
    replies = [_hopeless(site, daemon, number) for number in range(max(1, effort.slow // 2))]
    slowest = max(reply.seconds for reply in replies) * 1000
    answers = [reply.json() for reply in replies]
    yield Figure(
        "worst cases", "huge, a concept that matches nothing", site.rows,
        median([reply.seconds * 1000 for reply in replies]), p99=slowest,
        rule=(_INSIDE, slowest <= DEADLINE_MS and not any(a["observations"] for a in answers)),
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
        "worst cases", "huge, full=true", site.rows, reply.seconds * 1000,
        rule=(_INSIDE, reply.status == 200 and len(reply.body) > 1000
              and reply.seconds * 1000 <= DEADLINE_MS),
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
