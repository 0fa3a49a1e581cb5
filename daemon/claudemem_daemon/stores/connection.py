"""Read-only connections to a stranger's SQLite file."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import quote

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import State
from claudemem_daemon.stores.failures import (
    detail_of,
    has_content,
    store_error,
    unreachable,
    wal_of,
    wal_unreadable,
)

Identity = tuple[int, int]
"""device, inode"""

Mode = Literal["usual", "nolock", "immutable"]
"""nolock: no writer waits for us, and what was read counts only if the store was not written meanwhile;
for rollback journals alone. immutable: the file as it lies there, where nobody can be writing."""

STEPS: Final = 2000
"""Virtual machine steps between two calls of the guard: a call costs about a microsecond, the steps a
few hundred at most."""

_FIRST: Final = (
    "PRAGMA query_only = 1",
    "PRAGMA mmap_size = 0",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = 1",
    # In KiB. Small, for there may be dozens of stores; the system's page cache holds the rest.
    "PRAGMA cache_size = -256",
    "SELECT 1 FROM sqlite_schema LIMIT 1",
)
_SCHEMA_SIZE: Final = (
    "SELECT count(*), total(rootpage), total(length(sql)), total(length(name)) FROM sqlite_schema"
)
MAX_VALUE: Final = 64 * 1024 * 1024
"""Bytes; what `bounds` does not keep out ends the statement."""


def use_no_lookaside() -> None:
    """Before the first connection of the process: SQLite has 48 KB ready for the small needs of
    each, and there are two for each store; to do without them is not measurably slower."""
    apsw.shutdown()
    with suppress(TypeError):  # APSW before 3.54 cannot set it
        apsw.config(apsw.SQLITE_CONFIG_LOOKASIDE, 0, 0)
    apsw.initialize()


class Guard:
    """The progress handler of one connection: stops a statement at the deadline, or when it has
    used up a budget of steps."""

    def __init__(self) -> None:
        self.deadline: Deadline | None = None
        self.budget: int | None = None
        """Calls left before the running statement is stopped; None = only the deadline counts."""

    def __call__(self) -> bool:
        if self.budget is not None:
            self.budget -= 1
            if self.budget < 0:
                return True
        return self.deadline is not None and time.monotonic() >= self.deadline.at

    @property
    def spent(self) -> bool:
        """Whether it was the budget that stopped the statement, with time left."""
        over = self.budget is not None and self.budget < 0
        return over and not (self.deadline is not None and self.deadline.passed)


def _opened(path: str, mode: Mode, statements: int) -> apsw.Connection:
    """Opens lazily: the first statement reads the file. Raises `apsw.Error`."""
    # Byte for byte: as a URI the path may hold `%`, `?`, `#`, line breaks, and no UTF-8.
    name = "file://" + quote(os.fsencode(os.path.abspath(path)))
    db = apsw.Connection(
        name if mode == "usual" else f"{name}?{mode}=1",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        statementcachesize=statements,
    )
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return db


class Connection:
    """An open store file. Used by one thread at a time."""

    def __init__(self, path: str, *, opening: int = 0, mode: Mode = "usual") -> None:
        """Raises `apsw.Error`. `opening` is that of `SqliteStates`."""
        self.path = path
        self.opening = opening
        self.mode = mode
        self.guard = Guard()
        self.schema_version = 0
        self.schema_size: tuple[apsw.SQLiteValue, ...] = ()
        """How much `fits` found; empty before."""
        self.schema_damage: str | None = None
        """What SQLite says of the first part of the schema that it cannot parse."""
        self._checked: State | None = None
        self.db = db = _opened(path, mode, 48)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        db.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        db.set_progress_handler(self.guard, STEPS)

    def prepare(self, deadline: Deadline) -> None:
        """Open the file, once before the first query: only a statement tells whether it can be
        read."""
        self.wait_until(deadline)
        try:
            self._run(*_FIRST)
        except apsw.CorruptError as error:
            self.schema_damage = detail_of(error)
            # Makes SQLite use all that it can parse; it must not be so defensive when it is told.
            self.db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
            self._run("PRAGMA writable_schema = 1")
            self.db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            self._run(*_FIRST)

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self.db.execute(statement, can_cache=False).fetchall()

    def wait_until(self, deadline: Deadline) -> None:
        """Let locks be waited for, and statements run, no longer than that."""
        self.guard.deadline = deadline
        self.guard.budget = None
        self.db.set_busy_timeout(max(1, int(deadline.remaining() * 1000)))

    def begin(self, deadline: Deadline) -> bool:
        """Fix the state that is read; waits for a lock no longer than the deadline. Whether the
        store has a rollback journal, with which a writer waits for our locks."""
        self.wait_until(deadline)
        self.db.execute("BEGIN")
        # The transaction begins with the first reading.
        version = int(self._cell("PRAGMA schema_version"))  # type: ignore[arg-type]  # a number
        if version != self.schema_version:
            self.schema_version = version
            self.schema_size = ()
        return self._cell("PRAGMA journal_mode") != "wal"

    def fits(self, main: State | None) -> bool:
        """Whether what SQLite remembers of the schema is the file's. A file that was overwritten in
        place can have the same PRAGMA schema_version with other tables."""
        if main == self._checked and self.schema_size:
            return True
        size = self.db.execute(_SCHEMA_SIZE).fetchall()[0]
        fits = not self.schema_size or size == self.schema_size
        self.schema_size, self._checked = size, main
        return fits

    def _cell(self, statement: str) -> apsw.SQLiteValue:
        return self.db.execute(statement).fetchall()[0][0]

    def end(self) -> None:
        """Let go of the store: an open read transaction would keep its WAL from shrinking."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")
        # The next reading mostly comes after a write, which makes these pages worthless.
        self.drop_pages()

    def drop_pages(self) -> None:
        """Free SQLite's copies of the pages that were read; the system's page cache has them."""
        self.db.release_memory()

    def close(self) -> None:
        self.db.close(True)


