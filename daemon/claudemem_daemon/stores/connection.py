"""One read-only connection to a stranger's file, and what SQLite's complaints mean."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError

Identity = tuple[int, int]
"""device, inode"""

STEPS: Final = 2000
"""Virtual machine steps between two looks at the clock: a look costs about a microsecond, the steps
between them a few hundred at most."""

_ALWAYS: Final = (
    "PRAGMA query_only = 1",
    "PRAGMA mmap_size = 0",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = 1",
    # In KiB. Small, for there may be dozens of stores; the system's page cache holds the rest.
    "PRAGMA cache_size = -256",
)
_MOST_BYTES: Final = 256 * 1024 * 1024


def use_no_lookaside() -> None:
    """Before the first connection of the process: SQLite has 48 KB ready for the small needs of
    each, and there are two for each store; without them nothing is measurably slower."""
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_LOOKASIDE, 0, 0)
    apsw.initialize()


class Replaced(StoreError):
    """Another file took this one's place while it was opened: try again."""


class Guard:
    """The progress handler of one connection: stops a statement at the deadline, or when it has
    used up a budget of steps."""

    def __init__(self) -> None:
        self.deadline: Deadline | None = None
        self.budget: int | None = None
        """Looks left before the running statement is stopped; None = only the deadline counts."""

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


