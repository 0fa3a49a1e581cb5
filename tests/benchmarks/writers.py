"""What a writer waits for us: its commits while eight clients ask for its store, beside the same
while they ask for another one, and alone."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from sqlite3 import connect

from tests.benchmarks.client import inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.measure import Effort, Figure, median, p99
from tests.benchmarks.site import JOURNAL, Site
from tests.benchmarks.store import HUGE


def writers(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """A store with each kind of journal; the other store is asked for as often and never changes,
    so that the processors are as busy."""
    path = site.ground.stores[JOURNAL][0]
    for mode in ("wal", "delete"):
        daemon.rest()
        with closing(connect(path)) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
        alone, beside, asked = [], [], []
        for _ in range(4):
            alone += _commits(path, effort.writes)
            with _clients(daemon, inject(site.cwd(HUGE))):
                beside += _commits(path, effort.writes)
            with _clients(daemon, inject(site.cwd(JOURNAL))):
                asked += _commits(path, effort.writes)
        yield Figure(
            "writers", "a commit, WAL" if mode == "wal" else "a commit, rollback journal",
            site.rows, median(asked), p99=p99(asked), floor=median(beside),
            floor_name="8 clients of another store",
            note=f"p99 beside those {p99(beside):.2f} ms;"
            f" alone {median(alone):.2f} ms, p99 {p99(alone):.2f} ms",
        )  # fmt: skip


def _commits(path: str, rows: int) -> list[float]:
    """Milliseconds of each commit."""
    argv = [sys.executable, "-m", "tests.benchmarks.writer", path, JOURNAL, str(rows)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    return [float(taken) for taken in json.loads(done.stdout)]


@contextmanager
def _clients(daemon: Daemon, request: bytes) -> Iterator[None]:
    """Eight of them, who ask for the same all the time."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            daemon.client.load([request], 8, 80)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()
