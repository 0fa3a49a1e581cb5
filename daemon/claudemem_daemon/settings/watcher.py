"""Watches for edits of settings.json, so that a change is in force before anyone asks.

Every question looks at the file as well (one stat), so where the kernel gives no watches, on a
network share, or after the observer died, nothing but this head start is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from claudemem_daemon.settings.configuration import Configuration

CHANGES: Final = frozenset({"created", "modified", "moved", "deleted", "closed"})
"""Opened and closed-without-write are left out: our own reading makes those."""


@dataclass(frozen=True, slots=True)
class WatcherState:
    """How changes are noticed: `backend` is a watchdog observer's name or "stat-per-request"."""

    backend: str
    folders: tuple[str, ...]
    problem: str | None
    reloads: int


class SettingsWatcher:
    """Watches the folder of settings.json, not the file: an editor replaces it. And the folder
    around that, for the data dir may appear, vanish, or be swapped."""

    def __init__(
        self,
        configuration: Configuration,
        on_change: Callable[[], None],
        *,
        observer: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self._configuration = configuration
        self._on_change = on_change
        self._make = observer
        self._observer: BaseObserver | None = None
        self._watches: dict[tuple[str, int], ObservedWatch] = {}
        self._handler = _Handler(self.notice)
        self._problem: str | None = None
        self._reloads = 0
        self._revision = configuration.revision
        self._lock = threading.Lock()

    def start(self) -> None:
        """Never fails: without watches the reason is in `describe`."""
        try:
            observer = self._make()
            observer.daemon = True
            observer.start()
        except OSError as error:
            self._problem = f"no watches from the kernel ({error.strerror or error})"
            return
        self._observer = observer
        self._arm()

    def stop(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(5)
        self._watches.clear()

    def describe(self) -> WatcherState:
        """Also where a dead observer is noticed and started again."""
        observer = self._observer
        if observer is not None and not observer.is_alive():
            self._watches.clear()
            self._observer = None
            self.start()
        with self._lock:
            works = self._observer is not None and bool(self._watches)
            return WatcherState(
                type(self._observer).__name__ if works else "stat-per-request",
                tuple(path for path, _ in self._watches) if works else (),
                self._problem,
                self._reloads,
            )

    def notice(self, paths: tuple[str, ...]) -> None:
        """Something changed at one of `paths`; what, only the content tells."""
        settings = self._configuration.settings_path
        folder = os.path.dirname(settings)
        if not any(path == settings or folder == path or _above(path, folder) for path in paths):
            return
        self._arm()
        # A question may have read the change before us; that counts as one, too.
        revision = self._configuration.reload().revision
        if revision != self._revision:
            self._revision = revision
            self._reloads += 1
            self._on_change()

    def _arm(self) -> None:
        """Watch the data dir and the nearest folder around it, as they are now."""
        observer = self._observer
        if observer is None:
            return
        folder = os.path.dirname(self._configuration.settings_path)
        wanted = {
            (path, seen.st_ino): path
            for path in (_existing(folder), _existing(os.path.dirname(folder)))
            if (seen := _stat(path)) is not None
        }
        with self._lock:
            for gone in [known for known in self._watches if known not in wanted]:
                watch = self._watches.pop(gone)
                try:
                    observer.unschedule(watch)
                except (KeyError, OSError):
                    continue
            for key, path in wanted.items():
                if key in self._watches:
                    continue
                try:
                    self._watches[key] = observer.schedule(self._handler, path, recursive=False)
                    self._problem = None
                except OSError as error:
                    self._problem = f"{path} cannot be watched ({error.strerror or error})"


class _Handler(FileSystemEventHandler):
    def __init__(self, notice: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self._notice = notice

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in CHANGES:
            paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or ""))
            self._notice(tuple(path for path in paths if path))


def _above(path: str, folder: str) -> bool:
    return folder.startswith(path.rstrip("/") + "/") and path != "/"


def _existing(path: str) -> str:
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
