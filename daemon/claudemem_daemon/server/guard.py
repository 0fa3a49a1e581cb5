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

LOOK_SECONDS: Final = 60.0
"""How often we look even if nobody told us: kernels run out of watches, network file systems have
none. One wake-up a minute is not to be seen in any accounting."""
EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileDeletedEvent,
    FileMovedEvent,
    DirDeletedEvent,
    DirMovedEvent,
]


class Guard(FileSystemEventHandler):
    """Calls `check` on the event loop after something was deleted or moved in one of the folders,
    and every minute."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, check: Callable[[], None], folders: Iterable[str]
    ) -> None:
        self._loop = loop
        self._check = check
        self._folders = tuple(dict.fromkeys(folders))
        self._observer: BaseObserver | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pending = False

    def start(self) -> None:
        """Never fails; without watches the minute's look remains."""
        self._look_later()
        observer = Observer()
        observer.daemon = True
        try:
            observer.start()
        except OSError:
            return
        self._observer = observer
        self.arm()

    def arm(self) -> None:
        """Watch the folders as they are now; to be called again after they were made anew."""
        if self._observer is None:
            return
        with suppress(OSError, KeyError):
            self._observer.unschedule_all()
        for folder in self._folders:
            with suppress(OSError):
                self._observer.schedule(self, folder, event_filter=EVENTS)

    def stop(self) -> None:
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

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._look_later()
        self._check()
