"""Whether any of many files changed, told by the kernel in one read instead of a stat for each.

On Linux an inotify event is queued before the write that caused it returns, so reading the queue is
as exact as a stat of each file. Elsewhere, and where the kernel gives no watches, there is no
`Notices`, and each file gets its stat.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterable
from typing import Final
from weakref import WeakSet

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x2, 0x4, 0x400, 0x800
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_MASK: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
_HEAD: Final = struct.Struct("iIII")


class Group:
    """Files watched together; once one of them changed, `unchanged` stays False."""

    __slots__ = ("__weakref__", "_notices", "changed", "watches")

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.changed = False
        self.watches: list[int] = []

    def unchanged(self) -> bool:
        self._notices.drain()
        return not self.changed

    def close(self) -> None:
        self._notices.release(self)


class Notices:
    """One inotify instance for all groups of a process. Safe from several threads."""

    def __init__(self) -> None:
        """Raises `OSError` where the kernel or the system has none to give."""
        if sys.platform != "linux":
            raise OSError("inotify is Linux's")
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._remove = libc.inotify_rm_watch
        self._handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._groups: dict[int, WeakSet[Group]] = {}
        """By watch. A group that nobody uses any more goes by itself, its watches at their next
        event."""
        self._lock = threading.Lock()

    def watch(self, paths: Iterable[str]) -> Group | None:
        """Watch files that exist; None when not all of them can be watched."""
        group = Group(self)
        for path in paths:
            with self._lock:
                watch = self._add(self._handle, os.fsencode(path), _MASK)
                if watch >= 0:
                    self._groups.setdefault(watch, WeakSet()).add(group)
                    group.watches.append(watch)
            if watch < 0:
                group.close()
                return None
        return group

    def drain(self) -> None:
        """Take what the kernel has queued, and mark the groups it is about. Under the lock until
        they are marked: who takes an event must not let another find the queue empty meanwhile."""
        with self._lock:
            while True:
                try:
                    data = os.read(self._handle, 65536)
                except BlockingIOError:
                    return
                except OSError:
                    self._mark_all()
                    return
                self._mark(data)

    def _mark(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, position)
            position += _HEAD.size + length
            if mask & _OVERFLOW:
                self._mark_all()
            elif mask & ~_IGNORED:
                groups = self._groups.get(watch, ())
                for group in groups:
                    group.changed = True
                if not groups and self._groups.pop(watch, None) is not None:
                    self._remove(self._handle, watch)

    def release(self, group: Group) -> None:
        with self._lock:
            group.changed = True
            for watch in group.watches:
                others = self._groups.get(watch)
                if others is None:
                    continue
                others.discard(group)
                if not others:
                    del self._groups[watch]
                    self._remove(self._handle, watch)
            group.watches.clear()

    def close(self) -> None:
        with self._lock:
            self._mark_all()
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1

    def _mark_all(self) -> None:
        for groups in self._groups.values():
            for group in groups:
                group.changed = True
