"""Every change of a store is in the very next answer, by whatever means it came, and a store that
nobody asks for is left as it would be without us."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import apsw
import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import file_state
from claudemem_daemon.stores import pool as pool_module
from claudemem_daemon.stores import states as states_module
from claudemem_daemon.stores.connection import Connection
from claudemem_daemon.stores.failures import wal_of
from claudemem_daemon.stores.interface import StoreChanged, StoreReader
from claudemem_daemon.stores.model import StoreRef, StoreVersion
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.states import SqliteStates
from tests.stores.reading import APP, open_pool, rows, settle, state
from tests.support.stores import (
    OtherProcess,
    add_observation,
    add_observations,
    make_store,
    run_sql,
)

SOON = 10.0


def overwrite(source: str, target: str) -> None:
    """As `cp` does: the target keeps its inode."""
    subprocess.run(["cp", source, target], check=True, timeout=30)


def overwrite_by_blocks(source: str, target: str) -> None:
    """As `rsync --inplace` does: only what differs is written, and the times are the source's."""
    new, old = Path(source).read_bytes(), Path(target).read_bytes()
    with open(target, "r+b") as file:
        for at in range(0, len(new), 4096):
            if new[at : at + 4096] != old[at : at + 4096]:
                file.seek(at)
                file.write(new[at : at + 4096])
        file.truncate(len(new))
    seen = os.stat(source)
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def overwrite_by_another_name(source: str, target: str) -> None:
    """As where the file alone is mounted into a container: another name, the same inode."""
    link = target + ".link"
    os.link(target, link)
    overwrite(source, link)
    os.unlink(link)


def write_by_another_name(_: str, target: str) -> None:
    """A writer that knows the file by another name has its WAL beside that name."""
    link = os.path.join(os.path.dirname(target), "elsewhere", "claude-mem.db")
    os.makedirs(os.path.dirname(link))
    os.link(target, link)
    with OtherProcess(link) as writer:
        writer.run("DELETE FROM observations WHERE id < 3")
        writer.run("UPDATE observations SET id = 77")
        writer.run("PRAGMA wal_checkpoint")
    os.unlink(link)


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize(
    "change",
    [overwrite, overwrite_by_blocks, overwrite_by_another_name, write_by_another_name],
)
def test_what_is_written_past_sqlite_is_in_the_next_answer(
    tmp_path: Path, change: Callable[[str, str], None], journal: str
) -> None:
    """Both files have as many pages and were written as often: to SQLite they are the same."""
    path = make_store(tmp_path / "a" / "s.db", journal=journal)
    add_observations(path, [{"id": n} for n in (1, 2, 3)])
    other = make_store(tmp_path / "b" / "s.db", journal=journal)
    add_observations(other, [{"id": n} for n in (75, 76, 77)])
    with open_pool() as pool:
        before = state(pool, path)
        assert rows(pool, path) == [3, 2, 1]
        change(other, path)
        assert not before.holds()
        assert rows(pool, path)[0] == 77
        assert state(pool, path).holds()


@pytest.mark.parametrize("idle", [False, True])
def test_other_tables_at_the_same_schema_version_are_read_as_they_are(
    tmp_path: Path, idle: bool
) -> None:
    """Both commit counts differ, so SQLite reads the pages anew; but not the tables. Where it has
    closed the store meanwhile, it is we who remember the tables."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path, id=1)
    other = make_store(tmp_path / "other.db", journal="delete")
    for n in range(3):
        add_observation(other, id=5 + n)
    with apsw.Connection(other) as db:
        (version,) = db.execute("PRAGMA schema_version").fetchall()[0]
        db.execute("ALTER TABLE observations RENAME TO away")
        db.execute("CREATE TABLE observations AS SELECT id + 90 AS id, * FROM away")
        db.execute("ALTER TABLE observations DROP COLUMN synced_at")
        db.execute(f"PRAGMA schema_version = {version}")
    db.close()
    with open_pool() as pool:
        assert rows(pool, path) == [1]
        if idle:
            let_go(pool, path)
        overwrite(other, path)
        assert rows(pool, path) == [97, 96, 95]


def test_a_copy_that_is_not_finished_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read while the file was just being written counts for that answer alone."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path)
    with open_pool() as pool:
        monkeypatch.setattr("time.time_ns", lambda: os.stat(path).st_ctime_ns + 1_000_000)
        with pool.reading(StoreRef(path, "told"), Deadline.after(SOON)) as reader:
            early = reader.version
            assert reader.once(("read",), lambda: 1) == 1
            assert reader.once(("read",), lambda: 2) == 2
        monkeypatch.undo()
        assert early.racy
        assert not early.holds()
        assert state(pool, path).holds()


@pytest.mark.parametrize("make", [file_state, None], ids=["file", "store"])
def test_a_second_change_within_one_tick_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object
) -> None:
    """Where the clock of the file system does not advance between two changes."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path, id=1)
    now = os.stat(path).st_ctime_ns
    monkeypatch.setattr("time.time_ns", lambda: now + 1_000_000)
    if make is not None:
        assert file_state(path).racy
        return
    states = SqliteStates(path, count(1))
    number, racy = states.number(Deadline.after(SOON))
    assert (number, racy) == (1, True)
    monkeypatch.setattr("time.time_ns", lambda: now + states_module.RACY_NS)
    assert states.number(Deadline.after(SOON)) == (1, False)
    states.let_go()


