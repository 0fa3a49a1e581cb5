"""Times and counts as people say them. Pure but for the clock."""

from __future__ import annotations

import time

JUST_NOW = 5
"""Seconds."""


def age(epoch_ms: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits: `just now`, `12 s ago`, `5 min ago`, `3 days ago`."""
    seconds = (time.time() if now is None else now) - epoch_ms / 1000
    if seconds < -60:
        return "in the future"
    for size, word in ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day")):
        if seconds >= size:
            return f"{counted(int(seconds // size), word)} ago"
    if seconds >= 3600:
        return f"{int(seconds // 3600)} h ago"
    if seconds >= 60:
        return f"{int(seconds // 60)} min ago"
    return f"{int(seconds)} s ago" if seconds >= JUST_NOW else "just now"


def counted(count: int, word: str, words: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def duration(seconds: float) -> str:
    """A span in its two largest units."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
