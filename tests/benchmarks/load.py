"""Many clients at once: alone, while rows are written, and while a store hangs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from typing import Final

from tests.benchmarks import hanging
from tests.benchmarks.client import HEALTHZ, Load, inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.measure import Effort, Figure, median, p99
from tests.benchmarks.site import HANGING, Site
from tests.benchmarks.store import HUGE, MIDDLING, RARE

_PROJECTS: Final = (RARE, MIDDLING, HUGE)
_ROWS_A_SECOND: Final = 200
_ROUNDS: Final = 4


def clients(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """The three project sizes in turn; the floor is /healthz under the same load."""
    requests = [inject(site.cwd(project)) for project in _PROJECTS]
    for at_once in (1, 8, 64):
        ours, floor = [], []
        for _ in range(_ROUNDS):
            floor.append(daemon.client.load([HEALTHZ], at_once, effort.load // _ROUNDS))
            ours.append(daemon.client.load(requests, at_once, effort.load // _ROUNDS))
        answers, cpu = len(_milliseconds(ours)), sum(load.client_cpu for load in ours)
        yield _figure(
            site, f"{at_once} at once", ours, floor, "/healthz, as many", judged=at_once == 8,
            note=f"{answers / sum(load.wall for load in ours):.0f} answers a second; /healthz p99"
            f" {p99(_milliseconds(floor)):.2f} ms; of each, our client's own CPU:"
            f" {cpu / answers * 1e6:.0f} µs",
        )  # fmt: skip
    ours, floor = [], []
    for _ in range(_ROUNDS):
        floor.append(daemon.client.load([HEALTHZ], 8, effort.load // _ROUNDS))
        with _writing(site) as written:
            ours.append(daemon.client.load(requests, 8, effort.load // _ROUNDS))
    yield _figure(
        site, f"8 at once, {_ROWS_A_SECOND} rows written a second", ours, floor,
        "/healthz, as many", judged=True, note=f"{written[0]:.0f} rows a second in the last round",
    )  # fmt: skip
    if sys.platform == "linux" and os.geteuid() == 0 and os.path.exists("/dev/fuse"):
        yield _with_a_hanging_store(site, daemon, requests, effort)


@contextmanager
def _writing(site: Site) -> Iterator[list[float]]:
    """Rows of the projects in turn, by a process of its own; what it yields has the rows a second
    that were written in the end."""
    ended, rate = threading.Event(), [0.0]

    def write() -> None:
        projects, began = cycle(_PROJECTS), time.monotonic()
        for number in count(1):
            site.write(next(projects))
            rate[0] = number / (time.monotonic() - began)
            if ended.wait(max(0.0, began + number / _ROWS_A_SECOND - time.monotonic())):
                break

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield rate
    finally:
        ended.set()
        writer.join()


def _with_a_hanging_store(
    site: Site, daemon: Daemon, requests: Sequence[bytes], effort: Effort
) -> Figure:
    """A second daemon, for which the store of one project hangs; that project is asked for all the
    time by one client more, whose answers do not count."""
    before = (
        sys.executable,
        "-I",
        hanging.__file__,
        os.path.dirname(site.ground.stores[HANGING][0]),
    )
    ended, statuses = threading.Event(), Counter[int]()
    with Daemon(site.home, before) as other:
        other.client.ask(requests[0])

        def ask() -> None:
            while not ended.is_set():
                statuses[other.client.ask(inject(site.cwd(HANGING))).status] += 1

        asking = threading.Thread(target=ask)
        asking.start()
        ours, floor = [], []
        try:
            for _ in range(_ROUNDS):
                floor.append(daemon.client.load(requests, 8, effort.load // _ROUNDS))
                ours.append(other.client.load(requests, 8, effort.load // _ROUNDS))
        finally:
            ended.set()
            asking.join()
    return _figure(
        site, "8 at once, a store hangs", ours, floor, "the same without", judged=True,
        note=f"p99 without {p99(_milliseconds(floor)):.2f} ms; answers to the client of the project"
        f" whose store hangs, by status: {dict(statuses)}",
    )  # fmt: skip


def _figure(
    site: Site, what: str, ours: Sequence[Load], floor: Sequence[Load], floor_name: str, *,
    judged: bool, note: str,
) -> Figure:  # fmt: skip
    values = _milliseconds(ours)
    middle, tail = median(values), p99(values)
    return Figure(
        "clients", what, site.rows, middle, p99=tail, floor=median(_milliseconds(floor)),
        floor_name=floor_name, rule=("p99 2 x p50", tail <= 2 * middle) if judged else None,
        note=note,
    )  # fmt: skip


def _milliseconds(loads: Sequence[Load]) -> list[float]:
    return [seconds * 1000 for load in loads for seconds in load.seconds]
