"""A connection can change nothing, and runs nothing that a store's own schema brings along."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import file_state
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.connection import open_connection
from tests.stores.reading import open_pool, rows
from tests.support.stores import make_store


def test_a_connection_writes_nothing_and_trusts_no_schema(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db")
    connection = open_connection(path, 0, "usual", Deadline.after(20))
    try:
        assert connection.db.execute("PRAGMA query_only").fetchall() == [(1,)]
        assert connection.db.execute("PRAGMA trusted_schema").fetchall() == [(0,)]
        with pytest.raises(apsw.ReadOnlyError):
            connection.db.execute("CREATE TABLE x (y)")
    finally:
        connection.close()


def test_a_file_that_was_written_just_now_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    assert file_state(str(path)).racy


@pytest.mark.parametrize("side", ["-wal", "-journal"])
def test_what_lies_beside_an_empty_file_is_left_there(tmp_path: Path, side: str) -> None:
    """SQLite would delete it, though it only reads: the last that is left of a truncated store."""
    (tmp_path / "s.db").touch()
    beside = tmp_path / f"s.db{side}"
    beside.write_bytes(b"commits" * 1000)
    with open_pool() as pool, pytest.raises(StoreError, match="an empty file"):
        rows(pool, str(tmp_path / "s.db"))
    assert beside.read_bytes() == b"commits" * 1000
