"""Stores as they really are: locked, damaged, replaced, foreign, someone else's, on odd paths."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores import connection as connection_module
from claudemem_daemon.stores.connection import Connection
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.stores.sqlite_store import BACK_OFF_SECONDS, MAX_IDLE, SqliteStore
from tests.stores.reading import open_pool, rows, state
from tests.support.files import needs_names_of_bytes
from tests.support.stores import (
    OtherProcess,
    add_observation,
    add_observations,
    make_store,
    run_sql,
)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = make_store(tmp_path / "s" / "claude-mem.db")
    add_observations(path, [{} for _ in range(3)])
    return path


def reason(path: str, within: float = 5.0) -> str:
    with open_pool() as pool, pytest.raises(StoreError) as caught:
        rows(pool, path, within)
    assert "\n" not in caught.value.message
    assert caught.value.path == path
    return caught.value.reason


@pytest.mark.parametrize(
    "change",
    [
        (
            "INSERT INTO observations (memory_session_id, project, type, created_at, created_at_epoch)"
            " VALUES ('s', 'app', 'bugfix', '', 1)"
        ),
        "UPDATE observations SET title = 'other' WHERE id = 1",
        "DELETE FROM observations WHERE id = 2",
        "ALTER TABLE observations ADD COLUMN more TEXT",
    ],
    ids=["insert", "update", "delete", "new column"],
)
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_glance_sees_every_commit_of_another_process(
    tmp_path: Path, change: str, journal: str
) -> None:
    path = make_store(tmp_path / "s.db", journal=journal)
    add_observations(path, [{}, {}])
    with open_pool() as pool, OtherProcess(path) as writer:
        before = state(pool, path)
        assert before.holds()
        assert before.holds()
        writer.run(change)
        assert not before.holds()
        assert state(pool, path).holds()


def test_a_glance_does_not_see_what_was_rolled_back(store: str) -> None:
    with open_pool() as pool, OtherProcess(store) as writer:
        before = state(pool, store)
        writer.run("BEGIN IMMEDIATE")
        writer.run("DELETE FROM observations")
        writer.run("ROLLBACK")
        assert before.holds()


def test_versions_of_one_opening_say_nothing_about_the_next(store: str) -> None:
    """SQLite counts from the start on each connection: an equal number may be another state."""
    with open_pool() as pool:
        before = state(pool, store)
        pool.failed(
            StoreRef(store, "told"), StoreError("a share was gone", path=store, reason="unreadable")
        )
        run_sql(store, "DELETE FROM observations")
        assert rows(pool, store) == []
        assert not before.holds()


def test_a_replaced_store_is_read_anew(store: str, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other.db", journal="delete")
    add_observation(other, id=77)
    with open_pool() as pool:
        before = state(pool, store)
        os.replace(other, store)
        for side in ("-wal", "-shm"):
            Path(store + side).unlink(missing_ok=True)
        assert not before.holds()
        assert rows(pool, store) == [77]


def test_a_symbolic_link_is_followed_to_where_it_points_now(store: str, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other.db")
    add_observation(other, id=77)
    link = str(tmp_path / "link.db")
    os.symlink(store, link)
    with open_pool() as pool:
        before = state(pool, link)
        assert len(rows(pool, link)) == 3
        os.symlink(other, link + ".new")
        os.replace(link + ".new", link)
        assert not before.holds()
        assert rows(pool, link) == [77]


def test_a_deleted_store_is_missing_and_one_made_again_is_read(store: str) -> None:
    with open_pool() as pool:
        before = state(pool, store)
        shutil.rmtree(os.path.dirname(store))
        assert not before.holds()
        with pytest.raises(StoreError) as caught:
            rows(pool, store)
        assert caught.value.reason == "missing"
        assert pool.describe() == ()
        make_store(store)
        add_observation(store, id=5)
        assert rows(pool, store) == [5]


def test_a_column_the_writer_adds_is_noticed(tmp_path: Path) -> None:
    """Case missing-merged-into-project-column."""
    path = make_store(tmp_path / "s.db", "9.1.1")
    add_observation(path, id=1)
    add_observation(path, id=2, project="old")
    with open_pool() as pool:
        assert rows(pool, path) == [1]
        run_sql(path, "ALTER TABLE observations ADD COLUMN merged_into_project TEXT")
        run_sql(path, "UPDATE observations SET merged_into_project = 'app' WHERE id = 2")
        with pool.reading(StoreRef(path, "told"), _soon()) as reader:
            assert reader.projects(column="merged_into_project") == ("app",)


@pytest.mark.parametrize(
    "name",
    [
        "a%20b?.db",
        "a#b?mode=rwc.db",
        "line\nbreak.db",
        "quote'\".db",
        "ü 漢.db",
        ":memory:",
        "x%00",
    ],
)
def test_a_path_may_hold_any_character(tmp_path: Path, name: str) -> None:
    path = make_store(tmp_path / name)
    add_observation(path)
    with open_pool() as pool:
        assert rows(pool, path) == [1]
    assert sorted(os.listdir(tmp_path))[0].startswith(name)


@needs_names_of_bytes
def test_a_path_may_be_no_utf_8(tmp_path: Path) -> None:
    path = make_store(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9.db")))
    add_observation(path)
    with open_pool() as pool:
        assert rows(pool, path) == [1]


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    """Case store-locked-busy: 300 ms."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path)
    with open_pool() as pool, OtherProcess(path) as writer:
        writer.run("BEGIN EXCLUSIVE")
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(rows, pool, path, 30.0)
            assert not answer.done()
            writer.run("COMMIT")
            assert answer.result(timeout=30) == [1]


