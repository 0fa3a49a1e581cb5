"""Which session another one was forked from, by what transcripts say."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from typing import Final

from claudemem_daemon.server.hooks.model import HookCall

BEGINNING: Final = 256 * 1024
"""Bytes of a transcript that are read."""
ABOUT: Final = 10.0
"""Seconds by which a transcript's time may differ from what the assistant says."""


def forked_from(call: HookCall, sessions: Iterable[str]) -> str | None:
    """The one of `sessions` from which the call's was forked; None where that is not certain.

    Its transcript names that session. Where it is not written yet, as at the start of a fork, the
    transcript beside it that was last written when the assistant says that the model last answered
    is the other session's.
    """
    path = call.transcript_path
    if path is None:
        return None
    known = [session for session in sessions if len(session) >= 8 and "/" not in session]
    text = _beginning(path)
    if text is not None:
        best = max(known, key=text.count, default=None)
        return best if best is not None and best in text else None
    if call.idle is None:
        return None
    then = time.time() - call.idle
    folder = os.path.dirname(path)
    written = {session: _written(os.path.join(folder, f"{session}.jsonl")) for session in known}
    near = [session for session, at in written.items() if at and abs(at - then) < ABOUT]
    return near[0] if len(near) == 1 else None


def _written(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _beginning(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = stat.S_ISREG(os.fstat(file).st_mode)
            data = os.read(file, BEGINNING) if regular else b""
        finally:
            os.close(file)
    except OSError:
        return None
    return data.decode("utf-8", "replace")
