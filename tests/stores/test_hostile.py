"""Files at the place of a store that are no store, or none that can be read now: bounded in time and
memory, named in words, left as they are, and no other store's trouble."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sqlite_store import SqliteStore
from tests.selection.asking import ask, ids
from tests.stores.reading import open_pool, rows
from tests.support.stores import OtherProcess, add_observation, add_observations, make_store

MAX_GROWTH_MB = 64


@pytest.fixture
def left_open() -> Iterator[ExitStack]:
    """What a case keeps open until its end."""
    with ExitStack() as stack:
        yield stack


def fifo(path: str, _: ExitStack) -> None:
    os.mkfifo(path)


def device(path: str, _: ExitStack) -> None:
    os.symlink("/dev/zero", path)


def listening_socket(path: str, left_open: ExitStack) -> None:
    listening = left_open.enter_context(socket.socket(socket.AF_UNIX))
    os.symlink(path + "s", path)
    listening.bind(path + "s")


def loop(path: str, _: ExitStack) -> None:
    os.symlink(path + "2", path)
    os.symlink(path, path + "2")


def link_to_nothing(path: str, _: ExitStack) -> None:
    os.symlink(path + "2", path)


def empty_terabyte(path: str, _: ExitStack) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


def store_of_a_terabyte(path: str, _: ExitStack) -> None:
    """Whole at its beginning, and a hole for the rest."""
    make_store(path, journal="delete")
    os.truncate(path, 1 << 40)


def truncated(path: str, _: ExitStack) -> None:
    make_store(path, journal="delete")
    add_observations(path, [{"narrative": "x" * 900} for _ in range(300)])
    os.truncate(path, os.path.getsize(path) // 3)


def hot_journal(path: str, _: ExitStack) -> None:
    """Its writer was killed when part of a transaction was already in the file."""
    make_store(path, journal="delete")
    add_observations(path, [{"narrative": "x" * 900} for _ in range(300)])
    with OtherProcess(path) as writer:
        writer.run("PRAGMA cache_size = 1")
        writer.run("BEGIN IMMEDIATE")
        writer.run("UPDATE observations SET narrative = upper(narrative)")
        writer.kill()
    assert os.path.getsize(path + "-journal") > 0


def exclusive_rollback(path: str, left_open: ExitStack) -> None:
    make_store(path, journal="delete")
    left_open.enter_context(OtherProcess(path)).run("BEGIN EXCLUSIVE")


def exclusive_wal(path: str, left_open: ExitStack) -> None:
    make_store(path)
    writer = left_open.enter_context(OtherProcess(path))
    writer.run("PRAGMA locking_mode = EXCLUSIVE")
    writer.run("CREATE TABLE held (x)")


CASES: dict[Callable[[str, ExitStack], None], tuple[str, str]] = {
    fifo: ("foreign", "not a regular file"),
    device: ("foreign", "not a regular file"),
    listening_socket: ("foreign", "not a regular file"),
    loop: ("unreadable", "symbolic links"),
    link_to_nothing: ("missing", "a link to a store that is not there"),
    empty_terabyte: ("foreign", "no SQLite file"),
    truncated: ("corrupt", "damaged"),
    hot_journal: ("hot_journal", "its writer died in a transaction: open it once with claude-mem"),
    exclusive_rollback: ("busy", "locked by another process"),
    exclusive_wal: ("busy", "locked by another process"),
}


def fingerprint(folder: Path) -> dict[str, object]:
    """Kind, size and, of what has one, the first megabytes' hash of all in a folder."""
    found: dict[str, object] = {}
    for name in sorted(os.listdir(folder)):
        seen = os.lstat(folder / name)
        content = b""
        if stat.S_ISREG(seen.st_mode) and not name.endswith("-shm"):
            with open(folder / name, "rb") as file:
                content = file.read(8 << 20)
        found[name] = (seen.st_mode, seen.st_size, hashlib.sha256(content).hexdigest())
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_is_no_store_is_named_left_alone_and_no_one_elses_trouble(
    tmp_path: Path, left_open: ExitStack, case: Callable[[str, ExitStack], None]
) -> None:
    good = make_store(tmp_path / "good" / "s.db")
    add_observation(good, id=7)
    folder = tmp_path / "bad"
    folder.mkdir()
    path = str(folder / "s.db")
    case(path, left_open)
    before, used = fingerprint(folder), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reason, words = CASES[case]
    with open_pool() as pool:
        for _ in range(2):
            answer = ask(path, good, pool=pool, within=1.0)
            assert ids(answer) == [7]
            (warning,) = answer.warnings
            assert warning.code == f"store_{reason}"
            assert warning.path == path
            assert warning.message.startswith(f"{path}: ")
            assert words in warning.message
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
    assert grown < MAX_GROWTH_MB * 1024
    assert fingerprint(folder) == before


def test_a_terabyte_behind_a_store_costs_nothing(tmp_path: Path, left_open: ExitStack) -> None:
    path = str(tmp_path / "s.db")
    store_of_a_terabyte(path, left_open)
    with open_pool() as pool:
        assert rows(pool, path, 5.0) == []


def test_a_journal_is_never_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder may not be written the file is read as it lies there, but not if a part of a
    transaction is in it."""
    path = str(tmp_path / "s.db")
    hot_journal(path, ExitStack())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with open_pool() as pool, pytest.raises(StoreError) as caught:
        rows(pool, path)
    assert caught.value.reason == "hot_journal"


def test_a_lock_that_ends_is_no_trouble_any_more(tmp_path: Path) -> None:
    """Nor one of a writer that died and was then opened again."""
    path = str(tmp_path / "s.db")
    hot_journal(path, ExitStack())
    with open_pool() as pool:
        with pytest.raises(StoreError):
            rows(pool, path)
        assert [use.ok for use in pool.describe()] == [False]
        with OtherProcess(path) as writer:
            assert writer.run("SELECT count(*) FROM observations") == [[300]]
        assert len(rows(pool, path)) == 300
        assert [use.ok for use in pool.describe()] == [True]


def test_the_end_waits_for_no_query(tmp_path: Path) -> None:
    """A query that would run for an hour ends when the pool is closed."""
    path = make_store(tmp_path / "s.db")
    add_observation(path)
    running = threading.Event()

    def note() -> bool:
        running.set()
        return False

    def count_for_ever(pool: StorePool) -> None:
        with pool.reading(StoreRef(path, "told"), Deadline.after(3600)):
            store = pool._stores[path]
            assert isinstance(store, SqliteStore)
            (connection,) = store._in_use
            connection.db.set_progress_handler(note, 1000)
            connection.db.execute(ENDLESS).fetchall()

    with open_pool() as pool, ThreadPoolExecutor(1) as thread:
        counted = thread.submit(count_for_ever, pool)
        assert running.wait(30)
        pool.close()
        with pytest.raises(StoreError) as caught:
            counted.result(30)
        assert caught.value.reason == "slow"


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