def test_a_long_lock_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    """Case store-locked-busy: 30 s."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path)
    with open_pool() as pool, OtherProcess(path) as writer:
        before = state(pool, path)
        writer.run("BEGIN EXCLUSIVE")
        assert not before.holds()
        with pytest.raises(StoreError) as caught:
            rows(pool, path, 0.2)
        assert caught.value.reason == "busy"
        writer.run("ROLLBACK")
        assert rows(pool, path) == [1]


def test_a_wal_writer_in_the_middle_is_not_waited_for(store: str) -> None:
    """Case store-locked-busy: a WAL store answers at once, with what was committed."""
    with open_pool() as pool, OtherProcess(store) as writer:
        writer.run("BEGIN IMMEDIATE")
        writer.run("DELETE FROM observations")
        assert len(rows(pool, store, 0.5)) == 3
        writer.run("ROLLBACK")


def test_no_pages_are_kept_between_requests(store: str) -> None:
    """Dozens of stores are open at once; the system's page cache has their pages already."""
    add_observations(store, [{"narrative": "x" * 3000} for _ in range(100)])

    def kept(reader: Any) -> int:
        used: tuple[int, int] = reader._connection.db.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
        return used[0]

    with open_pool() as pool:
        for _ in range(2):
            with pool.reading(StoreRef(store, "told"), Deadline.after(20)) as reader:
                wanted = Wanted(projects=("app",))
                (found,) = reader.candidates("observations", wanted, 200)
                assert len(list(reader.rows("observations", found))) == 103
                during = kept(reader)
            assert kept(reader) < during / 10


def test_no_reading_is_left_open_between_requests(store: str) -> None:
    """An open one would keep the writer's WAL from being emptied."""
    with open_pool() as pool, OtherProcess(store) as writer:
        rows(pool, store)
        writer.run("UPDATE observations SET title = 'again'")
        assert pool.describe()[0].connections == 1
        ((busy, _, _),) = writer.run("PRAGMA wal_checkpoint(TRUNCATE)")
        assert busy == 0
        assert os.stat(store + "-wal").st_size == 0


@pytest.mark.parametrize("content", [b"", b"just a text\n" * 100], ids=["empty", "text"])
def test_a_file_that_is_no_store_is_foreign(tmp_path: Path, content: bytes) -> None:
    """Case one-corrupt-store-others-fine."""
    path = tmp_path / "s.db"
    path.write_bytes(content)
    assert reason(str(path)) == "foreign"
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    run_sql(path, "CREATE TABLE cookies (id INTEGER PRIMARY KEY)")
    with open_pool() as pool, pytest.raises(StoreError, match="cookies") as caught:
        rows(pool, path)
    assert caught.value.reason == "foreign"