def open_files(path: str) -> list[str]:
    """What this process has open of a store, side files too."""
    held = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(path):
            held.append(target)
    return held


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to list open files")
def test_stores_beyond_the_bound_are_closed_once_they_have_been_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more stores than the pool has room for, the first leave it while one answer reads them all."""
    monkeypatch.setattr(pool_module, "MAX_STORES", 12)
    first = Path(make_store(tmp_path / "0.db"))
    paths = [tmp_path / f"{number}.db" for number in range(20)]
    for path in paths[1:]:
        shutil.copy(first, path)
    opened = []
    with open_pool() as pool:
        for _ in range(2):
            with ExitStack() as readings:
                for path in paths:
                    reading = pool.reading(StoreRef(str(path), "told"), Deadline.after(20))
                    readings.enter_context(reading)
            opened.append({name for name in open_files(str(tmp_path)) if name.endswith(".db")})
    assert [len(stores) for stores in opened] == [12, 12]


def test_another_process_can_have_a_store_alone_between_answers(tmp_path: Path) -> None:
    """Though answers are sent again and again meanwhile: none of them needs the open store."""
    path = make_store(tmp_path / "s.db")
    add_observation(path, id=1)
    pool = StorePool()
    try:
        before = state(pool, path)

        def alone() -> bool:
            before.holds()
            with suppress(AssertionError):
                return writer.run("PRAGMA journal_mode = delete") == [["delete"]]
            return False

        with OtherProcess(path) as writer:
            writer.run("PRAGMA busy_timeout = 0")
            wait_until(alone)
        assert rows(pool, path) == [1]
    finally:
        pool.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to list open files")
def test_a_store_that_nobody_asks_for_is_let_go_of(tmp_path: Path) -> None:
    """The last writer to leave moves its commits into the file and takes the side files along."""
    path = make_store(tmp_path / "s.db")
    add_observation(path, id=1)
    settle(path)
    pool = StorePool()
    try:
        before = state(pool, path)
        wait_until(lambda: not open_files(path) and pool.describe()[0].connections == 0)
        assert before.holds()
        assert not open_files(path)
        with OtherProcess(path) as writer:
            writer.run("UPDATE observations SET id = 2")
        assert sorted(os.listdir(tmp_path)) == ["s.db"]
        assert not before.holds()
        shutil.copy(path, tmp_path / "copy.db")
        assert rows(pool, path) == rows(pool, str(tmp_path / "copy.db")) == [2]
        # The next quiet is noticed as well.
        wait_until(lambda: not open_files(path))
    finally:
        pool.close()


def test_an_answer_from_before_the_quiet_is_as_good_as_its_store(tmp_path: Path) -> None:
    """Also after the store was opened again for another question."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path, id=1)
    with open_pool() as pool:
        before = state(pool, path)
        for store in pool._stores.values():
            store.let_go()
        assert before.holds()
        assert state(pool, path) == before
        assert before.holds()
        add_observation(path, id=2)
        assert not before.holds()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to list open files")
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_is_known_of_an_unchanged_store_is_read_without_opening_it(
    tmp_path: Path, journal: str
) -> None:
    path = make_store(tmp_path / "s.db", journal=journal)
    add_observation(path, id=1, title="first")
    settle(path)
    ref = StoreRef(path, "told")
    with open_pool() as pool:
        for opened in (True, False):
            with pool.reading(ref, Deadline.after(SOON), locked=False) as reader:
                assert titles(reader) == ["first"]
                assert bool(open_files(path)) is opened
                version = reader.version
            (store,) = pool._stores.values()
            store.let_go()
        assert version.holds()
        run_sql(path, "UPDATE observations SET title = 'second'")
        assert not version.holds()
        with pool.reading(ref, Deadline.after(SOON), locked=False) as reader:
            assert titles(reader) == ["second"]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_reading_that_opens_the_store_late_is_of_its_own_state(
    tmp_path: Path, journal: str
) -> None:
    path = make_store(tmp_path / "s.db", journal=journal)
    add_observation(path, id=1)
    ref = StoreRef(path, "told")
    with open_pool() as pool:
        state(pool, path)

        def overtaken() -> None:
            with pool.reading(ref, Deadline.after(SOON), locked=False) as reader:
                add_observation(path, id=2)
                list(reader.flow("observations", APP, 50))

        with pytest.raises(StoreChanged):
            overtaken()


