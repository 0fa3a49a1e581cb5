"""One settings.json: what is in force of it, whatever state it is in at the moment."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.settings.keys import ALL_KEYS, DATA_DIR, DATA_DIR_KEY, shown
from claudemem_daemon.settings.sources import Document, Rejected, document, read_bytes
from claudemem_daemon.warning import AnswerWarning


@dataclass(frozen=True, slots=True)
class RejectedEdit:
    """The newest edit of a settings.json, when it was not taken. `at` is when it was seen, in
    seconds since 1970; `reason` is the whole line, with what stands instead; `line` and `column`
    count from 1 where a place in the file is to blame."""

    path: str
    at: float
    reason: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What one settings.json says: `values` by key, all of a form that their parsers took."""

    dependencies: FileState
    values: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[AnswerWarning, ...] = ()
    rejected: RejectedEdit | None = None
    loaded_at: float | None = None
    """When the values were read, in seconds since 1970; None while there are none."""


class SettingsFile:
    """Looks at one path as often as asked, and remembers the last good content.

    `changed` is called, from the thread that looked, when the content is another one than before:
    once for each, and not for the first.
    """

    def __init__(self, path: str, home: str, changed: Callable[[], None]) -> None:
        self.path = path
        self._home = home
        self._changed = changed
        self._lock = threading.Lock()
        self._state: LoadedFile | None = None
        self._digest: bytes | None = None

    @property
    def last(self) -> LoadedFile | None:
        """The state at the last look, whoever had it; None before the first."""
        return self._state

    def glance(self) -> LoadedFile:
        """The state now, for one stat; the file is read only where that shows a change."""
        known = self._state
        if known is not None and not known.dependencies.racy:
            dependencies = file_state(self.path)
            if dependencies.state == known.dependencies.state:
                return known
        return self.read()

    def read(self) -> LoadedFile:
        """The state now, by the content, whatever size and times say."""
        with self._lock:
            # Looked at before it is read: an edit in between shows at the next glance.
            dependencies = file_state(self.path)
            data = read_bytes(self.path)
            digest = None if data is None else hashlib.sha256(_content(data)).digest()
            known = self._state
            if known is not None and digest == self._digest:
                self._state = _seen_again(known, dependencies)
                return self._state
            self._digest = digest
            self._state = self._taken(dependencies, data, known or LoadedFile(dependencies))
        if known is not None:
            self._changed()
        return self._state

    def _taken(
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
        stands = "the defaults stand"
        if before.loaded_at is not None:
            clock = time.strftime("%H:%M:%S", time.localtime(before.loaded_at))
            stands = f"still using what was loaded at {clock}"
        reason = f"{self.path} {read.reason}; {stands}: mend the file"
        return LoadedFile(
            dependencies,
            before.values,
            (AnswerWarning("settings_rejected", reason, path=self.path),),
            RejectedEdit(self.path, time.time(), reason, read.line, read.column),
            before.loaded_at,
        )

    def _checked(
        self, read: Document, before: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[AnswerWarning, ...]]:
        """The values; a wrong one gives way to the one it replaced, if there was one."""
        taken: dict[str, Any] = {}
        warnings = [
            AnswerWarning("settings_odd", f"{self.path} {note}", path=self.path)
            for note in read.notes
        ]
        for name, key in (*ALL_KEYS.items(), (DATA_DIR, DATA_DIR_KEY)):
            if name not in read.values:
                continue
            value = read.values[name]
            said = f"{name} = {shown(value)} in {self.path}"
            try:
                note = key.parse(value, self._home).note
            except ValueError as error:
                if name == DATA_DIR and value == "":
                    continue
                stands = "the default"
                if name in before:
                    taken[name] = before[name]
                    stands = f"the last good value {shown(before[name])}"
                message = f"{said} is ignored: {error}; {stands} stands"
                warnings.append(AnswerWarning("setting_invalid", message, self.path, name))
                continue
            taken[name] = value
            if note is not None:
                warnings.append(
                    AnswerWarning("setting_adjusted", f"{said}: {note}", self.path, name)
                )
        return taken, tuple(warnings)


def _seen_again(known: LoadedFile, dependencies: FileState) -> LoadedFile:
    return LoadedFile(dependencies, known.values, known.warnings, known.rejected, known.loaded_at)


def _content(data: bytes | Rejected) -> bytes:
    return data if isinstance(data, bytes) else b"\0rejected\0" + data.reason.encode()
