"""One settings.json: the values of it that are in force, also while it is damaged."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.settings.model import ALL_KEYS, DATA_DIR, DATA_DIR_KEY, Place, taken
from claudemem_daemon.settings.parsers import shown
from claudemem_daemon.settings.sources import Document, Rejected, document, read_bytes
from claudemem_daemon.warning import AnswerWarning


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What one settings.json says: `values` by key, all of a form that their parsers took."""

    dependencies: FileState
    values: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[AnswerWarning, ...] = ()
    rejected: Rejected | None = None
    """The newest edit, when it was not taken; its reason is the whole line, with what is used."""
    loaded_at: float | None = None
    """When the values were read, in seconds since 1970; None while there are none."""


class SettingsFile:
    """Remembers the last good content of one path. `changed` is called in the thread that reads a
    new content, not for the first."""

    def __init__(self, path: str, home: str, changed: Callable[[], None]) -> None:
        self.path = path
        self._home = home
        self._changed = changed
        self._lock = threading.Lock()
        self._last: LoadedFile | None = None
        self._content: bytes | Rejected | None = None
        """What was there: the digest of the file, or why it could not be read."""

    @property
    def last(self) -> LoadedFile | None:
        """What was read last, by whomever; None before the first time."""
        return self._last

    def current(self) -> LoadedFile:
        """The state now; the file is read only where a stat shows a change."""
        known = self._last
        return known if known is not None and known.dependencies.holds() else self.read()

    def read(self) -> LoadedFile:
        """The state now, even if size and times are the same."""
        with self._lock:
            # The stat comes first: an edit before the reading then shows the next time.
            dependencies = file_state(self.path)
            data = read_bytes(self.path)
            if data is None and os.path.islink(self.path):
                data = Rejected("is a link that leads nowhere")
            content = hashlib.sha256(data).digest() if isinstance(data, bytes) else data
            known = self._last
            if known is not None and content == self._content:
                self._last = replace(known, dependencies=dependencies)
                return self._last
            self._content = content
            self._last = self._loaded(dependencies, data, known or LoadedFile(dependencies))
        if known is not None:
            self._changed()
        return self._last

    def _loaded(
        self, dependencies: FileState, data: bytes | Rejected | None, before: LoadedFile
    ) -> LoadedFile:
        """What the new content makes of the state before it."""
        if data is None:
            return LoadedFile(dependencies)
        read = document(data) if isinstance(data, bytes) else data
        if isinstance(read, Rejected):
            return self._rejected(dependencies, read, before)
        values, warnings = self._checked(read, before.values)
        return LoadedFile(dependencies, values, warnings, loaded_at=time.time())

    def _rejected(self, dependencies: FileState, read: Rejected, before: LoadedFile) -> LoadedFile:
        used = "the defaults are used"
        if before.loaded_at is not None:
            clock = time.strftime("%H:%M:%S", time.localtime(before.loaded_at))
            used = f"still using what was loaded at {clock}"
        reason = f"{self.path} {read.reason}; {used}: mend the file"
        return replace(
            before,
            dependencies=dependencies,
            warnings=(AnswerWarning("settings_rejected", reason, path=self.path),),
            rejected=read._replace(reason=reason, path=self.path, at=time.time()),
        )

    def _checked(
        self, read: Document, before: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[AnswerWarning, ...]]:
        """The values; a wrong one gives way to the one it replaced, if there was one."""
        values: dict[str, Any] = {}
        warnings = [
            AnswerWarning("settings_odd", f"{self.path} {note}", path=self.path)
            for note in read.notes
        ]
        for name, key in (*ALL_KEYS.items(), (DATA_DIR, DATA_DIR_KEY)):
            if name not in read.values or (name == DATA_DIR and read.values[name] == ""):
                continue
            used = f"last good value {shown(before[name])}" if name in before else "default"
            place = Place(self.path, warnings, self.path, f"; the {used} is used")
            if taken(key, read.values[name], self._home, place) is not None:
                values[name] = read.values[name]
            elif name in before:
                values[name] = before[name]
        return values, tuple(warnings)
