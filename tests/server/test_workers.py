"""A thread that hangs takes nobody with it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from claudemem_daemon.server import workers as workers_module
from claudemem_daemon.server.workers import MOST, USUAL, Workers


def test_results_and_errors_come_back() -> None:
    async def ask() -> None:
        workers = Workers()
        assert await workers.submit(lambda: threading.current_thread().name) == "claudemem-worker"
        with pytest.raises(ZeroDivisionError):
            await workers.submit(lambda: 1 // 0)
        assert workers.stuck == 0

    asyncio.run(ask())


def test_as_many_hang_as_there_are_threads_and_the_next_is_served() -> None:
    """Case busy-daemon-taken-for-dead: a store that does not respond holds up its own askers."""
    gate = threading.Event()

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(lambda: gate.wait(60)) for _ in range(USUAL * 2)]
        assert await asyncio.wait_for(workers.submit(lambda: "served"), 30) == "served"
        assert not any(future.done() for future in hanging)
        gate.set()
        assert await asyncio.gather(*hanging) == [True] * len(hanging)

    try:
        asyncio.run(ask())
    finally:
        gate.set()


def test_there_is_an_end_to_it() -> None:
    gate = threading.Event()
    seen: set[int] = set()

    def hang() -> None:
        seen.add(threading.get_ident())
        gate.wait(60)

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(hang) for _ in range(MOST + 10)]
        while len(seen) < MOST:
            await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(*hanging)

    try:
        asyncio.run(ask())
    finally:
        gate.set()


def test_what_was_given_up_before_its_turn_is_not_done() -> None:
    gate = threading.Event()
    done: list[int] = []

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(lambda: gate.wait(60)) for _ in range(USUAL)]
        given_up = workers.submit(lambda: done.append(1))
        given_up.cancel()
        gate.set()
        await asyncio.gather(*hanging)
        await workers.submit(lambda: None)

    try:
        asyncio.run(ask())
    finally:
        gate.set()
    assert done == []


def test_when_work_has_stopped_it_is_tidied_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "QUIET", 0.01)
    gate = threading.Event()
    done: list[bool] = []

    async def ask() -> None:
        tidied = asyncio.Event()

        def tidy() -> None:
            done.append(gate.is_set())
            tidied.set()

        workers = Workers(tidy)
        slow = workers.submit(lambda: gate.wait(60))
        await asyncio.wait_for(workers.submit(lambda: None), 30)
        asyncio.get_running_loop().call_later(0.05, gate.set)
        await asyncio.wait_for(slow, 30)
        await asyncio.wait_for(tidied.wait(), 30)
        await asyncio.sleep(0.05)  # nothing more comes of itself
        tidied.clear()
        await workers.submit(lambda: None)
        await asyncio.wait_for(tidied.wait(), 30)

    asyncio.run(ask())
    assert done == [True, True]
