"""Watches for edits of settings.json, so that a change is in force before anyone asks.

Every question compares the file's state as well. So where the kernel gives no watches, on a network
share, or after the observer died, little is lost: a rewrite of equal size and equal times, which a
stat cannot see on every file system, then waits for a reload.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from claudemem_daemon.dependencies import each_path_once, folder_identity, is_folder, real_path
from claudemem_daemon.settings.configuration import Configuration

MODIFIED: Final = (events.FileModifiedEvent, events.DirModifiedEvent)
CHANGES: Final[tuple[type[events.FileSystemEvent], ...]] = (
    *(events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent),
    *(events.FileCreatedEvent, events.FileDeletedEvent, events.FileMovedEvent),
    *(events.FileClosedEvent, *MODIFIED),
)
"""Without files that were only read: we and others do that all day."""

WATCHED: Final = [kind for kind in CHANGES if sys.platform != "linux" or kind not in MODIFIED]
"""On Linux an edit in place ends with a close, which is told by itself; with modifications we would
wake up at every write to a store's WAL in the same folder."""

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


Folder = tuple[str, tuple[int, int]]
"""A folder's real path and identity: another folder at the same path needs a new watch."""


@dataclass(frozen=True, slots=True)
class _Targets:
    """The folders to watch, and the paths whose events count: the files, and the folders on the way
    to them."""

    folders: frozenset[Folder]
    files: frozenset[str]
    around: frozenset[str]


class SettingsWatcher:
    """Watches the folder of settings.json, not the file: an editor replaces it. And the folder
    around that, for the data dir may appear, vanish, or be swapped. Neither with what is below.
    """

    def __init__(
        self, configuration: Configuration, *, observer: Callable[[], BaseObserver] = Observer
    ) -> None:
        self._configuration = configuration
        self._make = observer
        self._observer: BaseObserver | None = None
        self._watches: dict[Folder, ObservedWatch] = {}
        self._targets = _targets(())
        self._handler = _Handler(self.notice)
        self._problem: str | None = None
        self._refused_at: float | None = None
        self._started = False
        self._reloads = 0
        self._revision = configuration.revision
        self._counting = threading.Lock()
        # watchdog calls us with a lock of its own held that setting a watch needs as well. So
        # nobody who is called by it may ever wait for this one.
        self._setting = threading.Lock()
        self._set_again = False

    def start(self) -> None:
        """Never fails: without watches the reason is in `describe`."""
        with self._setting:
            self._started = True
            self._revision = self._configuration.state().revision
            self._open()
        # A folder may have appeared before the one around it was watched.
        self._alone(self._set_watches)

    def stop(self) -> None:
        """Ends the observer's threads; may be called again, and without `start`."""
        with self._setting:
            self._started = False
            self._close()

    def describe(self) -> WatcherState:
        """Also the place where a dead observer is noticed and replaced: nobody wakes up for that,
        and until somebody asks for the status the stat of each question does the work."""
        if self._started:
            self._alone(self._heal)
        observer = self._observer
        return WatcherState(
            "stat-per-request" if observer is None else type(observer).__name__,
            () if observer is None else tuple(sorted(path for path, _ in list(self._watches))),
            self._problem,
            self._reloads,
        )

    def notice(self, paths: tuple[str, ...]) -> None:
        """Something changed at one of `paths`; what, only the content tells."""
        targets = self._targets if self._started else _targets(self._configuration.settings_paths)
        by_content = not targets.files.isdisjoint(paths)
        if not by_content and targets.around.isdisjoint(paths):
            return
        # First, or what is written into a new folder before it is watched would be missed. Asking
        # where the settings are takes a new data dir in as well.
        self._alone(self._set_watches)
        # Stores are written in that folder all day; a stat is enough for what is no event of the
        # file itself.
        read = self._configuration.reload if by_content else self._configuration.state
        revision = read().revision
        with self._counting:
            # Somebody's question may have read the change before us; that counts as one, too.
            self._reloads += revision != self._revision
            self._revision = revision

    def _alone(self, work: Callable[[], None]) -> None:
        """Do `work` on the watches, now or, if somebody is at it, by that thread after its own."""
        self._set_again = True
        while self._set_again and self._setting.acquire(blocking=False):
            try:
                self._set_again = False
                if self._started:
                    work()
            finally:
                self._setting.release()

    def _open(self) -> None:
        try:
            observer = self._make()
            observer.start()
        except (OSError, RuntimeError) as error:
            self._refuse("no watches from the kernel", error)
            return
        self._observer = observer
        self._set_watches()

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
            emitters = list(observer.emitters)
            if observer.is_alive() and all(emitter.is_alive() for emitter in emitters):
                self._set_watches()
                return
            self._close()
        elif self._refused_at is not None and time.monotonic() - self._refused_at < TRY_AGAIN:
            return
        self._open()

    def _set_watches(self) -> None:
        targets = _targets(self._configuration.settings_paths)
        observer = self._observer
        if observer is None:
            return
        for gone in self._watches.keys() - targets.folders:
            try:
                observer.unschedule(self._watches.pop(gone))
            except (KeyError, OSError):
                continue  # It went by itself, with its folder.
        self._targets = targets
        for folder in sorted(targets.folders - self._watches.keys()):
            try:
                self._watches[folder] = observer.schedule(
                    self._handler, folder[0], recursive=False, event_filter=WATCHED
                )
            except (OSError, RuntimeError) as error:
                self._refuse(f"{folder[0]} cannot be watched", error)
                self._close()
                return
        self._problem = None

    def _refuse(self, what: str, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        self._problem = f"{what} ({reason})"
        self._refused_at = time.monotonic()


class _Handler(events.FileSystemEventHandler):
    def __init__(self, notice: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self._notice = notice

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        if isinstance(event, CHANGES):
            paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or ""))
            self._notice(tuple(path for path in paths if path))


@each_path_once()
def _targets(settings_paths: tuple[str, ...]) -> _Targets:
    folders: set[Folder] = set()
    files: set[str] = set()
    around: set[str] = set()
    for path in settings_paths:
        folder = os.path.dirname(path)
        # Events name what a watch was set on; so everything is said by real paths, which also
        # reaches through a link to where a dotfile manager keeps the file.
        target = real_path(path)
        files |= {os.path.join(real_path(folder), os.path.basename(path)), target, path}
        for near in (folder, os.path.dirname(folder), os.path.dirname(target)):
            real = real_path(_existing(near))
            identity = folder_identity(real)
            if identity is not None:
                folders.add((real, identity))
                around.add(real)
        while folder != "/":
            above = os.path.dirname(folder)
            around |= {folder, os.path.join(real_path(above), os.path.basename(folder))}
            folder = above
    return _Targets(frozenset(folders), frozenset(files), frozenset(around))


def _existing(path: str) -> str:
    """The folder at `path`, or the nearest above it that is there."""
    while path != "/" and not is_folder(path):
        path = os.path.dirname(path)
    return path
