"""Giving memory back: a daemon that made one large answer should not look large for ever."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Parameters of mallopt(3), from glibc's malloc.h."""
NEVER: Final = 1_000_000
LARGE: Final = 64 * 1024
"""Bytes; what is larger than this goes back to the system as soon as it is free."""


class Allocator:
    """glibc's, where there is one; with another C library nothing is done.

    Made once and early: what lives long and is made while a large answer is in memory keeps the
    whole megabyte around it from being given back.
    """

    def __init__(self) -> None:
        self._mallopt: Callable[[int, int], int] | None = None
        self._trim: Callable[[int], int] | None = None
        # The interpreter's cache of attribute look-ups holds names made at the height of a large
        # answer, a few in each megabyte, which kept 20 MB of them. From 3.13 on by another name.
        names = ("_clear_internal_caches", "_clear_type_cache")
        found = [getattr(sys, name) for name in names if hasattr(sys, name)]
        self._forget_lookups: Callable[[], None] = found[0] if found else lambda: None
        if sys.platform.startswith("linux"):
            with suppress(OSError, AttributeError):
                libc = ctypes.CDLL(None)
                self._mallopt, self._trim = libc.mallopt, libc.malloc_trim

    def keep_small(self) -> None:
        """Return what is free. By itself glibc keeps an arena for each thread, and learns from the
        first large answer that large pieces are worth keeping: that took 30 MB after a thousand
        queries of 300 KB."""
        if self._mallopt is not None:
            self._mallopt(M_ARENA_MAX, 1)
            self._mallopt(M_MMAP_THRESHOLD, LARGE)
            self._mallopt(M_TRIM_THRESHOLD, LARGE)

    def give_back(self) -> None:
        """Return what is free between pieces in use as well; takes some milliseconds, so do it when
        nobody asks."""
        self._forget_lookups()
        gc.collect()
        if self._trim is not None:
            self._trim(0)

    def settle(self) -> None:
        """After the start: what exists now lives as long as we do; the collector need not look at
        it again, nor for the first time: that would take a tenth of the start and find next to
        nothing. From now on it looks at all that lives in `give_back` alone: with the rows of large
        answers that takes a tenth of a second, in which nobody is answered."""
        gc.enable()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], NEVER)


def resident_kb() -> int | None:
    """Resident memory of this process; None where the system does not say so simply."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None
