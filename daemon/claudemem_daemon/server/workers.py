"""Threads for what may wait on a disk, so that the event loop never does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

USUAL: Final = 2
"""One makes an answer while the other waits for a disk; more would only share the interpreter and
hold more rows in memory at once."""
MOST: Final = 32
"""With so many threads stuck in a dead file system, no more are tried."""
SLOW: Final = 0.1
"""Seconds after which a thread no longer counts as one of the usual ones."""
STUCK: Final = 5.0
"""Seconds after which `status` speaks of it."""


QUIET: Final = 1.0
"""Seconds without work after which there is time to tidy up."""


class Workers:
    """A small pool that adds a thread for each slow one: a store on a share that hangs takes one
    thread with it, not the pool. The threads never keep the process alive.

    `tidy` is called on the event loop, once, when there has been no work for a while.
    """

    def __init__(self, tidy: Callable[[], None] = lambda: None) -> None:
        self._tidy = tidy
        self._last = 0.0
        """When the last work came, on the loop's clock."""
        self._waiting = False
        """Whether it is already arranged to look if all is quiet."""
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._busy: dict[int, float] = {}
        """Thread -> when its work began, on the monotonic clock."""
        self._threads = 0
        self._idle = 0
        self._looking = False

    @property
    def stuck(self) -> int:
        """Threads that have been at one piece of work for longer than `STUCK`."""
        return self._older_than(STUCK)

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread, unless the future was cancelled before its turn came."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                _settle(loop, future, None, error)
            else:
                _settle(loop, future, result, None)

        self._queue.put(run)
        self._look(loop)
        self._last = loop.time()
        if not self._waiting:
            self._waiting = True
            loop.call_later(QUIET, self._if_quiet, loop)
        return future

    def _if_quiet(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._last + QUIET - loop.time()
        if left > 0 or self._busy:
            loop.call_later(max(left, QUIET / 2), self._if_quiet, loop)
            return
        self._waiting = False
        self._tidy()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Threads for everything that is queued, as far as the limits go; again as soon as those
        at work would count as slow."""
        for _ in range(self._queue.qsize()):
            if not self._thread_for_it():
                if not self._looking:
                    self._looking = True
                    loop.call_later(SLOW, self._look_again, loop)
                return

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = False
        self._look(loop)

    def _older_than(self, seconds: float) -> int:
        then = time.monotonic() - seconds
        with self._lock:
            return sum(began < then for began in self._busy.values())

    def _thread_for_it(self) -> bool:
        """Whether a thread is free for what is queued, or was made for it."""
        slow = self._older_than(SLOW)
        with self._lock:
            if self._idle >= self._queue.qsize():
                return True
            if self._threads >= min(USUAL + slow, MOST):
                return False
            self._threads += 1
        threading.Thread(target=self._serve, name="claudemem-worker", daemon=True).start()
        return True

    def _serve(self) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                if self._threads > USUAL and self._idle >= USUAL:
                    self._threads -= 1
                    return
                self._idle += 1
            work = self._queue.get()
            with self._lock:
                self._idle -= 1
                self._busy[me] = time.monotonic()
            try:
                work()
            finally:
                with self._lock:
                    del self._busy[me]
            # What it returned must not live on until the next request.
            del work


def _settle(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    result: T | None,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T allows it

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return
