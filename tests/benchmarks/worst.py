"""The worst that can be asked: all of it bounded by the deadline, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from tests.benchmarks.client import HEALTHZ, Reply, inject, post
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.floors import BareSqlite
from tests.benchmarks.measure import Effort, Figure, median, p99
from tests.benchmarks.site import FIFTY, WIDE, Site
from tests.benchmarks.store import HUGE, MIDDLING, RARE
from tests.benchmarks.writes import Case, after_write

DEADLINE_MS: Final = 1500.0
"""The default of CLAUDE_MEM_DAEMON_TIMEOUT_MS."""
WRONG: Final = "answers without the newest row: "
_INSIDE: Final = "inside the deadline, 1,500 ms"


def heavy(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """Many concepts, many rows, many stores, wide rows: each after a write. The goal is the
    deadline, or the given number of floors."""
    concepts = ",".join(["how-it-works", *(f"concept-{n:02d}" for n in range(39))])
    full, slow, ground = {"full": "true"}, effort.slow, site.ground
    with ExitStack() as stack:
        fifty = [stack.enter_context(BareSqlite(path)) for path in ground.stores[FIFTY]]
        seventh = ground.stores[FIFTY][7]
        wide_path = ground.stores[WIDE][0]
        wide = [stack.enter_context(BareSqlite(wide_path))]
        whole_wide = Case(WIDE, path=wide_path, stores=wide, whole=True)
        for what, case, rounds, times in (
            ("huge, 40 concepts", Case(HUGE, {"concepts": concepts}), slow * 3, None),
            ("huge, limit 5,000", Case(HUGE, {"limit": "5000"}, limit=5000, whole=True), slow, 3),
            ("middling, full=true", Case(MIDDLING, full, limit=-1, whole=True), slow, None),
            ("50 stores", Case(FIFTY, path=seventh, stores=fifty), slow * 3, None),
            ("narratives of 1 MB", whole_wide, slow * 3, 3),
            ("narratives of 1 MB, full=true", replace(whole_wide, query=full, limit=-1), slow, None),
        ):  # fmt: skip
            taken = after_write(site, daemon, case, rounds)
            inside = not taken.wrong and max(taken.ours) <= DEADLINE_MS
            yield Figure(
                "worst cases", what, site.rows, median(taken.ours), p99=p99(taken.ours),
                floor=median(taken.floor), floor_name=taken.floor_name, times=times,
                rule=None if times and inside else (_INSIDE, inside),
                note=f"{WRONG}{len(taken.wrong)} of {rounds + 1}, {taken.wrong[0]}"
                if taken.wrong else "",
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
