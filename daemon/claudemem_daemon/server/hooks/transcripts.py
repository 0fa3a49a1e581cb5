"""Which session another one was forked from, by what its transcript says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

BEGINNING: Final = 256 * 1024
"""Bytes of a transcript that are read."""


def forked_from(path: str | None, sessions: Iterable[str]) -> str | None:
    """The one of `sessions` whose id the transcript names most often; None where it names none."""
    if path is None:
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = stat.S_ISREG(os.fstat(file).st_mode)
            data = os.read(file, BEGINNING) if regular else b""
        finally:
            os.close(file)
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    named = {one: text.count(one) for one in sessions if len(one) >= 8}
    best = max(named, key=lambda one: named[one], default=None)
    return best if best is not None and named[best] else None
