"""What a value was read from: each dependency tells whether it still holds.

A value made from files has a dependency on each of them, also on those that were missing: their
appearance changes the value as well.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar

from claudemem_daemon.notices import Group

T = TypeVar("T")
State = tuple[int, int, int, int, int, int]
"""device, inode, mode, size, mtime in ns, ctime in ns."""

RACY_NS = 50_000_000
"""A file that changed this shortly before its stat can change again within the same clock tick of
the file system and look the same: such a state proves nothing later on."""

MAX_LINKS: Final = 40
"""Symbolic links on one path, as for Linux; more is a circle."""


class Dependency(Protocol):
    """One thing a value depends on."""

    def holds(self) -> bool:
        """Whether it is still what it was; False in doubt."""


class RemoteDependency:
    """One that another process has to be asked about."""

    __slots__ = ()

    def holds_with(self, others: Callable[[], bool]) -> bool:
        """Whether it still is what it was, and `others` say so too: they are called while the other
        process makes its answer."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one path; `state` is None where nothing was there."""

    path: str
    state: State | None
    racy: bool = False

    def holds(self) -> bool:
        return not self.racy and _state(_stat(self.path)) == self.state


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Device, inode, kind and owner of what is at a path, whatever becomes of its content; else the
    error, and whether a link leads there."""

    path: str
    what: tuple[int, ...]

    def holds(self) -> bool:
        return _identity(self.path) == self.what


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """Many files that the kernel watches: one read of its queue instead of a stat for each."""

    members: tuple[FileState, ...] = field(compare=False)
    group: Group

    def holds(self) -> bool:
        # A group that was given up, or whose files were touched, is checked file by file.
        return self.group.unchanged() or all_hold(self.members)


class Incomplete:
    """Of a value that was cut short: it is never used again."""

    def holds(self) -> bool:
        return False


FileDependency = FileState | FileIdentity
INCOMPLETE: Final = Incomplete()


def all_hold(dependencies: Iterable[Dependency]) -> bool:
    """Whether every one still holds; stops at the first that does not."""
    rest = iter(dependencies)
    for dependency in rest:
        if isinstance(dependency, RemoteDependency):
            return dependency.holds_with(lambda: all_hold(rest))
        if not dependency.holds():
            return False
    return True


_recorded: ContextVar[dict[object, Dependency] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording() -> Iterator[dict[object, Dependency]]:
    """Collects as values what was found out about files inside, so that none of it can be forgotten.
    `real_path` counts as the identity of a path with a link in it."""
    found: dict[object, Dependency] = {}
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Inside, nothing is recorded: for what other files tell as well."""
    token = _recorded.set(None)
    try:
        yield
    finally:
        _recorded.reset(token)


def record(*dependencies: Dependency) -> None:
    """Of one path the state says more than the identity."""
    recorded = _recorded.get()
    if recorded is None:
        return
    for dependency in dependencies:
        if isinstance(dependency, FileIdentity):
            recorded.setdefault(dependency.path, dependency)
        else:
            recorded[getattr(dependency, "path", dependency)] = dependency


_of_request: ContextVar[dict[Any, Any] | None] = ContextVar("paths of this request", default=None)
"""A `_Stat` by path, and what was read, by kind and path."""


@contextmanager
def each_path_once() -> Iterator[None]:
    """Inside, the first stat of each path counts. That is safe because a path is always checked
    before it is read: a state that is older than the content does not hold the next time."""
    if _of_request.get() is not None:
        yield
        return
    token = _of_request.set({})
    try:
        yield
    finally:
        _of_request.reset(token)


def forget_paths() -> None:
    """Let the rest of this request see the present state."""
    (_of_request.get() or {}).clear()


def once(kind: str, path: str, read: Callable[[str], T]) -> T:
    """What `read` gives for `path`, read once in a request for all who name the same `kind`."""
    known = _of_request.get()
    if known is None:
        return read(path)
    key = kind, path
    if key not in known:
        known[key] = read(path)
    value: T = known[key]
    return value


_Stat = tuple[os.stat_result | OSError | ValueError, bool, bool]
"""What is at a path, behind a link what it leads to; whether it is racy; whether it is a link."""


def _stat(path: str) -> _Stat:
    return once("stat", path, _stat_now)


def _stat_now(path: str) -> _Stat:
    is_link = False
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            is_link = True
            found = os.stat(path)
    except (OSError, ValueError) as error:
        return error.with_traceback(None), False, is_link
    return found, abs(time.time_ns() - found.st_ctime_ns) < RACY_NS, is_link


def _state(seen: _Stat) -> State | None:
    return state_of(seen[0]) if isinstance(seen[0], os.stat_result) else None


state_of: Final[Callable[[os.stat_result], State]] = attrgetter(
    "st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns"
)


def file_state(path: str) -> FileState:
    """No error for what is missing, unreadable, or not a possible path at all."""
    seen = _stat(path)
    state = FileState(path, _state(seen), seen[1])
    record(state)
    return state


def outermost_state(path: str) -> FileState:
    """The state of `path`, or of the outermost folder of it that is missing: `path` cannot appear
    before that does, and paths that share it are checked together."""
    found = file_state(path)
    while found.state is None and (folder := os.path.dirname(found.path)) != found.path:
        above = file_state(folder)
        if above.state is not None:
            break
        found = above
    return found


def state_now(path: str) -> tuple[State | None, bool]:
    """The state, whatever this request saw before, and whether a link leads there."""
    seen = _stat_now(path)
    return _state(seen), seen[2]


def file_identity(path: str) -> FileIdentity:
    identity = FileIdentity(path, _identity(path))
    record(identity)
    return identity


def _identity(path: str) -> tuple[int, ...]:
    found, _, is_link = _stat(path)
    if isinstance(found, OSError):
        return found.errno or 0, int(is_link)
    if isinstance(found, ValueError):
        return ()
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode), found.st_uid


def folder_identity(path: str) -> tuple[int, int] | None:
    """Device and inode, by which a folder is the same under any path; None where it is missing."""
    found = _found(path)
    return (found.st_dev, found.st_ino) if found is not None else None


def _found(path: str) -> os.stat_result | None:
    if _recorded.get() is not None:
        file_identity(path)
    found = _stat(path)[0]
    return found if isinstance(found, os.stat_result) else None


def is_folder(path: str) -> bool:
    found = _found(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: str) -> bool:
    found = _found(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_closed(path: str) -> bool:
    """Whether the user may not look there."""
    file_identity(path)
    return isinstance(_stat(path)[0], PermissionError)


def something_at(path: str) -> bool:
    """Whether there is anything, if only a link that leads nowhere."""
    return _found(path) is not None or _stat(path)[2]


def _readlink(path: str) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None


def link_steps(path: str) -> Iterator[str]:
    """An absolute path with its first symbolic link followed, then with the next; the last is as
    `os.path.realpath` gives it."""
    real, rest, links = "", path.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            real = os.path.dirname(real).rstrip("/")
        elif part not in ("", "."):
            step = f"{real}/{part}"
            target = once("link", step, _readlink) if _stat(step)[2] else None
            if target is None:
                real = step
                continue
            links += 1
            if links > MAX_LINKS:
                yield os.path.realpath(path)
                return
            real = "" if target.startswith("/") else real
            rest += target.split("/")[::-1]
            yield os.path.normpath("/".join((real, *rest[::-1])))
    yield real or "/"


def real_path(path: str) -> str:
    """The last of `link_steps`."""
    *links, real = link_steps(path)
    if links and _recorded.get() is not None:
        file_identity(path)
    return real
