"""The settings that are in force: settings.json as last accepted, folded with its rivals."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from claudemem_daemon.evidence import Evidence, look, unchanged
from claudemem_daemon.hook import home_dir
from claudemem_daemon.question import Question
from claudemem_daemon.settings.fold import Inputs, fold
from claudemem_daemon.settings.keys import DATA_DIR, KEYS, absolute
from claudemem_daemon.settings.model import Settings, Source
from claudemem_daemon.settings.sources import Rejected, parse, read_bytes
from claudemem_daemon.warning import AnswerWarning

_MOST_FILES: Final = 16
_MOST_SNAPSHOTS: Final = 128


@dataclass(frozen=True, slots=True)
class RejectedEdit:
    """The newest edit of a settings.json that was not taken; `at` is seconds since 1970."""

    path: str
    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Reload:
    revision: int
    warnings: tuple[AnswerWarning, ...]


@dataclass(frozen=True, slots=True)
class ConfigurationState:
    """What `status` tells of the settings; times are seconds since 1970."""

    path: str
    exists: bool
    revision: int
    loaded_at: float | None
    rejected: RejectedEdit | None
    data_dir: str
    data_dir_source: Source


@dataclass(slots=True)
class _File:
    """One settings.json as last looked at and as last accepted."""

    evidence: Evidence
    digest: bytes | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[AnswerWarning, ...] = ()
    rejected: RejectedEdit | None = None
    loaded_at: float | None = None
    ever_good: bool = False


@dataclass(frozen=True, slots=True)
class _DataDir:
    path: str
    source: Source
    evidence: tuple[Evidence, ...]
    warnings: tuple[AnswerWarning, ...]


class Configuration:
    """All settings of one daemon. Reads; creates nothing. Safe from several threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._home = home_dir(environ)
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._snapshots: OrderedDict[Any, Settings] = OrderedDict()
        self._revision = 1
        self._lock = threading.RLock()

    @property
    def home(self) -> str:
        """The user's home folder, by HOME or the password database."""
        return self._home

    @property
    def revision(self) -> int:
        """Grows with every accepted or rejected change that was seen."""
        return self._revision

    @property
    def settings_path(self) -> str:
        """The settings.json of a caller that says nothing of its own."""
        return os.path.join(self._data_dir({}).path, "settings.json")

    def snapshot(self, question: Question) -> Settings:
        """Every setting for this question; the same object while nothing changed."""
        env = {k: v for k, v in question.env.items() if v and (k in KEYS or k == DATA_DIR)}
        key = (
            tuple(sorted(env.items())),
            question.limit,
            question.types,
            question.concepts,
            question.scope,
            question.full,
            question.env.get("CLAUDE_CONFIG_DIR"),
        )
        with self._lock:
            known = self._snapshots.get(key)
            if known is not None and self.current(known) and unchanged(known.evidence):
                return known
            settings = self._fold(question, env)
            self._snapshots[key] = settings
            self._snapshots.move_to_end(key)
            while len(self._snapshots) > _MOST_SNAPSHOTS:
                self._snapshots.popitem(last=False)
            return settings

    def current(self, settings: Settings) -> bool:
        """Whether no settings.json was accepted or rejected since; its files are the caller's to
        look at (`settings.evidence`)."""
        return settings.revision == self._revision

    def reload(self) -> Reload:
        """Read every known settings.json again, whatever its times say."""
        with self._lock:
            for path in list(self._files):
                self._file(path, force=True)
            settings = self.snapshot(Question(cwd="/"))
            return Reload(self._revision, settings.warnings)

    def state(self) -> ConfigurationState:
        with self._lock:
            place = self._data_dir({})
            path = os.path.join(place.path, "settings.json")
            file = self._file(path)
            return ConfigurationState(
                path=path,
                exists=file.evidence.state is not None,
                revision=self._revision,
                loaded_at=file.loaded_at,
                rejected=file.rejected,
                data_dir=place.path,
                data_dir_source=place.source,
            )

    def _fold(self, question: Question, env: Mapping[str, str]) -> Settings:
        place = self._data_dir(env)
        path = os.path.join(place.path, "settings.json")
        file = self._file(path)
        claude = question.env.get("CLAUDE_CONFIG_DIR") or self._environ.get("CLAUDE_CONFIG_DIR")
        return fold(
            Inputs(
                question=question,
                caller=env,
                daemon=self._environ,
                file=file.values,
                path=path,
                revision=self._revision,
                data_dir=place.path,
                data_dir_source=place.source,
                claude_dir=claude or os.path.join(self._home, ".claude"),
                warnings=(*place.warnings, *file.warnings),
                evidence=(*place.evidence, file.evidence),
            )
        )

    def _data_dir(self, env: Mapping[str, str]) -> _DataDir:
        """The caller's word, the daemon's, the home folder's settings.json, `~/.claude-mem`."""
        warnings: list[AnswerWarning] = []
        usual = os.path.join(self._home, ".claude-mem")
        at_home = os.path.join(usual, "settings.json")
        evidence: tuple[Evidence, ...] = ()
        for origin, values in (("caller", env), ("daemon", self._environ), ("settings", None)):
            if values is None:
                file = self._file(at_home)
                evidence = (file.evidence,)
                value: object = file.values.get(DATA_DIR)
                detail = at_home
            else:
                value, detail = values.get(DATA_DIR), DATA_DIR
            if not value:
                continue
            try:
                path = absolute(self._expanded(value)).value
            except ValueError as error:
                message = f"{DATA_DIR} = {str(value)[:80]!r} ({detail}) is ignored: {error}"
                warnings.append(AnswerWarning("setting_invalid", message, key=DATA_DIR))
                continue
            return _DataDir(path, Source(origin, detail), evidence, tuple(warnings))  # type: ignore[arg-type]  # the three literals above
        return _DataDir(usual, Source("default"), evidence, tuple(warnings))

    def _expanded(self, value: object) -> object:
        """`~` is the HOME we were given, whatever the process's own says."""
        if isinstance(value, str) and (value.strip() == "~" or value.strip().startswith("~/")):
            return self._home + value.strip()[1:]
        return value

    def _file(self, path: str, *, force: bool = False) -> _File:
        """The file as it is now, read again only if it changed."""
        with self._lock:
            evidence = look(path)
            known = self._files.get(path)
            if known is None:
                known = self._files[path] = _File(evidence)
                while len(self._files) > _MOST_FILES:
                    self._files.popitem(last=False)
            elif not force and known.evidence == evidence and not evidence.racy:
                return known
            known.evidence = evidence
            self._take(path, known, read_bytes(path))
            return known

    def _take(self, path: str, file: _File, data: bytes | Rejected | None) -> None:
        digest = None if data is None else hashlib.sha256(_content(data)).digest()
        if file.digest == digest and (file.loaded_at is not None or file.rejected is not None):
            return
        first = file.loaded_at is None and file.rejected is None
        file.digest = digest
        values = parse(data) if isinstance(data, bytes) else data if data is not None else {}
        if isinstance(values, Rejected):
            stands = (
                f"what was read at {time.strftime('%H:%M:%S', time.localtime(file.loaded_at))}"
                if file.ever_good
                else "the defaults"
            )
            message = f"{path} {values.reason}; {stands} stands: mend the file"
            file.rejected = RejectedEdit(path, time.time(), message)
            file.warnings = (AnswerWarning("settings_rejected", message, path=path),)
        else:
            file.values, file.warnings = _last_good(path, values, file.values)
            file.rejected = None
            file.loaded_at = time.time()
            file.ever_good = data is not None
        if not first or self._snapshots:
            self._revision += 1


def _content(data: bytes | Rejected) -> bytes:
    return data if isinstance(data, bytes) else b"\0rejected\0" + data.reason.encode()


def _last_good(
    path: str, values: Mapping[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[AnswerWarning, ...]]:
    """The file's values; a wrong one gives way to the one it replaced, if that was good."""
    taken = dict(values)
    warnings: list[AnswerWarning] = []
    for name, key in KEYS.items():
        if name not in taken:
            continue
        try:
            note = key.parse(taken[name]).note
        except ValueError as error:
            shown = repr(taken.pop(name))[:80]
            stands = "the default"
            if name in before:
                taken[name] = before[name]
                stands = "the last good value"
            message = f"{name} = {shown} in {path} is ignored: {error}; {stands} stands"
            warnings.append(AnswerWarning("setting_invalid", message, path=path, key=name))
            continue
        if note is not None:
            message = f"{name} in {path}: {note}"
            warnings.append(AnswerWarning("setting_bent", message, path=path, key=name))
    return taken, tuple(warnings)
