"""What each session has been told, so that later prompts get only news. In memory, bounded."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.server.hooks.model import HookCall

MOST_SESSIONS: Final = 512
TWICE_WITHIN: Final = 2.0
"""Seconds in which two entries that fire for one event count as one."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a session was told of one store: its highest observation id then, and which file it
    was (device, inode)."""

    highest: int
    file: tuple[int | str, ...] | None


class Sessions:
    """Per session the `Mark` of each store at its last injection. Forgotten with
    the daemon: a session that is not known simply gets the whole context again. Safe from several
    threads."""

    def __init__(self) -> None:
        self._told: OrderedDict[Key, Mapping[str, Mark]] = OrderedDict()
        self._fired: OrderedDict[tuple[str, ...], tuple[str, float]] = OrderedDict()
        self._lock = threading.Lock()

    def told(self, call: HookCall) -> Mapping[str, Mark] | None:
        """Store path -> how far; None for a session we have not seen start."""
        with self._lock:
            return self._told.get(_key(call))

    def tell(self, call: HookCall, marks: Mapping[str, Mark]) -> None:
        """Remember a delivery. A store that could not be read this time keeps its old mark."""
        if call.session_id is None:
            return
        with self._lock:
            key = _key(call)
            self._told[key] = {**self._told.get(key, {}), **marks}
            self._told.move_to_end(key)
            while len(self._told) > MOST_SESSIONS:
                self._told.popitem(last=False)

    def begin(self, call: HookCall) -> None:
        """A session starts (again): nothing of what it was told is still in front of it."""
        with self._lock:
            self._told.pop(_key(call), None)

    def twice(self, entry: str, call: HookCall) -> bool:
        """Whether another entry has just answered this very event of this session."""
        key = (call.caller, call.session_id or "", call.agent_id or "", call.event, call.occasion)
        now = time.monotonic()
        with self._lock:
            before = self._fired.get(key)
            if before is not None and before[0] != entry and now - before[1] < TWICE_WITHIN:
                return True
            self._fired[key] = (entry, now)
            self._fired.move_to_end(key)
            while len(self._fired) > MOST_SESSIONS:
                self._fired.popitem(last=False)
        return False

    def __len__(self) -> int:
        return len(self._told)


def _key(call: HookCall) -> Key:
    return (call.caller, call.session_id or "", call.agent_id or "")