@pytest.mark.parametrize("kind", ["VIEW", "VIRTUAL TABLE"])
def test_only_a_real_table_counts_as_observations(tmp_path: Path, kind: str) -> None:
    """A view can hold any query, one that never ends for instance."""
    path = make_store(tmp_path / "s.db")
    run_sql(path, "ALTER TABLE observations RENAME TO hidden")
    what = "AS SELECT * FROM hidden"
    if kind == "VIRTUAL TABLE":
        what = "USING fts5(id, memory_session_id, project, created_at_epoch)"
    run_sql(path, f"CREATE {kind} observations {what}")
    assert reason(path) == "foreign"


def test_a_damaged_store_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    """Case one-corrupt-store-others-fine."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observations(path, [{"narrative": "x" * 900} for _ in range(300)])
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 8192))
    damaged = Path(path).read_bytes()
    with open_pool() as pool:
        with pytest.raises(StoreError, match=r"SQLite code \d+") as caught:
            rows(pool, path)
        assert caught.value.reason == "corrupt"
        assert not pool.describe()[0].ok
        assert Path(path).read_bytes() == damaged
        os.unlink(path)
        make_store(path)
        assert rows(pool, path) == []
        assert pool.describe()[0].ok


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_regular_file_is_never_opened(tmp_path: Path, kind: str) -> None:
    """Opening a FIFO would wait for ever."""
    path = tmp_path / "s.db"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert reason(str(path)) == "foreign"


def test_another_users_store_is_not_opened(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case sidecar-files-owned-by-root: opening it would leave side files of ours there."""
    before = sorted(os.listdir(os.path.dirname(store)))
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert reason(store) == "owner"
    assert sorted(os.listdir(os.path.dirname(store))) == before


AS_NOBODY = """
import os, sys
from claudemem_daemon.errors import StoreError
from tests.stores.reading import open_pool, rows, state
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with open_pool() as pool:
    for _ in range(2):
        try:
            print(rows(pool, sys.argv[1]))
        except StoreError as error:
            print(error.reason, error.message.partition(": ")[2])
    try:
        print(state(pool, sys.argv[1]).holds())
    except StoreError as error:
        print(error.reason)
"""


@pytest.fixture
def locked_store(tmp_path: Path) -> str:
    """A WAL store in a folder that its owner, never root, may not write."""
    path = make_store(tmp_path / "locked" / "s.db")
    add_observations(path, [{}, {}])
    return path


def as_a_plain_user(path: str) -> list[str]:
    """What a user who is not root gets to see; root may write everywhere."""
    folder = os.path.dirname(path)
    for name in os.listdir(folder):
        inside = os.path.join(folder, name)
        os.chmod(inside, 0o444)
        if os.geteuid() == 0:
            os.chown(inside, 65534, 65534)
    before = sorted(os.listdir(folder))
    opened = [(one, stat.S_IMODE(os.stat(one).st_mode)) for one in _above(folder)]
    for one, mode in opened:
        os.chmod(one, mode | 0o055)
    os.chmod(folder, 0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, path],
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(folder)) == before
        return done.stdout.splitlines()
    finally:
        os.chmod(folder, 0o755)
        for one, mode in opened:
            os.chmod(one, mode)


def _above(folder: str) -> list[str]:
    found, parent = [], os.path.dirname(folder)
    while parent.startswith("/tmp/") or "/pytest-" in parent:
        found.append(parent)
        parent = os.path.dirname(parent)
    return found


def test_a_wal_store_nobody_has_open_is_read_where_nothing_may_be_written(
    locked_store: str,
) -> None:
    """Case wal-store-nobody-has-open, first variant; and such a reading never counts as the state
    the store is known to be in."""
    assert as_a_plain_user(locked_store) == ["[2, 1]", "[2, 1]", "False"]


