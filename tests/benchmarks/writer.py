"""python -m tests.benchmarks.writer STORE PROJECT ROWS: a writer as claude-mem is one, timed.

It commits so many rows, one every 20 ms, and prints the milliseconds of each commit as JSON: with
those that it waited for a lock, as long as 5 seconds.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from typing import Final

from tests.benchmarks.store import new_observation

_PAUSE: Final = 0.02


def main(path: str, project: str, rows: str) -> None:
    taken = []
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as db:
        last = db.execute("SELECT max(id) FROM observations").fetchone()[0]
        began = time.monotonic()
        for number in range(1, int(rows) + 1):
            time.sleep(max(0.0, began + number * _PAUSE - time.monotonic()))  # the rate
            before = time.perf_counter()
            db.execute(*new_observation(last + number, project, f"Written meanwhile {number}"))
            taken.append((time.perf_counter() - before) * 1000)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
