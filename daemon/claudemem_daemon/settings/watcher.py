"""Watches for edits of settings.json, so that a change is in force before anyone asks.

Every question looks at the file as well (one stat), so where the kernel gives no watches, on a
network share, or after the observer died, little is lost: a rewrite of equal size and equal times,
which a stat cannot see on every file system, then waits for a reload.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from claudemem_daemon.settings.configuration import Configuration

CHANGES: Final[tuple[type[FileSystemEvent], ...]] = (
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
)
"""Opened and closed-without-write are left out, from the kernel's watch on: our own reading, and
everybody's, makes those."""

ASKED_FOR: Final = tuple(
    one
    for one in CHANGES
    if sys.platform != "linux" or one not in (FileModifiedEvent, DirModifiedEvent)
)
"""On Linux an edit in place ends with a close, which is told by itself; to ask for modifications as
well would wake us with every write to a store's WAL in the same folder."""

TRY_AGAIN: Final = 60.0
"""Seconds after which a refused watch is asked for again, when somebody looks at the status."""


@dataclass(frozen=True, slots=True)
class WatcherState:
    """How changes are noticed: `backend` is a watchdog observer's name or "stat-per-request",
    `problem` one line where watches were refused, `reloads` how many changes of content there
    were since the start."""

    backend: str
    folders: tuple[str, ...]
    problem: str | None
    reloads: int


@dataclass(frozen=True, slots=True)
class _Aim:
    """What there is to watch: folders by path and identity, and the paths whose events count."""

    folders: frozenset[tuple[str, int, int]]
    files: frozenset[str]
    around: frozenset[str]


class SettingsWatcher:
    """Watches the folder of settings.json, not the file: an editor replaces it. And the folder
    around that, for the data dir may appear, vanish, or be swapped. Neither with what is below.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        observer: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self._configuration = configuration
        self._make = observer
        self._observer: BaseObserver | None = None
        self._watches: dict[tuple[str, int, int], ObservedWatch] = {}
        self._aim = _aim(())
        self._handler = _Handler(self.notice)
        self._problem: str | None = None
        self._refused_at: float | None = None
        self._started = False
        self._reloads = 0
        self._revision = configuration.revision
        self._counting = threading.Lock()
        # watchdog calls us with a lock of its own held that setting a watch needs as well. So
        # nobody who is called by it may ever wait for this one.
        self._arming = threading.Lock()
        self._arm_again = False

    def start(self) -> None:
        """Never fails: without watches the reason is in `describe`."""
        with self._arming:
            self._started = True
            self._revision = self._configuration.state().revision
            self._open()
        # A folder may have appeared before the one around it was watched.
        self._armed(self._arm)

    def stop(self) -> None:
        """Ends the observer's threads; may be called twice, and without `start`."""
        with self._arming:
            self._started = False
            self._close()

    def describe(self) -> WatcherState:
        """How it stands. Also the place where a dead observer is noticed and replaced: nobody
        wakes up for that, and until somebody looks the stat of each question does the work."""
        if self._started:
            self._armed(self._heal)
        observer = self._observer
        folders = sorted(folder for folder, _, _ in list(self._watches))
        return WatcherState(
            "stat-per-request" if observer is None else type(observer).__name__,
            () if observer is None else tuple(folders),
            self._problem,
            self._reloads,
        )

    def notice(self, paths: tuple[str, ...]) -> None:
        """Something changed at one of `paths`; what, only the content tells."""
        aim = self._aim if self._started else _aim(self._configuration.settings_paths)
        by_content = any(path in aim.files for path in paths)
        if not by_content and not any(path in aim.around for path in paths):
            return
        # First, or what is written into a new folder before it is watched would be missed. Asking
        # where the settings are takes a new data dir in as well.
        self._armed(self._arm)
        # Stores are written in that folder all day; a stat is enough for what is no event of the
        # file itself.
        look = self._configuration.reload if by_content else self._configuration.state
        revision = look().revision
        with self._counting:
            # Somebody's question may have read the change before us; that counts as one, too.
            changed = revision != self._revision
            self._revision = revision
            self._reloads += changed

    def _armed(self, work: Callable[[], None]) -> None:
        """Do `work` on the watches, now or, if somebody is at it, by that thread after its own."""
        self._arm_again = True
        while self._arm_again and self._arming.acquire(blocking=False):
            try:
                self._arm_again = False
                if self._started:
                    work()
            finally:
                self._arming.release()

    def _open(self) -> None:
        try:
            observer = self._make()
            observer.start()
        except (OSError, RuntimeError) as error:
            self._refuse("no watches from the kernel", error)
            return
        self._observer = observer
        self._arm()

    def _close(self) -> None:
        observer, self._observer = self._observer, None
        self._watches.clear()
        if observer is not None:
            observer.stop()
            if observer is not threading.current_thread():
                observer.join(5)

    def _heal(self) -> None:
        observer = self._observer
        if observer is not None:
            if observer.is_alive() and all(one.is_alive() for one in list(observer.emitters)):
                self._arm()
                return
            self._close()
        elif self._refused_at is not None and time.monotonic() - self._refused_at < TRY_AGAIN:
            return
        self._open()

    def _arm(self) -> None:
        """Watch the folders as they are now: by identity, for one may be another than before."""
        aim = _aim(self._configuration.settings_paths)
        observer = self._observer
        if observer is None:
            return
        for gone in [known for known in self._watches if known not in aim.folders]:
            try:
                observer.unschedule(self._watches.pop(gone))
            except (KeyError, OSError):
                continue  # it went by itself, with its folder
        self._aim = aim
        for key in sorted(aim.folders - self._watches.keys()):
            try:
                self._watches[key] = observer.schedule(
                    self._handler, key[0], recursive=False, event_filter=list(ASKED_FOR)
                )
            except (OSError, RuntimeError) as error:
                self._refuse(f"{key[0]} cannot be watched", error)
                self._close()
                return
        self._problem = None

    def _refuse(self, what: str, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        self._problem = f"{what} ({reason})"
        self._refused_at = time.monotonic()


class _Handler(FileSystemEventHandler):
    def __init__(self, notice: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self._notice = notice

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, CHANGES):
            paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or ""))
            self._notice(tuple(path for path in paths if path))


def _aim(settings_paths: tuple[str, ...]) -> _Aim:
    folders: set[tuple[str, int, int]] = set()
    files: set[str] = set()
    around: set[str] = set()
    for path in settings_paths:
        folder = os.path.dirname(path)
        # Events name what a watch was set on; so everything is said by real paths, which also
        # reaches through a link to where a dotfile manager keeps the file.
        target = os.path.realpath(path)
        files |= {os.path.join(os.path.realpath(folder), os.path.basename(path)), target, path}
        for place in (folder, os.path.dirname(folder), os.path.dirname(target)):
            near = os.path.realpath(_existing(place))
            try:
                seen = os.stat(near)
            except OSError:
                continue
            folders.add((near, seen.st_dev, seen.st_ino))
            around.add(near)
        while folder != "/":
            above = os.path.dirname(folder)
            around |= {folder, os.path.join(os.path.realpath(above), os.path.basename(folder))}
            folder = above
    return _Aim(frozenset(folders), frozenset(files), frozenset(around))


def _existing(path: str) -> str:
    """The folder at `path`, or the nearest above it that is there."""
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
