"""Whether any of many files changed, told by the kernel in one call instead of a stat for each.

On Linux an inotify event is queued before the write that caused it returns, so looking at the queue
is as exact as a stat of each file. Elsewhere, and where the kernel gives no watches, there is no
`Group`, and each file gets its stat.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from array import array
from collections.abc import Iterable
from fcntl import ioctl
from termios import FIONREAD
from typing import Final

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x2, 0x4, 0x400, 0x800
_MASK: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF


class Group:
    """Files watched together; once one of them changed, or the group was closed, `unchanged` stays
    False. Safe from several threads. `handle` is an inotify instance, which the group closes."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()

    def unchanged(self) -> bool:
        with self._lock:
            if self._handle < 0:
                return False
            queued = array("i", [0])
            ioctl(self._handle, FIONREAD, queued)
        if queued[0]:
            self.close()
        return not queued[0]

    def close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    __del__ = close


def watch(paths: Iterable[str]) -> Group | None:
    """Watch files that exist; None where the system or the kernel cannot watch all of them."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if handle < 0:
        return None
    group = Group(handle)
    if all(libc.inotify_add_watch(handle, os.fsencode(path), _MASK) >= 0 for path in paths):
        return group
    group.close()
    return None