class Connection:
    """An open store file. Used by one thread at a time; the pool sees to that."""

    def __init__(self, path: str, identity: Identity, *, immutable: bool = False) -> None:
        """Open `path`, which was seen to be `identity`.

        Raises `apsw.Error`, or `StoreError` when another file took its place meanwhile.
        """
        self.path = path
        self.identity = identity
        self.immutable = immutable
        self.guard = Guard()
        self.db = apsw.Connection(
            _uri(path, immutable=immutable),
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            statementcachesize=48,
        )
        try:
            self._make_safe()
            if identify(path)[0] != identity:
                raise Replaced(
                    f"{path}: replaced while it was opened", path=path, reason="unreadable"
                )
        except BaseException:
            self.close()
            raise

    def _make_safe(self) -> None:
        db = self.db
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        db.limit(apsw.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        db.set_progress_handler(self.guard, STEPS)

    def prepare(self) -> None:
        """Settings that read the file; once, before the first query."""
        for pragma in _ALWAYS:
            self.db.execute(pragma, can_cache=False).fetchall()

    def begin(self, deadline: Deadline) -> None:
        """Start reading one state of the store; waits for a lock no longer than the deadline."""
        self.guard.deadline = deadline
        self.guard.budget = None
        self.db.set_busy_timeout(max(1, int(deadline.remaining() * 1000)))
        self.db.execute("BEGIN")

    def end(self) -> None:
        """Let go of the store: an open read transaction would keep its WAL from shrinking."""
        self.guard.deadline = None
        self.guard.budget = None
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")
        # The next reading mostly comes after a write, which makes these pages worthless.
        self.drop_pages()

    def drop_pages(self) -> None:
        """Free SQLite's copies of the pages that were read; the system's page cache has them."""
        self.db.release_memory()

    def close(self) -> None:
        self.db.close(True)


class Sentinel:
    """A connection that only answers PRAGMA data_version: whether anyone wrote since."""

    def __init__(self, path: str) -> None:
        self._db = apsw.Connection(
            _uri(path, immutable=False),
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            statementcachesize=2,
        )
        self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self._db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # With more it would hold 85 KB ready for pages that nobody asks it for.
        self._db.execute("PRAGMA cache_size = 1", can_cache=False).fetchall()
        self._cursor = self._db.cursor()
        self._execute: Callable[[str], apsw.Cursor] = self._cursor.execute

    def version(self, busy_ms: int = 0) -> int:
        """Changes with every commit of another connection. Raises `apsw.Error`."""
        if busy_ms:
            self._db.set_busy_timeout(busy_ms)
            try:
                return self.version()
            finally:
                self._db.set_busy_timeout(0)
        rows = self._execute("PRAGMA data_version").fetchall()
        return int(rows[0][0])  # type: ignore[arg-type]  # a whole number, always

    def close(self) -> None:
        self._db.close(True)


def identify(path: str) -> tuple[Identity, os.stat_result]:
    """Which file is at `path` now, symbolic links followed.

    Raises `StoreError` for what may not be opened: what is missing, no regular file, or another
    user's. Opening another user's WAL store would leave side files there that are ours, and that
    their owner can no longer use.
    """
    try:
        seen = os.stat(path)
    except (OSError, ValueError) as error:
        raise unreachable(path, error) from None
    if not stat.S_ISREG(seen.st_mode):
        raise StoreError(f"{path}: not a regular file", path=path, reason="foreign")
    if seen.st_uid != os.geteuid():
        message = (
            f"{path}: belongs to user {seen.st_uid}, we are user {os.geteuid()};"
            " run as its owner, another user's store is not opened"
        )
        raise StoreError(message, path=path, reason="owner")
    return (seen.st_dev, seen.st_ino), seen


def unreachable(path: str, error: OSError | ValueError) -> StoreError:
    """Why there is no file to be had at `path`: nothing there, or no way to it."""
    if not isinstance(error, OSError):
        return StoreError(f"{path}: no possible path", path=path, reason="unreadable")
    if not isinstance(error, FileNotFoundError):
        return StoreError(f"{path}: {error.strerror}", path=path, reason="unreadable")
    what = "a link to a store that is not there" if os.path.islink(path) else "no store there"
    return StoreError(f"{path}: {what}", path=path, reason="missing")


def may_be_immutable(path: str) -> bool:
    """Whether the file can be read as it is: nobody can have written past it, for there is no WAL
    with anything in it, and none can appear in a folder that may not be written."""
    try:
        pending = os.stat(path + "-wal").st_size > 0
    except FileNotFoundError:
        pending = False
    except OSError:
        return False
    return not pending and not os.access(os.path.dirname(path) or ".", os.W_OK)


def wal_pending(path: str) -> bool:
    """Whether a WAL with something in it lies beside the file."""
    try:
        return os.stat(path + "-wal").st_size > 0
    except OSError:
        return False


def translate(error: apsw.Error, path: str) -> StoreError:
    """SQLite's complaint as one line for the user, with a reason of STORE_REASONS."""
    extended = getattr(error, "extendedresult", None)
    code = f"SQLite code {extended}" if isinstance(extended, int) else "SQLite"
    detail = " ".join(str(error).split())
    if isinstance(error, apsw.InterruptError):
        return slow(path)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreError(f"{path}: locked by another process ({code})", path=path, reason="busy")
    if isinstance(error, apsw.NotADBError):
        return StoreError(f"{path}: no SQLite file ({code})", path=path, reason="foreign")
    if isinstance(error, apsw.CorruptError | apsw.FormatError):
        return StoreError(f"{path}: damaged ({code}: {detail})", path=path, reason="corrupt")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError) and wal_pending(path):
        return StoreError(
            f"{path}: store not readable: WAL pending, directory not writable",
            path=path,
            reason="wal_pending",
        )
    if isinstance(error, apsw.IOError):
        return StoreError(
            f"{path}: I/O error (network file system?) ({code})", path=path, reason="io"
        )
    return StoreError(f"{path}: cannot be read ({code}: {detail})", path=path, reason="unreadable")


def slow(path: str) -> StoreError:
    """The deadline came first."""
    return StoreError(f"{path}: not read to the end in time", path=path, reason="slow")


def _uri(path: str, *, immutable: bool) -> str:
    """The path byte for byte: as a URI it may hold `%`, `?`, `#`, line breaks, and no UTF-8."""
    name = "file://" + quote(os.fsencode(os.path.abspath(path)))
    return name + "?immutable=1" if immutable else name
