"""What a value was read from, each with one question: does it still hold?

A value made from files carries a dependency for each of them, also for files that were not there:
their appearance changes the value as well.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from claudemem_daemon.notices import Group

State = tuple[int, int, int, int, int, int]
"""device, inode, mode, size, mtime in ns, ctime in ns."""

RACY_NS = 50_000_000
"""A file changed this shortly before its stat could change again within the same clock tick of the
file system and look the same; such a state proves nothing later on."""


MAX_LINKS: Final = 40
"""Symbolic links on one path, as for Linux; more is a circle."""


class Dependency(Protocol):
    """One thing a value depends on."""

    def holds(self) -> bool:
        """Whether it is still what it was; False in doubt."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one path; `state` is None where nothing was there."""

    path: str
    state: State | None
    racy: bool = False

    def holds(self) -> bool:
        return not self.racy and _state(_look(self.path)) == self.state


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What is at a path, or why nothing is; whatever becomes of its content. For a folder that has
    to be there, and for what could not be reached."""

    path: str
    what: tuple[int, ...]

    def holds(self) -> bool:
        return _identity(self.path) == self.what


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """Many files that the kernel watches: one read of its queue instead of a stat for each."""

    members: tuple[FileState, ...]
    group: Group

    def holds(self) -> bool:
        # A group that was given up, or whose files were touched, is checked file by file.
        return self.group.unchanged() or all_hold(self.members)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Of a value that was cut short: it is never used again."""

    def holds(self) -> bool:
        return False


FileDependency = FileState | FileIdentity
INCOMPLETE: Final = Incomplete()


def all_hold(dependencies: Iterable[Dependency]) -> bool:
    """Whether every one still holds; stops at the first that does not."""
    return all(one.holds() for one in dependencies)


_Stat = tuple[os.stat_result | OSError | ValueError, bool]
"""What a stat gave, and whether that is racy."""


@dataclass(slots=True)
class _Seen:
    """What one request saw, by path."""

    stats: dict[str, _Stat]
    links: dict[str, str | None]


_of_request: ContextVar[_Seen | None] = ContextVar("what this request saw", default=None)


@contextmanager
def each_path_once() -> Iterator[None]:
    """Inside, no path is looked at a second time: what a request saw first, it goes by.

    That is safe for a dependency, because a path is always looked at before it is read: a state
    that is older than the content does not hold the next time.
    """
    if _of_request.get() is not None:
        yield
        return
    token = _of_request.set(_Seen({}, {}))
    try:
        yield
    finally:
        _of_request.reset(token)


def look_again() -> None:
    """For the rest of this request go by what is there now."""
    seen = _of_request.get()
    if seen is not None:
        seen.stats.clear()
        seen.links.clear()


def file_state(path: str) -> FileState:
    """No error for what is missing, unreadable, or not a possible path at all."""
    seen = _look(path)
    return FileState(path, _state(seen), seen[1])


def file_state_now(path: str) -> FileState:
    """The same, whatever this request saw before."""
    seen = _stat(path)
    return FileState(path, _state(seen), seen[1])


def file_identity(path: str) -> FileIdentity:
    return FileIdentity(path, _identity(path))


def folder_identity(path: str) -> tuple[int, int] | None:
    """Device and inode; None where nothing is."""
    seen = _look(path)[0]
    return (seen.st_dev, seen.st_ino) if isinstance(seen, os.stat_result) else None


def link_target(path: str) -> str | None:
    """What the symbolic link at `path` says; None where there is none."""
    seen = _of_request.get()
    if seen is not None and path in seen.links:
        return seen.links[path]
    try:
        target = os.readlink(path)
    except (OSError, ValueError):
        target = None
    if seen is not None:
        seen.links[path] = target
    return target


def real_path(path: str) -> str:
    """As `os.path.realpath`, of an absolute path."""
    real, rest, links = "", path.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            real = os.path.dirname(real).rstrip("/")
        elif part not in ("", "."):
            step = f"{real}/{part}"
            target = link_target(step)
            links += target is not None
            if links > MAX_LINKS:
                return os.path.realpath(path)
            if target is None:
                real = step
            else:
                real = "" if target.startswith("/") else real
                rest += target.split("/")[::-1]
    return real or "/"


def _look(path: str) -> _Stat:
    seen = _of_request.get()
    if seen is None:
        return _stat(path)
    known = seen.stats.get(path)
    if known is None:
        known = seen.stats[path] = _stat(path)
    return known


def _stat(path: str) -> _Stat:
    try:
        seen = os.stat(path)
    except (OSError, ValueError) as error:
        return error.with_traceback(None), False
    return seen, abs(time.time_ns() - seen.st_ctime_ns) < RACY_NS


def _state(look: _Stat) -> State | None:
    seen = look[0]
    if not isinstance(seen, os.stat_result):
        return None
    return (
        seen.st_dev,
        seen.st_ino,
        seen.st_mode,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


def _identity(path: str) -> tuple[int, ...]:
    """Device, inode, kind and owner of what is there; else the error, and whether a link leads there."""
    seen, _ = _look(path)
    if isinstance(seen, OSError):
        return seen.errno or 0, int(link_target(path) is not None)
    if isinstance(seen, ValueError):
        return ()
    return seen.st_dev, seen.st_ino, stat.S_IFMT(seen.st_mode), seen.st_uid
