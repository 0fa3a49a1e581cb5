"""What an answer was read from, so that a glance tells whether it still stands.

A value read from files carries the `Evidence` of each of them: also of files that were looked for
and not there, for their appearance changes the answer as well.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from claudemem_daemon.notices import Group

State = tuple[int, int, int, int, int, int]
"""device, inode, mode, size, mtime in ns, ctime in ns."""

RACY_NS = 50_000_000
"""A file changed this shortly before we looked could change again within the same clock tick of
the file system and look the same; such a look proves nothing later on."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one path when it was looked at; `state` is None where nothing was there."""

    path: str
    state: State | None
    racy: bool = False


def file_state(path: str) -> FileState:
    """One stat; no error for what is missing, unreadable, or not a possible path at all."""
    state = _state(path)
    racy = state is not None and abs(time.time_ns() - state[5]) < RACY_NS
    return FileState(path, state, racy)


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """Many files that the kernel watches for us: one look at its queue stands for a stat each."""

    members: tuple[FileState, ...]
    group: Group

    def stands(self) -> bool:
        # A group that was given up, or whose files were touched, is looked at file by file.
        return self.group.quiet() or all_hold(self.members)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What is at a path, or why nothing is; whatever becomes of its content. For a folder that has
    to be there, and for what could not be reached."""

    path: str
    what: tuple[int, ...]

    def stands(self) -> bool:
        return _what(self.path) == self.what


def file_identity(path: str) -> FileIdentity:
    """One stat, as `look`; a second one where nothing is."""
    return FileIdentity(path, _what(path))


FileDependency = FileState | FileIdentity


class Statement(Protocol):
    """What a file says rather than its state: holds while it says the same."""

    @property
    def path(self) -> str: ...

    def stands(self) -> bool: ...


Dependency = FileDependency | WatchedFiles | Statement


def all_hold(dependencies: Iterable[Dependency]) -> bool:
    """Whether every path is still what it was; one stat each, stops at the first that is not."""
    for one in dependencies:
        if isinstance(one, FileState):
            if one.racy or _state(one.path) != one.state:
                return False
        elif not one.stands():
            return False
    return True


def _state(path: str) -> State | None:
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    return (
        seen.st_dev,
        seen.st_ino,
        seen.st_mode,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


def _what(path: str) -> tuple[int, ...]:
    """Device, inode, kind and owner of what is there; else the error, and whether a link leads there."""
    try:
        seen = os.stat(path)
    except OSError as error:
        return error.errno or 0, int(os.path.islink(path))
    except ValueError:
        return ()
    return seen.st_dev, seen.st_ino, stat.S_IFMT(seen.st_mode), seen.st_uid