class ChangeCounter:
    """A connection that only answers PRAGMA data_version: whether anyone wrote since."""

    def __init__(self, path: str, busy_ms: int) -> None:
        """Waits that long for a lock. Raises `apsw.Error`."""
        self._db = _opened(path, "usual", 2)
        self._db.set_busy_timeout(busy_ms)
        self._cursor = self._db.cursor()

    def commits(self, busy_ms: int) -> int:
        """Changes with every commit of another connection. Waits that long for a lock. Raises
        `apsw.Error`."""
        self._db.set_busy_timeout(busy_ms)
        rows = self._cursor.execute("PRAGMA data_version").fetchall()
        return int(rows[0][0])  # type: ignore[arg-type]  # a whole number, always

    def frames(self) -> int:
        """How many frames of the WAL are committed; -1 where SQLite does not tell. Raises
        `apsw.Error`."""
        # Since SQLite 3.51; an older one could take the mode that it does not know for a checkpoint.
        mode = getattr(apsw, "SQLITE_CHECKPOINT_NOOP", None)
        return -1 if mode is None else self._db.wal_checkpoint(mode=mode)[0]

    def close(self) -> None:
        self._db.close(True)


def ends_after(wal: str, frames: int) -> bool:
    """Whether no further frame of the same round follows in the WAL: none is of a commit that its
    index does not tell of yet."""
    if frames < 0:
        return False
    try:
        with open(wal, "rb", buffering=0) as file:
            head = file.read(32)
            file.seek(32 + frames * (24 + int.from_bytes(head[8:12], "big")))
            following = file.read(24)
    except OSError:
        return False
    # The salts are other ones in each round, which writes the WAL from its beginning.
    return len(head) == 32 and following[8:16] != head[16:24]


def open_connection(path: str, opening: int, mode: Mode, deadline: Deadline) -> Connection:
    """A connection that can read; as the file lies there where nobody can be writing.

    Raises `apsw.Error` and `StoreError`.
    """
    connection = Connection(path, opening=opening, mode=mode)
    try:
        connection.prepare(deadline)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        if mode == "immutable" or not may_be_immutable(path):
            raise
        connection = open_connection(path, opening, "immutable", deadline)
        if not may_be_immutable(path):
            connection.close()
            raise wal_unreadable(path) from None
    except BaseException:
        connection.close()
        raise
    return connection


def check_openable(path: str) -> Identity:
    """Which file is at `path` now, symbolic links followed.

    Raises `StoreError` for what may not be opened: what is missing, empty, no regular file, or
    another user's. Opening another user's WAL store would leave side files there that are ours, and
    that their owner can no longer use.
    """
    try:
        seen = os.stat(path)
    except (OSError, ValueError) as error:
        raise unreachable(path, error) from None
    if not stat.S_ISREG(seen.st_mode):
        raise store_error(path, "foreign", "not a regular file")
    if not seen.st_size:
        # SQLite would delete a WAL or journal beside it, though it only reads.
        raise store_error(path, "foreign", "an empty file")
    if seen.st_uid != os.geteuid():
        what = (
            f"belongs to user {seen.st_uid}, we are user {os.geteuid()};"
            " run as its owner, another user's store is not opened"
        )
        raise store_error(path, "owner", what)
    return (seen.st_dev, seen.st_ino)


def may_be_immutable(path: str) -> bool:
    """Whether the file can be read as it is: nobody can have written past it, for neither a WAL nor
    a journal has anything in it, and none can appear in a folder that may not be written."""
    real = os.path.realpath(path)
    beside = has_content(wal_of(real)) or has_content(f"{real}-journal")
    return not beside and not os.access(os.path.dirname(real), os.W_OK)


def at_rest(path: str) -> bool:
    """Whether the file is in WAL mode and nobody has it open: it has no WAL. Opening it the usual
    way would leave side files there, which a reader may not take away again."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    wal_mode = head.startswith(b"SQLite format 3\0") and head[18:20] == b"\2\2"
    return wal_mode and not os.path.lexists(wal_of(path))
