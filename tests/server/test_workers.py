"""A thread that hangs takes nobody with it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from claudemem_daemon.server import workers as workers_module
from claudemem_daemon.server.workers import (
    MAX_OF_ONE_PLACE,
    MAX_THREADS,
    QUICK_SECONDS,
    USUAL_THREADS,
    Workers,
)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs until it is set, as it is at the end at the latest."""
    made = threading.Event()
    yield made
    made.set()


def test_results_and_errors_come_back() -> None:
    async def ask() -> None:
        workers = Workers()
        assert await workers.submit(lambda: threading.current_thread().name) == "claudemem-worker"
        with pytest.raises(ZeroDivisionError):
            await workers.submit(lambda: 1 // 0)
        assert workers.stuck == 0

    asyncio.run(ask())


def test_as_many_hang_as_there_are_threads_and_the_next_is_served(gate: threading.Event) -> None:
    """Case busy-daemon-taken-for-dead: a store that does not respond holds up its own askers."""

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(lambda: gate.wait(60)) for _ in range(USUAL_THREADS * 2)]
        assert await asyncio.wait_for(workers.submit(lambda: "served"), 30) == "served"
        assert not any(future.done() for future in hanging)
        gate.set()
        assert await asyncio.gather(*hanging) == [True] * len(hanging)

    asyncio.run(ask())


def test_there_is_an_end_to_it(gate: threading.Event) -> None:
    seen: set[int] = set()
    full = threading.Event()

    def hang() -> None:
        seen.add(threading.get_ident())
        if len(seen) == MAX_THREADS:
            full.set()
        gate.wait(60)

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(hang, place=n) for n in range(MAX_THREADS + 10)]
        assert await asyncio.to_thread(full.wait, 60)
        gate.set()
        await asyncio.gather(*hanging)

    asyncio.run(ask())


def test_what_was_given_up_before_its_turn_is_not_done(gate: threading.Event) -> None:
    done: list[int] = []

    async def ask() -> None:
        workers = Workers()
        hanging = [workers.submit(lambda: gate.wait(60)) for _ in range(USUAL_THREADS)]
        given_up = workers.submit(lambda: done.append(1))
        given_up.cancel()
        gate.set()
        await asyncio.gather(*hanging)
        await workers.submit(lambda: None)

    asyncio.run(ask())
    assert done == []


def test_when_work_has_stopped_it_is_tidied_up_once(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(workers_module, "TIDY_SECONDS", 0.01)
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


def hold(
    workers: Workers, gate: threading.Event, times: int, place: str
) -> list[asyncio.Future[bool]]:
    return [workers.submit(lambda: gate.wait(60), place=place) for _ in range(times)]


def test_a_thread_that_has_just_taken_work_is_not_idle(gate: threading.Event) -> None:
    """The next item must not wait behind one that hangs: so it goes to another thread, at once and
    not when the first counts as slow."""
    taken = threading.Event()

    def hang() -> None:
        taken.set()
        gate.wait(60)

    async def ask() -> None:
        workers = Workers(slow=3600)
        await workers.submit(lambda: None)  # one thread, idle
        hanging = workers.submit(hang)
        assert await asyncio.wait_for(workers.submit(lambda: "served"), 30) == "served"
        assert taken.wait(30)
        gate.set()
        await hanging

    asyncio.run(ask())


def test_one_place_that_hangs_takes_few_threads(gate: threading.Event) -> None:

    async def ask() -> None:
        workers = Workers(slow=0.01)
        hanging = hold(workers, gate, MAX_THREADS * 2, "/share")
        for _ in range(20):
            served = workers.submit(lambda: "served", place="/home")
            assert await asyncio.wait_for(served, 30) == "served"
        stuck = [item for item in workers._busy.values() if item.place == "/share"]
        assert len(stuck) <= MAX_OF_ONE_PLACE
        gate.set()
        assert await asyncio.gather(*hanging) == [True] * len(hanging)

    asyncio.run(ask())


def test_what_is_quick_is_never_behind_what_is_slow(gate: threading.Event) -> None:
    order: list[str] = []

    async def ask() -> None:
        workers = Workers(slow=3600)
        await workers.submit(lambda: None, like="quick")
        slow = hold(workers, gate, 2, "a") + hold(workers, gate, 50, "b")
        quick = workers.submit(lambda: order.append("quick"), like="quick")
        # The slow ones hold the usual threads, and never end before the gate is open.
        await asyncio.wait_for(quick, 30)
        assert not any(one.done() for one in slow)
        gate.set()
        await asyncio.gather(*slow)

    asyncio.run(ask())
    assert order == ["quick"]


def test_what_took_long_the_last_time_lets_others_pass(gate: threading.Event) -> None:
    order: list[str] = []

    def spin() -> None:
        end = time.thread_time() + 2 * QUICK_SECONDS
        while time.thread_time() < end:
            pass
        order.append("slow")

    async def ask() -> None:
        workers = Workers(slow=3600)
        await workers.submit(spin, like="slow")
        await workers.submit(lambda: None, like="quick")
        order.clear()
        holding = hold(workers, gate, USUAL_THREADS + 1, "a")
        slow = [workers.submit(spin, like="slow") for _ in range(3)]
        quick = [workers.submit(lambda: order.append("quick"), like="quick") for _ in range(3)]
        await asyncio.gather(*quick)
        gate.set()
        await asyncio.gather(*slow, *holding)

    asyncio.run(ask())
    assert order == ["quick"] * 3 + ["slow"] * 3


@pytest.mark.parametrize("computes", [False, True])
def test_what_computes_gets_no_thread_for_every_question(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event, computes: bool
) -> None:
    """A thread that hangs makes room for another; one that computes would only share the
    processor with it, and its memory comes on top."""
    monkeypatch.setattr(workers_module, "_cpu_time", lambda _thread: 1e9 if computes else 0.0)

    async def ask() -> None:
        workers = Workers(slow=0.001)
        asked = [workers.submit(lambda: gate.wait(60), place=n) for n in range(8)]
        for _ in range(200 if computes else 10_000):
            if len(workers._busy) == len(asked):
                break
            await asyncio.sleep(0.001)  # that no thread is added is no event
        assert len(workers._busy) == (USUAL_THREADS if computes else len(asked))
        gate.set()
        await asyncio.gather(*asked)

    asyncio.run(ask())


def test_what_was_never_asked_waits_behind_nothing_slow_if_it_is_expected_quick(
    gate: threading.Event,
) -> None:

    async def ask() -> None:
        workers = Workers(slow=3600)
        slow = hold(workers, gate, 50, "a")
        quick = workers.submit(lambda: "quick", like="new", expected=QUICK_SECONDS / 2)
        assert await asyncio.wait_for(quick, 30) == "quick"
        assert not any(one.done() for one in slow)
        gate.set()
        await asyncio.gather(*slow)

    asyncio.run(ask())
