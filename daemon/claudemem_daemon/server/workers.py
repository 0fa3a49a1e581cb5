"""Threads for what may wait on a disk, so that the event loop never does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from claudemem_daemon.dependencies import each_path_once

T = TypeVar("T")

USUAL_THREADS: Final = 2
"""One makes an answer while the other waits for a disk; more would only share the interpreter and
hold more rows in memory at once. One more is for what is known to be quick."""
MAX_THREADS: Final = 48
"""With so many threads stuck in a dead file system, no more are tried."""
MAX_OF_ONE_PLACE: Final = 4
"""Threads that may be stuck in one place; whatever else is asked of it waits."""
SLOW_SECONDS: Final = 0.1
"""After which a thread that hardly uses the processor no longer counts as one of the usual ones."""
COMPUTING_SHARE: Final = 0.1
"""Of the time it has run, the processor time of a thread that computes, on however busy a machine."""
STUCK_SECONDS: Final = 5.0
"""After which `status` speaks of it."""
TIDY_SECONDS: Final = 1.0
"""Without work, after which there is time to tidy up."""
QUICK_SECONDS: Final = 0.03
"""Of processor time; what took no longer the last time is quick."""
UNKNOWN_SECONDS: Final = 0.05
"""What is assumed of work that was never done before and may be any."""
USUAL_SECONDS: Final = 0.01
"""What is assumed of the questions that assistants ask."""
PASSED_BY: Final = 20
"""Work waits for this many times its own length in favour of quicker work that comes later."""
MAX_REMEMBERED: Final = 1024


@dataclass(slots=True, eq=False)
class _Item:
    turn: float
    quick: bool
    place: Hashable
    run: Callable[[], None]
    began: float = 0.0
    cpu_began: float = 0.0
    """When a thread took it: on the monotonic clock, and on the thread's own."""

    def hangs(self, thread: int, seconds: float) -> bool:
        """Whether `thread` has been at it for longer, and not because it has so much to compute."""
        ran = time.monotonic() - self.began
        return ran > seconds and _cpu_time(thread) - self.cpu_began < COMPUTING_SHARE * ran


def _cpu_time(thread: int) -> float:
    """Seconds of a thread that lives; 0 where the system does not tell."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


class Workers:
    """A small pool that adds a thread for each slow one: a store on a share that hangs takes a few
    threads with it, not the pool. Quick work is never behind slow work. The threads never keep the
    process alive.

    `tidy` is called on the event loop, once, when there has been no work for a while.
    """

    def __init__(self, tidy: Callable[[], None] = lambda: None, slow: float = SLOW_SECONDS) -> None:
        self._tidy = tidy
        self._slow = slow
        self._last = 0.0
        """When the last work came, on the loop's clock."""
        self._tidying = False
        self._condition = threading.Condition()
        """Guards all that follows. A thread is idle until it has taken its item, so what is queued
        is compared with the idle threads without a moment in which one counts for two items."""
        self._queue: list[_Item] = []
        self._threads = 0
        self._idle = 0
        self._busy: dict[int, _Item] = {}
        """By the thread that is at it."""
        self._seconds: OrderedDict[Hashable, float] = OrderedDict()
        """What work of one key took the last time, in processor time: whoever waits is not slow."""
        self._growing = False

    @property
    def stuck(self) -> int:
        """Threads that have been at one piece of work for longer than `STUCK_SECONDS`."""
        with self._condition:
            return self._hanging(STUCK_SECONDS)

    def submit(
        self,
        work: Callable[[], T],
        *,
        place: Hashable = None,
        like: Hashable = None,
        expected: float = UNKNOWN_SECONDS,
    ) -> asyncio.Future[T]:
        """Run `work` in a thread, unless the future was cancelled before its turn came; inside, no
        path is looked at twice. `place` names the folder that it may get stuck in, `like` what took
        as long the last time; without a last time it takes `expected` seconds of the processor."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            if future.cancelled():
                return
            began = time.thread_time()
            settle: Callable[[], None]
            try:
                with each_path_once():
                    settle = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                settle = partial(future.set_exception, error)
            if like is not None:
                self._remember(like, time.thread_time() - began)
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(_unless_done, future, settle)

        with self._condition:
            seconds = self._seconds.get(like, expected)
            turn = time.monotonic() + PASSED_BY * seconds
            self._queue.append(_Item(turn, seconds <= QUICK_SECONDS, place, run))
        self._grow(loop)
        self._last = loop.time()
        if not self._tidying:
            self._tidying = True
            loop.call_later(TIDY_SECONDS, self._tidy_up, loop)
        return future

    def _remember(self, like: Hashable, seconds: float) -> None:
        with self._condition:
            self._seconds[like] = seconds
            self._seconds.move_to_end(like)
            if len(self._seconds) > MAX_REMEMBERED:
                self._seconds.popitem(last=False)

    def _tidy_up(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._last + TIDY_SECONDS - loop.time()
        if left > 0 or self._busy:
            loop.call_later(max(left, TIDY_SECONDS / 2), self._tidy_up, loop)
            return
        self._tidying = False
        self._tidy()

    def _grow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake or make threads for what is queued, as far as the limits go; again as soon as those
        at work would count as slow."""
        with self._condition:
            waiting = len(self._waiting())
            self._condition.notify(waiting)
            while waiting > self._idle and self._threads < self._limit():
                self._threads += 1
                self._idle += 1
                threading.Thread(target=self._serve, name="claudemem-worker", daemon=True).start()
            again = waiting > 0 and not self._growing
            self._growing = self._growing or again
        if again:
            loop.call_later(self._slow, self._grow_again, loop)

    def _grow_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._growing = False
        self._grow(loop)

    def _limit(self) -> int:
        quick = any(item.quick for item in self._queue)
        return min(USUAL_THREADS + quick + self._hanging(self._slow), MAX_THREADS)

    def _hanging(self, seconds: float) -> int:
        return sum(item.hangs(thread, seconds) for thread, item in self._busy.items())

    def _waiting(self) -> list[_Item]:
        """What is queued for places that are not stuck."""
        if not self._busy:
            return self._queue
        places = Counter(item.place for item in self._busy.values() if item.place is not None)
        return [item for item in self._queue if places[item.place] < MAX_OF_ONE_PLACE]

    def _take(self) -> _Item | None:
        """The next item; while the usual threads are at work, only what is quick."""
        full = len(self._busy) >= USUAL_THREADS + self._hanging(self._slow)
        free = [item for item in self._waiting() if item.quick or not full]
        if not free:
            return None
        item = min(free, key=lambda item: item.turn)
        self._queue.remove(item)
        return item

    def _serve(self) -> None:
        me = threading.get_ident()
        while True:
            with self._condition:
                while (item := self._take()) is None:
                    if self._threads > USUAL_THREADS + 1 and self._idle > USUAL_THREADS + 1:
                        self._threads -= 1
                        self._idle -= 1
                        return
                    self._condition.wait()
                self._idle -= 1
                item.began, item.cpu_began = time.monotonic(), time.thread_time()
                self._busy[me] = item
            try:
                item.run()
            finally:
                with self._condition:
                    del self._busy[me]
                    self._idle += 1
            # What it returned must not live on until the next request.
            del item


def _unless_done(future: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()
