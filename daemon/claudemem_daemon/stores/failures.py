"""Why a store cannot be read, in one line for the user."""

from __future__ import annotations

import logging
import os
import traceback

import apsw

from claudemem_daemon.errors import StoreError


def unreachable(path: str, error: OSError | ValueError) -> StoreError:
    """Why there is no file to be had at `path`: nothing there, or no way to it."""
    if not isinstance(error, OSError):
        return StoreError(f"{path}: no possible path", path=path, reason="unreadable")
    if not isinstance(error, FileNotFoundError):
        return StoreError(f"{path}: {error.strerror}", path=path, reason="unreadable")
    what = "a link to a store that is not there" if os.path.islink(path) else "no store there"
    return StoreError(f"{path}: {what}", path=path, reason="missing")


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
    if extended == apsw.SQLITE_READONLY_ROLLBACK:
        return StoreError(
            f"{path}: its writer died in a transaction: open it once with claude-mem ({code})",
            path=path,
            reason="hot_journal",
        )
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError) and has_content(path + "-wal"):
        return wal_unreadable(path)
    if extended in (apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMSIZE):
        return StoreError(
            f"{path}: no room for its -shm file: a full disk, or a limit of file sizes ({code})",
            path=path,
            reason="io",
        )
    if isinstance(error, apsw.IOError):
        return StoreError(
            f"{path}: I/O error (network file system?) ({code})", path=path, reason="io"
        )
    return StoreError(f"{path}: cannot be read ({code}: {detail})", path=path, reason="unreadable")


def unexpected(error: Exception, path: str) -> StoreError:
    """A fault of ours that this store brought to light: it costs this store alone. The store's own
    text can be in the error, so only its kind is told, and the log has where it came from."""
    log_fault(error, path)
    return StoreError(
        f"{path}: not read: {type(error).__name__}, a fault of claudemem-daemon: please report it",
        path=path,
        reason="unreadable",
    )


def as_store_error(error: Exception, path: str) -> StoreError:
    return error if isinstance(error, StoreError) else unexpected(error, path)


def log_fault(error: Exception, path: str) -> None:
    """Where in our code it happened; never the message, which may hold the row's text."""
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{os.path.basename(at[0].filename)}:{at[0].lineno}" if at else "?"
    logging.getLogger(__name__).error("%s: %s at %s", path, type(error).__name__, where)


def slow(path: str) -> StoreError:
    """The deadline came first."""
    return StoreError(f"{path}: not read to the end in time", path=path, reason="slow")


def wal_unreadable(path: str) -> StoreError:
    message = f"{path}: store not readable: WAL pending, directory not writable"
    return StoreError(message, path=path, reason="wal_pending")


def has_content(path: str) -> bool:
    """Whether there is a file at `path` that is not empty, as far as that can be told."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
