"""Answers beside writers that never stop: each is one state of each store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.stores.connection import Connection
from claudemem_daemon.stores.model import StoreRef
from tests.selection.asking import ask, open_pool
from tests.stores.reading import rows
from tests.support.stores import OtherProcess, add_observations, make_store, run_sql

ANSWERS: Final = 150
"""Of each of the askers."""
LIMITS: Final = (5, 20, 50)

WRITER: Final = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
number = 1000
while True:
    number += 1
    db.execute(
        "INSERT INTO observations (id, memory_session_id, project, type, title, created_at,"
        " created_at_epoch) VALUES (?, 's', 'app', 'discovery', ?, '', ?)",
        (number, f"{number}", 1_800_000_000_000 + number),
    )
    # Of each three rows the second goes again, in a transaction of its own.
    if number % 3 == 1:
        db.execute("DELETE FROM observations WHERE id = ?", (number - 1,))
    print(number, flush=True)
    time.sleep(1 / float(sys.argv[2]))  # the rate is the subject
"""


@contextmanager
def writing(path: str, rows_a_second: int) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", WRITER, path, str(rows_a_second)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate(timeout=30)


def states(ids: list[int]) -> bool:
    """Whether these are the newest rows of a state that the store had: by the writer's rule the
    highest id tells which rows there were, but for the one that it was just about to delete."""
    if not ids or ids[0] <= 1000:
        return ids == sorted(ids, reverse=True)
    top, lowest = ids[0], ids[-1]
    expected = [n for n in range(top, max(lowest, 1001) - 1, -1) if n % 3 or n == top]
    waiting = [n for n in range(top, max(lowest, 1001) - 1, -1) if n % 3 or n >= top - 1]
    return [n for n in ids if n > 1000] in (expected, waiting)


def of_store(selection: Selection, path: str) -> list[int]:
    return [row.id for row in selection.observations if row.store == path]


def test_no_answer_beside_two_writers_has_a_hole(tmp_path: Path) -> None:
    """A store with a rollback journal that gets 50 rows a second beside one with a WAL."""
    rollback = make_store(tmp_path / "rollback.db", journal="delete")
    wal = make_store(tmp_path / "wal.db")
    for path in (rollback, wal):
        add_observations(path, [{} for _ in range(60)])

    def asker(number: int) -> list[str]:
        wrong = []
        for turn in range(ANSWERS):
            answer = ask(rollback, wal, pool=pool, limit=LIMITS[(turn + number) % len(LIMITS)])
            assert answer.complete, answer.warnings
            for path in (rollback, wal):
                ids = of_store(answer, path)
                if not states(ids):
                    wrong.append(f"{path}: {ids}")
        return wrong

    with open_pool() as pool:
        with writing(rollback, 50), writing(wal, 200), ThreadPoolExecutor(3) as threads:
            found = [one for each in threads.map(asker, range(3)) for one in each]
        assert found == []
        # When all is quiet, what is remembered is what is there.
        for path in (rollback, wal):
            rows = [int(row[0]) for row in run_sql(path, NEWEST) or ()]
            assert of_store(ask(path, pool=pool, limit=20), path) == rows


NEWEST: Final = (
    "SELECT id FROM observations WHERE project = 'app'"
    " ORDER BY created_at_epoch DESC, id DESC LIMIT 20"
)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_rows_are_kept_under_the_version_of_their_own_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: str
) -> None:
    """A commit between the look at the version and the beginning of the transaction: what is read
    then is the later state, and is not taken for the earlier one's."""
    path = make_store(tmp_path / "s.db", journal=journal)
    add_observations(path, [{}])
    begin, ids = Connection.begin, count(2)
    with open_pool() as pool, OtherProcess(path) as writer:
        assert rows(pool, path) == [1]

        def late(connection: Connection, deadline: Deadline) -> None:
            if (number := next(ids)) < 4:
                writer.run("UPDATE observations SET id = ?", (number,))
            begin(connection, deadline)

        monkeypatch.setattr(Connection, "begin", late)
        with pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
            assert reader.highest_id() == 3
            assert reader.version.still(reader.version.number)
