"""The file in the state folder in which marks outlive the daemon: one JSON array a line."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from claudemem_daemon.local import open_own, put_aside, replace_own
from claudemem_daemon.server.hooks.model import Mark, Marks, SessionKey
from claudemem_daemon.server.hooks.sessions import Sessions

NAME: Final = "sessions.json"
MAX_BYTES: Final = 1 << 20
DELAY: Final = 0.05
"""Seconds after a change, so that answers of the same moment neither wait for a write nor cause one
each."""
MAX_STORES: Final = 64
"""Stores of one session that are written down."""


class SessionFile:
    """Writes what sessions were told, in a worker, one write at a time."""

    def __init__(
        self,
        folder: str,
        sessions: Sessions,
        submit: Callable[[Callable[[], None]], asyncio.Future[None]],
        failed: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._sessions = sessions
        self._submit = submit
        self._failed = failed
        self._writing = False
        self._dirty = False
        self._lock = threading.Lock()
        self._lines: dict[SessionKey, tuple[Marks, bytes]] = {}
        sessions.restore(read_sessions(folder))
        sessions.changed = self.changed

    def changed(self) -> None:
        self._dirty = True
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_later(DELAY, self._write_soon)

    def _write_soon(self) -> None:
        self._dirty = False
        known = self._sessions.marks()
        self._submit(lambda: self._write(known)).add_done_callback(self._written)

    def flush(self) -> None:
        """At the end of the daemon."""
        with suppress(OSError):
            self._write(self._sessions.marks())

    def _write(self, known: list[tuple[SessionKey, Marks]]) -> None:
        """Most lines are those of the time before."""
        with self._lock:
            before, self._lines = self._lines, {}
            for key, marks in known:
                line = before.get(key)
                self._lines[key] = line if line and line[0] is marks else (marks, _line(key, marks))
            write_lines(self._folder, [line for _, line in self._lines.values()])

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing = False
        if not writing.cancelled() and (error := writing.exception()) is not None:
            self._failed(f"what sessions were told is not saved: {error}")
        elif self._dirty:
            self.changed()


def read_sessions(folder: str) -> list[tuple[SessionKey, Marks]]:
    """What an earlier daemon wrote. A file that is not ours, or no regular file, or too large, is
    put aside; lines that say nothing are left out. Never raises, never blocks."""
    path = os.path.join(folder, NAME)
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(0, "too large", path)
    except FileNotFoundError:
        return []
    except OSError:
        with suppress(OSError):
            put_aside(path)
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return [known for line in lines if (known := _read_line(line)) is not None]


def write_lines(folder: str, known: Sequence[bytes]) -> None:
    """Replace the file. Raises OSError."""
    lines: list[bytes] = []
    left = MAX_BYTES
    # The newest are at the end: those stay where not all fit.
    for line in reversed(known):
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    replace_own(os.path.join(folder, NAME), b"".join(reversed(lines)), sync=False)


def _line(key: SessionKey, marks: Marks) -> bytes:
    stores = {
        path: [mark.highest, *(mark.file or ())] for path, mark in list(marks.items())[:MAX_STORES]
    }
    return json.dumps([*key, stores], separators=(",", ":")).encode("ascii") + b"\n"


def _read_line(line: str) -> tuple[SessionKey, Marks] | None:
    try:
        caller, session, agent, stores = json.loads(line)
        marks = {path: _mark(*numbers) for path, numbers in stores.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    if not all(isinstance(part, str) for part in (caller, session, agent)):
        return None
    return (caller, session, agent), marks


def _mark(highest: Any, *file: Any) -> Mark:
    if type(highest) is not int or not all(isinstance(part, int | str) for part in file):
        raise ValueError("no mark")
    return Mark(highest, file or None)
