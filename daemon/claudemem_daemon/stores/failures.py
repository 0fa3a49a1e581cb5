"""Why a store cannot be read, in one line for the user, and what of it can be read all the same."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import apsw

from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.model import Schema

T = TypeVar("T")

DAMAGED: Final = ("corrupt", "io")
"""Reasons of STORE_REASONS that may be of one page."""


def store_error(path: str, reason: str, what: str) -> StoreError:
    return StoreError(f"{path}: {what}", path=path, reason=reason)


def unreachable(path: str, error: OSError | ValueError) -> StoreError:
    """Why there is no file to be had at `path`: nothing there, or no way to it."""
    if not isinstance(error, OSError):
        return store_error(path, "unreadable", "no possible path")
    if not isinstance(error, FileNotFoundError):
        return store_error(path, "unreadable", str(error.strerror))
    what = "a link to a store that is not there" if os.path.islink(path) else "no store there"
    return store_error(path, "missing", what)


def detail_of(error: apsw.Error) -> str:
    """SQLite's own words, in one line."""
    # Older releases of APSW begin them with the error's name.
    return " ".join(str(error).removeprefix(f"{type(error).__name__}: ").split())


def translate(error: apsw.Error, path: str) -> StoreError:
    """SQLite's complaint as one line for the user, with a reason of STORE_REASONS."""
    extended = getattr(error, "extendedresult", None)
    code = f"SQLite code {extended}" if isinstance(extended, int) else "SQLite"
    detail = detail_of(error)
    if isinstance(error, apsw.InterruptError):
        return slow(path)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return store_error(path, "busy", f"locked by another process ({code})")
    if isinstance(error, apsw.NotADBError):
        return store_error(path, "foreign", f"no SQLite file ({code})")
    if isinstance(error, apsw.CorruptError | apsw.FormatError):
        return store_error(path, "corrupt", f"damaged ({code}: {detail})")
    if extended == apsw.SQLITE_READONLY_ROLLBACK:
        what = f"its writer died in a transaction: open it once with claude-mem ({code})"
        return store_error(path, "hot_journal", what)
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError) and has_content(wal_of(path)):
        return wal_unreadable(path)
    if extended in (apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMSIZE):
        what = f"no room for its -shm file: a full disk, or a limit of file sizes ({code})"
        return store_error(path, "io", what)
    if isinstance(error, apsw.IOError):
        return store_error(path, "io", f"I/O error (network file system?) ({code})")
    return store_error(path, "unreadable", f"cannot be read ({code}: {detail})")


def as_store_error(error: Exception, path: str) -> StoreError:
    """SQLite's complaint, or a fault of ours that this store brought to light: it costs this store
    alone. The store's own text can be in the error, so only its kind is told, and the log has where
    it came from."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, apsw.Error):
        return translate(error, path)
    log_fault(error, path)
    what = f"not read: {type(error).__name__}, a fault of claudemem-daemon: please report it"
    return store_error(path, "unreadable", what)


def log_fault(error: Exception, path: str) -> None:
    """Where in our code it happened; never the message, which may hold the row's text."""
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{os.path.basename(at[0].filename)}:{at[0].lineno}" if at else "?"
    logging.getLogger(__name__).error("%s: %s at %s", path, type(error).__name__, where)


def slow(path: str) -> StoreError:
    """The deadline came first."""
    return store_error(path, "slow", "not read to the end in time")


def wal_unreadable(path: str) -> StoreError:
    what = "store not readable: WAL pending, directory not writable"
    return store_error(path, "wal_pending", what)


def wal_of(path: str) -> str:
    """SQLite's WAL lies beside the file itself, wherever a link to that is."""
    return f"{os.path.realpath(path) if os.path.islink(path) else path}-wal"


def has_content(path: str) -> bool:
    """Whether there is a file at `path` that is not empty, as far as that can be told."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def until_damage(rows: Iterable[T], damage: list[StoreError]) -> Iterator[T]:
    """The rows before a damaged page. Raises `StoreError` for any other reason."""
    try:
        yield from rows
    except StoreError as error:
        if error.reason not in DAMAGED:
            raise
        damage.append(error)


def by_halves(
    ids: Sequence[int],
    schema: Schema,
    read: Callable[[Schema, Sequence[int]], Iterator[T]],
    damage: list[StoreError],
) -> Iterator[T]:
    """The rows that `read` gives of `ids`; where it meets a damaged page, those of each half by
    itself, so that a row may come again. A row whose session cannot be read counts as one without
    a session. `damage` gets what stopped it."""
    try:
        yield from read(schema, ids)
    except StoreError as error:
        if error.reason not in DAMAGED:
            raise
        damage.append(error)
        middle = len(ids) // 2
        if middle:
            yield from by_halves(ids[:middle], schema, read, damage)
            yield from by_halves(ids[middle:], schema, read, damage)
        elif schema.sessions:
            yield from by_halves(ids, schema._replace(sessions=frozenset()), read, damage)
