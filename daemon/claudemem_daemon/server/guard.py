"""Notices that the socket or its folder was taken away while we serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from watchdog.events import (
    DirDeletedEvent,
    DirMovedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

UNWATCHED_SECONDS: Final = 60.0
"""How often is checked where nobody tells us: kernels run out of watches."""
WATCHED_SECONDS: Final = 600.0
"""How often is checked all the same: an overflowing queue loses events, and what another machine does
on a network file system makes none. Most minutes pass without a wake-up."""
EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileDeletedEvent,
    FileMovedEvent,
    DirDeletedEvent,
    DirMovedEvent,
]


class Guard(FileSystemEventHandler):
    """Calls `check` on the event loop after something was deleted or moved in one of the folders,
    and every `seconds`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, check: Callable[[], None], folders: Iterable[str]
    ) -> None:
        self._loop = loop
        self._check = check
        self._folders = tuple(dict.fromkeys(folders))
        self._observer: BaseObserver | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pending = False
        self._stopped = False
        self.seconds = UNWATCHED_SECONDS

    def start(self) -> None:
        """Never fails; without watches a check each minute remains."""
        self._check_later()
        try:
            observer = Observer()  # Of some kinds the kernel gives only so many.
            observer.daemon = True
            observer.start()
        except OSError:
            return
        self._observer = observer
        self.arm()

    def arm(self) -> None:
        """Watch the folders as they are now; to be called again, in any thread, after they were
        made anew."""
        if self._observer is None:
            return
        with suppress(OSError, KeyError):
            self._observer.unschedule_all()
        watched = 0
        for folder in self._folders:
            with suppress(OSError):
                self._observer.schedule(self, folder, event_filter=EVENTS)
                watched += 1
        self.seconds = WATCHED_SECONDS if watched == len(self._folders) else UNWATCHED_SECONDS
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._check_later)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(5)

    def on_any_event(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - watchdog's signature
        """In the observer's thread."""
        if self._pending:
            return
        self._pending = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._told)

    def _told(self) -> None:
        self._pending = False
        self._check()

    def _check_later(self) -> None:
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self.seconds, self._check_now)

    def _check_now(self) -> None:
        self._check_later()
        self._check()