def test_a_wal_that_cannot_be_read_keeps_the_store_from_being_read(
    locked_store: str, tmp_path: Path
) -> None:
    """Case wal-store-nobody-has-open, second variant: never the base file alone."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with OtherProcess(locked_store) as writer:
        writer.run("UPDATE observations SET title = 'in the WAL'")
        for name in ("s.db", "s.db-wal"):
            shutil.copy(os.path.join(os.path.dirname(locked_store), name), copy / name)
        assert os.path.getsize(copy / "s.db-wal") > 0
        told = as_a_plain_user(str(copy / "s.db"))
    pending = "wal_pending store not readable: WAL pending, directory not writable"
    assert told == [pending, pending, "wal_pending"]


def test_a_share_with_io_errors_is_left_alone_for_a_while(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case network-or-wsl-store."""
    opened: list[str] = []

    def fail(path: str, *_: object, **__: object) -> None:
        opened.append(path)
        raise apsw.IOError("disk I/O error")

    with open_pool() as pool:
        with monkeypatch.context() as patch:
            patch.setattr(connection_module, "Connection", fail)
            for _ in range(3):
                with pytest.raises(StoreError, match="network file system") as caught:
                    rows(pool, store)
                assert caught.value.reason == "io"
        assert opened == [store]
        monkeypatch.setattr(time, "monotonic", _later(BACK_OFF_SECONDS))
        assert len(rows(pool, store)) == 3


def test_a_query_is_stopped_at_the_deadline_and_the_connection_still_serves(store: str) -> None:
    add_observations(store, [{"concepts": ["x"] * 50} for _ in range(8000)])
    endless = StoreRef(store, "told")
    with open_pool() as pool:
        with pytest.raises(StoreError) as caught:
            count_for_ever(pool, endless)
        assert caught.value.reason == "slow"
        assert len(rows(pool, store)) == 8003


def test_many_threads_share_a_store_that_is_replaced_all_the_time(
    store: str, tmp_path: Path
) -> None:
    """Case apsw-connection-shared-by-threads."""
    spare = [make_store(tmp_path / f"{n}.db", journal="delete") for n in range(12)]
    for number, path in enumerate(spare):
        add_observations(path, [{"id": number * 10 + n} for n in (1, 2, 3)])
    shutil.copy(spare[0], store + ".first")
    for side in ("-wal", "-shm"):
        Path(store + side).unlink(missing_ok=True)
    os.replace(store + ".first", store)
    whole = [sorted((n * 10 + 1, n * 10 + 2, n * 10 + 3), reverse=True) for n in range(12)]
    over = threading.Event()

    def serve(pool: StorePool) -> int:
        served = 0
        while not over.is_set() or not served:
            assert rows(pool, store) in whole
            served += 1
        return served

    with open_pool() as pool:
        with ThreadPoolExecutor(10) as threads:
            running = [threads.submit(serve, pool) for _ in range(10)]
            for path in spare[1:]:
                os.replace(path, store)
                seen = rows(pool, store)
                assert seen in whole
            over.set()
            assert all(one.result(timeout=60) > 0 for one in running)
        assert rows(pool, store) == whole[-1]
        assert 1 <= pool.describe()[0].connections <= MAX_IDLE


def read_once(pool: StorePool, path: str) -> tuple[Candidate, ...]:
    wanted = Wanted(projects=("app",))
    with pool.reading(StoreRef(path, "test"), _soon()) as reader:
        read = partial(reader.flow, "observations", wanted, 10)
        return reader.once(("rows",), lambda: tuple(read()))


def test_what_was_read_of_a_replaced_file_is_not_remembered_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is replaced, and read by another request, once a connection has been found."""
    path, other = (make_store(tmp_path / f"{n}.db", journal="delete") for n in "ab")
    add_observations(path, [{"id": 1}])
    add_observations(other, [{"id": 7}, {"id": 8}])
    take = SqliteStore._take
    with open_pool() as pool:

        def overtaken(store: SqliteStore, mode: Any, deadline: Deadline) -> Connection:
            found = take(store, mode, deadline)
            monkeypatch.undo()
            os.replace(other, path)
            assert [row.id for row in read_once(pool, path)] == [8, 7]
            return found

        monkeypatch.setattr(SqliteStore, "_take", overtaken)
        assert [row.id for row in read_once(pool, path)] == [8, 7]
        assert [row.id for row in read_once(pool, path)] == [8, 7]


def count_for_ever(pool: StorePool, ref: StoreRef) -> None:
    with pool.reading(ref, _soon(0.05)) as reader:
        while True:
            reader.groups(Wanted(projects=("app",), concepts=("none such",)))


def _soon(seconds: float = 10.0) -> Deadline:
    return Deadline.after(seconds)


def _later(seconds: float) -> object:
    real = time.monotonic
    return lambda: real() + seconds
