"""Finds out whether what was made before still holds: in a thread, for it looks at files, and by as
little as a thread can cost, for every warm answer waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Hashable
from queue import SimpleQueue
from typing import Any, Final

from claudemem_daemon.memo import Memo

SLOW_SECONDS: Final = 0.02
"""A check that takes longer hangs in a share or a sleeping disk."""


class SlowCheckError(Exception):
    """The check hangs or failed: to be asked again in a worker, where others do not wait."""


class Checker:
    """One thread that asks the memo. Used on the event loop."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._queue: SimpleQueue[tuple[Hashable, asyncio.Future[Any]]] = SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._watching = False
        """One timer for all checks: a timer each would cost more than half of a check."""
        self._began = 0.0
        """When the thread began its check, on the monotonic clock; 0 between two."""
        threading.Thread(target=self._serve, name="claudemem-checker", daemon=True).start()

    @property
    def seconds(self) -> float:
        """For which the thread has been at one check."""
        began = self._began
        return time.monotonic() - began if began else 0.0

    async def get(self, key: Hashable) -> Any:
        """The value of `key` if it holds, else None. Raises `SlowCheckError`."""
        if self._memo.last(key) is None:
            return None
        if self.seconds > SLOW_SECONDS:
            raise SlowCheckError
        loop = asyncio.get_running_loop()
        if not self._watching:
            self._watching = True
            loop.call_later(SLOW_SECONDS, self._watch, loop)
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.add(future)
        self._queue.put((key, future))
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send those who wait for a check that hangs elsewhere."""
        if self.seconds > SLOW_SECONDS:
            for future in self._waiting:
                _settle(future, SlowCheckError())
        self._watching = bool(self._waiting)
        if self._watching:
            loop.call_later(SLOW_SECONDS, self._watch, loop)

    def _serve(self) -> None:
        while True:
            key, future = self._queue.get()
            if future.done():
                continue
            self._began = time.monotonic()
            try:
                value = self._memo.get(key)
            except Exception:  # noqa: BLE001 - the worker that is asked instead meets and tells it
                value = SlowCheckError()
            self._began = 0.0
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, value)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            value = None  # It must not live on until the next request.


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if future.done():
        return
    if isinstance(value, SlowCheckError):
        future.set_exception(value)
    else:
        future.set_result(value)
