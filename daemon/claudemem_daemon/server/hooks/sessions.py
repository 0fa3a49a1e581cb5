"""What each session has been told, so that later events get only what is new. Bounded.

Everything here happens on the event loop. One event of a session is answered at a time: the next
one waits until the answer before it has arrived or is known to be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from claudemem_daemon.server.hooks.assistants import ASSISTANTS
from claudemem_daemon.server.hooks.model import HookAnswer, HookCall, Marks, SessionKey

MAX_SESSIONS: Final = 512
SAME_EVENT: Final = 2.0
"""Seconds in which two entries that fire for one event count as one."""
ONE_START: Final = 5.0
"""Seconds in which a session start counts as answered by the prompt that overtook it."""
FORK_PROMPT: Final = 600.0
"""Seconds after a resume in which the next prompt may carry the id of a fork."""


class Told(NamedTuple):
    """What a session was told. `whole` is a digest of its last whole context, `by` the call that got it and
    `at` when, on the monotonic clock; an earlier daemon's file has only the marks."""

    marks: Marks
    turn: str | None = None
    whole: str = ""
    by: HookCall | None = None
    at: float = 0.0

    @property
    def age(self) -> float:
        """Seconds since the last whole context."""
        return time.monotonic() - self.at


class Plan(NamedTuple):
    """What one call is to get.

    how     "nothing", "whole", or "news": only what is newer than `marks`
    unless  digest of a whole context that the session got a moment ago and does not get again
    forks   sessions (id -> marks) of which this may be a fork; then it gets what is newer than those
    """

    how: Literal["nothing", "whole", "news"]
    marks: Marks | None = None
    unless: str = ""
    forks: Mapping[str, Marks] | None = None


@dataclass(slots=True)
class Sessions:
    """The memory of the daemon. `changed` is called after every change of marks."""

    changed: Callable[[], None] = lambda: None
    _told: OrderedDict[SessionKey, Told] = field(default_factory=OrderedDict)
    _claims: dict[SessionKey, asyncio.Future[None]] = field(default_factory=dict)
    _resumed: OrderedDict[tuple[str, str | None], tuple[SessionKey, float]] = field(
        default_factory=OrderedDict
    )
    """Assistant and folder of a resume that no prompt has followed yet."""

    def restore(self, known: Iterable[tuple[SessionKey, Marks]]) -> None:
        for key, marks in known:
            self._put(key, Told(marks))

    def marks(self) -> list[tuple[SessionKey, Marks]]:
        """Of every session; the one told last comes last."""
        return [(key, told.marks) for key, told in self._told.items()]

    def is_claimed(self, call: HookCall) -> bool:
        """Whether an answer to the same session is on its way."""
        return call.key in self._claims

    async def free(self, call: HookCall) -> None:
        """Wait for the answers before."""
        while call.key is not None and (before := self._claims.get(call.key)) is not None:
            await asyncio.shield(before)

    def claim(self, call: HookCall) -> asyncio.Future[None] | None:
        """Of a session that is free; the caller settles what it gets. None for nobody's call."""
        if call.key is None:
            return None
        claim = self._claims[call.key] = asyncio.get_running_loop().create_future()
        return claim

    def settle(self, call: HookCall, claim: asyncio.Future[None] | None) -> None:
        """The answer has arrived or is lost: the session's next event may be answered."""
        if claim is not None and call.key is not None and not claim.done():
            del self._claims[call.key]
            claim.set_result(None)

    def plan(self, call: HookCall) -> Plan | None:
        """What this call is to get, by what its session was told; None where it is of no session
        and nothing can be remembered."""
        key = call.key
        told = self._told.get(key) if key is not None else None
        if call.kind == "forget" or (call.caller == "gemini-cli" and call.source == "clear"):
            # Gemini CLI drops what a hook says at a clear; the next prompt gets it.
            self._forget(key)
            return Plan("nothing")
        if key is None:
            return None
        if call.kind == "prompt":
            return self._prompt(call, told)
        place = (call.caller, call.cwd)
        self._resumed.pop(place, None)
        if call.source in ("resume", "fork") and ASSISTANTS[call.caller].replays:
            if told is None:
                return Plan("whole", forks=self._others(call))
            self._resumed[place] = (key, time.monotonic())
            while len(self._resumed) > MAX_SESSIONS:
                self._resumed.popitem(last=False)
            return Plan("news", told.marks)
        plan = _fresh(call, told)
        if plan == Plan("whole"):
            # Should it get lost, the next prompt gives all of it.
            self._forget(key)
        return plan

    def arrived(self, call: HookCall, answer: HookAnswer) -> None:
        """Remember an answer that has reached its client."""
        if call.key is None or answer.marks is None:
            return
        before = self._told.get(call.key)
        turn = call.turn if call.kind == "prompt" else None
        if answer.whole or before is None:
            told = Told(answer.marks, turn, answer.whole, call, time.monotonic())
        else:
            told = Told(answer.marks, turn, before.whole, before.by, before.at)
        self._put(call.key, told)
        if before is None or before.marks != answer.marks:
            self.changed()

    def _prompt(self, call: HookCall, told: Told | None) -> Plan:
        resumed = self._resumed.pop((call.caller, call.cwd), None)
        if told is None and resumed is not None:
            # The start had the id of the session that was forked, this prompt has the fork's.
            parent, at = resumed
            if time.monotonic() - at < FORK_PROMPT:
                told = self._told.get(parent)
        if told is None:
            return Plan("whole")
        if call.turn is not None and call.turn == told.turn:
            return Plan("nothing")
        by = told.by
        same = by is not None and (by.kind, by.turn, by.prompt) == ("prompt", None, call.prompt)
        return Plan("news", told.marks, told.whole if same and told.age < SAME_EVENT else "")

    def _others(self, call: HookCall) -> Mapping[str, Marks]:
        return {
            key[1]: told.marks
            for key, told in self._told.items()
            if key[0] == call.caller and not key[2]
        }

    def _forget(self, key: SessionKey | None) -> None:
        if key is not None and self._told.pop(key, None) is not None:
            self.changed()

    def _put(self, key: SessionKey, told: Told) -> None:
        self._told[key] = told
        self._told.move_to_end(key)
        while len(self._told) > MAX_SESSIONS:
            self._told.popitem(last=False)


def _fresh(call: HookCall, told: Told | None) -> Plan:
    """A whole context, unless the session has just got it."""
    if told is None or told.by is None or not told.whole:
        return Plan("whole")
    if told.by.kind == call.kind and told.by.source == call.source:
        return Plan("whole", unless=told.whole) if told.age < SAME_EVENT else Plan("whole")
    overtaken = told.by.kind == "prompt" and call.source not in ("clear", "compact")
    if overtaken and told.age < ONE_START:
        return Plan("news", told.marks)
    return Plan("whole")