@pytest.mark.skipif(not hasattr(apsw, "SQLITE_CHECKPOINT_NOOP"), reason="needs SQLite 3.51")
def test_an_answer_from_before_the_quiet_is_good_beside_a_writer_that_writes_nothing(
    tmp_path: Path,
) -> None:
    path = make_store(tmp_path / "s.db")
    add_observation(path, id=1)
    with open_pool() as pool, OtherProcess(path) as writer:
        writer.run("UPDATE observations SET title = 'in the WAL'")
        before = let_go(pool, path)
        assert before.holds()
        assert state(pool, path) == before
        writer.run("PRAGMA wal_checkpoint(RESTART)")
        writer.run("UPDATE observations SET title = 'in its beginning'")
        assert not before.holds()
        assert let_go(pool, path).holds()


def test_a_commit_on_its_way_is_not_taken_for_quiet(tmp_path: Path) -> None:
    """Its frames are in the WAL before the index tells of them, which no file's state shows."""
    path = make_store(tmp_path / "s.db")
    add_observation(path, id=1)
    early, late = str(tmp_path / "early"), str(tmp_path / "late")
    with open_pool() as pool, OtherProcess(path) as writer:
        writer.run("UPDATE observations SET id = 2")
        write_over(path + "-shm", early)
        writer.run("UPDATE observations SET id = 3")
        write_over(path + "-shm", late)
        write_over(early, path + "-shm")
        before = let_go(pool, path)
        assert not before.holds()
        assert rows(pool, path) == [2]
        write_over(late, path + "-shm")
        assert rows(pool, path) == [3]


def write_over(source: str, target: str) -> None:
    """By another process: SQLite's locks of this one end where it closes a file that has any."""
    command = ["dd", f"if={source}", f"of={target}", "conv=notrunc", "status=none"]
    subprocess.run(command, check=True, timeout=30)


def let_go(pool: StorePool, path: str) -> StoreVersion:
    """The version of a store that was read, and then closed as after a while without questions."""
    settle(wal_of(path))
    version = state(pool, path)
    for store in pool._stores.values():
        store.let_go()
    return version


def test_a_store_behind_a_link_has_its_wal_where_the_file_is(tmp_path: Path) -> None:
    path = make_store(tmp_path / "far" / "s.db")
    add_observation(path, id=1)
    link = str(tmp_path / "link.db")
    os.symlink(path, link)
    with open_pool() as pool, OtherProcess(path) as writer:
        before = let_go(pool, link)
        writer.run("UPDATE observations SET id = 2")
        assert not before.holds()
        untouched = StorePool(untouched=True)
        assert rows(pool, link) == rows(untouched, link) == [2]
        untouched.close()


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_of_a_store_is_what_it_has(tmp_path: Path, journal: str, seed: int) -> None:
    """A writer does this and that, the store is closed now and then, and each time what is known of
    it is compared with what a pool that starts now reads."""
    path, some = make_store(tmp_path / "s.db", journal=journal), random.Random(seed)
    add_observations(path, [{"id": number} for number in range(1, 6)])
    ref, known = StoreRef(path, "told"), None
    with open_pool() as pool, ExitStack() as stack:
        writer = stack.enter_context(OtherProcess(path))
        for _ in range(60):
            if some.random() < 0.3:
                for statement in some.choice(WRITES):
                    writer.run(statement, [str(some.random())] * statement.count("?"))
            elif some.random() < 0.1:
                stack.close()
                writer = stack.enter_context(OtherProcess(path))
            if some.random() < 0.5:
                for state_file in (path, wal_of(path)):
                    settle(state_file)
            if some.random() < 0.5:
                for store in pool._stores.values():
                    store.let_go()
            with open_pool() as fresh:
                now = read(fresh, ref)[1]
            if known is not None and known[0].holds():
                assert known[1] == now
            known = read(pool, ref)
            assert known[1] == now


