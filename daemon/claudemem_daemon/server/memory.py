"""Giving memory back: a daemon that made one large answer should not look large for ever."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Parameters of mallopt(3), from glibc's malloc.h."""
LARGE: Final = 64 * 1024
"""Bytes; what is larger than this goes back to the system as soon as it is free."""


def keep_small() -> None:
    """Set glibc's allocator to return what is free; does nothing with another C library.

    By itself it keeps an arena for each thread, and learns from the first large answer that large
    pieces are worth keeping: that took 30 MB after a thousand queries of 300 KB.
    """
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_TRIM_THRESHOLD, LARGE)


def give_back() -> None:
    """Return what is free between pieces in use, which the allocator does not by itself; takes some
    milliseconds, so do it when nobody asks."""
    gc.collect()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def settle() -> None:
    """After the start: what exists now lives as long as we do; the collector need not look at it
    again."""
    give_back()
    gc.freeze()
