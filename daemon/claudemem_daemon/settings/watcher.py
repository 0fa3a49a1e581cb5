"""Watches for edits of settings.json, so that a change is in force before anyone asks.

Every question compares the file's state as well. So without watches, as on a network share, little
is lost: a rewrite of equal size and equal times, which a stat cannot see on every file system, then
waits for a reload.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from claudemem_daemon.dependencies import each_path_once, folder_identity, is_folder, real_path
from claudemem_daemon.settings.configuration import Configuration

MODIFIED: Final = (events.FileModifiedEvent, events.DirModifiedEvent)
WATCHED: Final[list[type[events.FileSystemEvent]]] = [
    *(events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent),
    *(events.FileCreatedEvent, events.FileDeletedEvent, events.FileMovedEvent),
    *((events.FileClosedEvent,) if sys.platform == "linux" else MODIFIED),
]
"""Without mere reads, which are frequent. On Linux an edit in place ends with a close; every
modification would be every write to the WAL of a store beside it."""

Folder = tuple[str, tuple[int, int]]
"""A folder's real path and identity: another folder at the same path needs a new watch."""


class WatcherState(NamedTuple):
    """How changes are noticed: `backend` is a watchdog observer's name or "stat-per-request",
    `problem` one line where watches were refused, `reloads` the number of changes of content."""

    backend: str
    folders: tuple[str, ...]
    problem: str | None
    reloads: int


class SettingsWatcher(events.FileSystemEventHandler):
    """Watches the folder of settings.json, because an editor replaces the file, and the folder around
    that, because the data dir may appear, vanish, or be swapped. Events only wake a thread, which
    does all the work: watchdog holds a lock while it dispatches them."""

    def __init__(
        self, configuration: Configuration, *, observer: Callable[[], BaseObserver] = Observer
    ) -> None:
        super().__init__()
        self._configuration = configuration
        self._make = observer
        self._observer: BaseObserver | None = None
        self._watches: dict[Folder, ObservedWatch] = {}
        self._paths: frozenset[str] = frozenset()
        self._problem: str | None = None
        self._reloads = 0
        self._revision = configuration.revision
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Never fails: without watches the reason is in `describe`."""
        self._thread = threading.Thread(target=self._serve, name="claudemem-settings", daemon=True)
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Ends all threads; may be called again, and without `start`."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join(5)

    def describe(self) -> WatcherState:
        """Also wakes the thread to replace a dead observer; until then the stat of each question
        notices changes."""
        observer = self._observer
        working = bool(self._watches) and observer is not None and _is_alive(observer)
        if not working:
            self._wake.set()
        return WatcherState(
            type(observer).__name__ if working else "stat-per-request",
            tuple(sorted(path for path, _ in list(self._watches))) if working else (),
            self._problem,
            self._reloads,
        )

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        if not self._paths.isdisjoint(map(os.fsdecode, (event.src_path, event.dest_path))):
            self._wake.set()

    def _serve(self) -> None:
        while self._wake.wait() and self._thread is threading.current_thread():
            self._check()
        self._close()

    def _check(self) -> None:
        self._wake.clear()
        anew = self._set_watches()
        # A question may have read the change before this thread; that counts as well.
        before, self._revision = self._revision, self._configuration.reread()
        self._reloads += self._revision != before
        if anew or self._revision != before:
            # What is written into a folder before it is watched would be missed, and the change may
            # name another data dir.
            self._wake.set()

    def _set_watches(self) -> bool:
        """Whether another folder is watched now."""
        folders, self._paths = _targets(self._configuration.settings_paths)
        changed = self._watches.keys() != folders
        observer = self._observer
        try:
            for gone in self._watches.keys() - folders:
                watch = self._watches.pop(gone)
                if observer is not None:
                    with suppress(KeyError):  # It may have ended with its folder.
                        observer.unschedule(watch)
            if observer is None or not _is_alive(observer):
                self._close()
                observer = self._observer = self._make()
                observer.start()
            for folder in sorted(folders - self._watches.keys()):
                self._watches[folder] = observer.schedule(
                    self, folder[0], recursive=False, event_filter=WATCHED
                )
        except (OSError, RuntimeError) as error:
            self._problem = f"no watches from the kernel ({getattr(error, 'strerror', 0) or error})"
            self._close()
            return False
        self._problem = None
        return changed

    def _close(self) -> None:
        observer, self._observer = self._observer, None
        self._watches.clear()
        if observer is not None:
            observer.stop()
            with suppress(RuntimeError):  # It was not started.
                observer.join(5)


def _is_alive(observer: BaseObserver) -> bool:
    return observer.is_alive() and all(emitter.is_alive() for emitter in list(observer.emitters))


@each_path_once()
def _targets(settings_paths: tuple[str, ...]) -> tuple[frozenset[Folder], frozenset[str]]:
    """The folders to watch, and the paths whose events count: the files and the folders above them.
    Events name what is watched; so all are real paths, also of a file that a dotfile manager links
    to."""
    folders: set[Folder] = set()
    paths: set[str] = set()
    for path in settings_paths:
        folder = os.path.dirname(path)
        target = real_path(path)
        paths |= {os.path.join(real_path(folder), os.path.basename(path)), target, path}
        for near in (folder, os.path.dirname(folder), os.path.dirname(target)):
            while near != "/" and not is_folder(near):
                near = os.path.dirname(near)
            identity = folder_identity(near)
            if identity is not None:
                folders.add((real_path(near), identity))
                paths.add(real_path(near))
        while folder != "/":
            above = os.path.dirname(folder)
            paths |= {folder, os.path.join(real_path(above), os.path.basename(folder))}
            folder = above
    return frozenset(folders), frozenset(paths)