WRITES = (
    ("UPDATE observations SET title = ? WHERE id = 1",),
    ("UPDATE observations SET title = ?",),
    ("BEGIN IMMEDIATE", "UPDATE observations SET title = ?", "ROLLBACK"),
    ("BEGIN IMMEDIATE", "DELETE FROM observations WHERE id = 2", "COMMIT"),
    ("INSERT OR IGNORE INTO observations SELECT * FROM observations",),
    ("PRAGMA wal_checkpoint(PASSIVE)",),
    ("PRAGMA wal_checkpoint(RESTART)",),
    ("PRAGMA wal_checkpoint(RESTART)", "UPDATE observations SET title = ? WHERE id = 3"),
    ("PRAGMA wal_checkpoint(TRUNCATE)",),
    ("VACUUM",),
)


def read(pool: StorePool, ref: StoreRef) -> tuple[StoreVersion, list[object]]:
    with pool.reading(ref, Deadline.after(SOON), locked=False) as reader:
        found = titles(reader)
        reader.confirm()
        return reader.version, found


def titles(reader: StoreReader) -> list[object]:
    """Of the rows of a store, as an answer reads them."""
    found = reader.once(("found",), lambda: list(reader.flow("observations", APP, 50)))
    wide = {row.id: row for row in reader.rows("observations", found)}
    return [wide[row.id].cells[1] for row in found]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = Deadline.after(SOON)
    while not true():
        assert not deadline.passed


def test_a_writer_with_a_rollback_journal_does_not_wait_for_a_reading(tmp_path: Path) -> None:
    """It commits in its middle; what was read is then read again."""
    path = make_store(tmp_path / "s.db", journal="delete")
    add_observation(path, id=1)
    ref = StoreRef(path, "told")
    with open_pool() as pool, OtherProcess(path) as writer:
        writer.run("PRAGMA busy_timeout = 0")
        assert rows(pool, path) == [1]  # From now on it is known to have a rollback journal.
        with pool.reading(ref, Deadline.after(SOON), locked=False) as reader:
            assert reader.highest_id() == 1
            reader.confirm()
            writer.run("UPDATE observations SET id = 2")
            with pytest.raises(StoreChanged):
                reader.confirm()
        assert rows(pool, path) == [2]
        with pool.reading(ref, Deadline.after(SOON)) as reader:
            assert reader.highest_id() == 2
            with pytest.raises(AssertionError, match="locked"):
                writer.run("UPDATE observations SET id = 3")


def test_nothing_that_is_run_can_write(tmp_path: Path) -> None:
    """Not even a table of its own for the time being."""
    path = make_store(tmp_path / "s.db")
    connection = Connection(path)
    try:
        connection.prepare(Deadline.after(20))
        for statement in ("CREATE TEMP TABLE t (x)", "DELETE FROM observations"):
            with pytest.raises(apsw.ReadOnlyError):
                connection.db.execute(statement)
    finally:
        connection.close()


def test_a_schema_cannot_call_what_only_a_query_may(tmp_path: Path) -> None:
    """A column computed by a stranger's expression runs no function with effects."""

    def effect(*_: object) -> int:
        return 1

    path = str(tmp_path / "s.db")
    with apsw.Connection(path) as db:
        db.create_scalar_function("effect", effect, 0, deterministic=True)
        db.execute("CREATE TABLE t (a, b AS (effect()))")
        db.execute("INSERT INTO t VALUES (1)")
    db.close()
    connection = Connection(path)
    try:
        connection.db.create_scalar_function("effect", effect, 0, deterministic=True)
        with pytest.raises(apsw.Error, match="unsafe use of effect"):
            connection.db.execute("SELECT b FROM t").fetchall()
    finally:
        connection.close()
