"""A check that hangs sends whoever waits elsewhere, and the thread goes on when it can."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass

import pytest

from claudemem_daemon.memo import Memo
from claudemem_daemon.server.checker import Checker, SlowCheckError


@dataclass(frozen=True)
class Hanging:
    gate: threading.Event

    def holds(self) -> bool:
        return self.gate.wait(60)


@dataclass(frozen=True)
class Failing:
    def holds(self) -> bool:
        raise OSError("as no dependency does")


@dataclass(frozen=True)
class Value:
    dependencies: tuple[Hanging | Failing, ...]


async def patient(checker: Checker, key: str) -> object:
    """On a busy machine any check can be slow, and nobody is told when it ends."""
    while True:
        with suppress(SlowCheckError):
            return await checker.get(key)
        await asyncio.sleep(0.01)  # the check that is under way has no event


def test_who_waits_for_a_check_that_hangs_is_sent_elsewhere() -> None:
    gate = threading.Event()

    async def ask() -> None:
        memo = Memo()
        memo.put("hangs", Value((Hanging(gate),)))
        memo.put("holds", Value(()))
        checker = Checker(memo)
        assert await checker.get("unknown") is None
        assert await patient(checker, "holds") == Value(())
        both = await asyncio.gather(
            checker.get("hangs"), checker.get("holds"), return_exceptions=True
        )
        assert [type(one) for one in both] == [SlowCheckError] * 2
        with pytest.raises(SlowCheckError):  # at once: the thread is known to hang
            await checker.get("holds")
        assert checker.seconds > 0
        gate.set()
        while checker.seconds:
            await asyncio.sleep(0.01)  # the thread tells nobody that its check has ended
        assert await patient(checker, "hangs") is not None

    try:
        asyncio.run(ask())
    finally:
        gate.set()


def test_a_check_that_fails_ends_no_thread() -> None:
    async def ask() -> None:
        memo = Memo()
        memo.put("fails", Value((Failing(),)))
        memo.put("holds", Value(()))
        checker = Checker(memo)
        with pytest.raises(SlowCheckError):
            await checker.get("fails")
        assert await patient(checker, "holds") == Value(())

    asyncio.run(ask())
