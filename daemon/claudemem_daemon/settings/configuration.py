"""The settings that are in force: each settings.json as last accepted, and what overrides it."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import each_path_once
from claudemem_daemon.hook import DEFAULT_TIMEOUT_MS, TIMEOUT
from claudemem_daemon.local import home_dir
from claudemem_daemon.memo import Memo
from claudemem_daemon.question import Question
from claudemem_daemon.settings.checkout_env import NO_CHECKOUT, CheckoutEnv
from claudemem_daemon.settings.model import (
    ALL_KEYS,
    DATA_DIR,
    DATA_DIR_KEY,
    KEYS,
    Settings,
    Source,
)
from claudemem_daemon.settings.observer import observer_health
from claudemem_daemon.settings.precedence import Layers, decide
from claudemem_daemon.settings.settings_file import LoadedFile, SettingsFile
from claudemem_daemon.settings.sources import Rejected
from claudemem_daemon.warning import AnswerWarning

CLAUDE_DIR: Final = "CLAUDE_CONFIG_DIR"
FILE: Final = "settings.json"

MAX_FILES: Final = 32


class ConfigurationState(NamedTuple):
    """What `status` tells of the settings of a caller that says nothing of its own; times are
    seconds since 1970."""

    path: str
    exists: bool
    revision: int
    loaded_at: float | None
    rejected: Rejected | None
    data_dir: str
    data_dir_source: Source
    warnings: tuple[AnswerWarning, ...]


class SettingsRevision(NamedTuple):
    """Holds until any thread sees a change of any settings.json."""

    configuration: Configuration
    number: int

    def holds(self) -> bool:
        return self.configuration.revision == self.number


class Configuration:
    """All settings of one process. Only reads. Safe from several threads: a file that takes long to
    read delays only those who need it."""

    def __init__(self, environ: Mapping[str, str], memo: Memo | None = None) -> None:
        self.home = home_dir(environ)
        self.revision = 1
        """Grows with every change of a settings.json that was seen, accepted or rejected."""
        self._memo = memo or Memo()
        self._environ = _ours(environ)
        self._at_home = self._new_file(os.path.join(self.home, ".claude-mem", FILE))
        self._elsewhere: dict[str, SettingsFile] = {}
        self._lock = threading.Lock()

    @property
    def settings_paths(self) -> tuple[str, ...]:
        """Every settings.json that counts for a caller without settings of its own: that of the home
        folder, where it decides the data dir, and that of the data dir."""
        layers, decider = self._with_data_dir(Layers({}, self._environ, self.home))
        paths = (layers.path,) if decider is None else (self._at_home.path, layers.path)
        return tuple(dict.fromkeys(paths))

    def snapshot(self, question: Question, checkout: CheckoutEnv = NO_CHECKOUT) -> Settings:
        """Every setting for this question; the same object until one of the files that it was read
        from changes. What is refused to a checkout does not count in the daemon's environment
        either."""
        with each_path_once():
            return self._memo.value(
                _key(question, checkout), lambda: self._decide(question, checkout)
            )

    @property
    def rejected(self) -> bool:
        """Whether the newest edit of a settings.json in force that was seen is rejected; touches no
        path."""
        known: Settings | None = self._memo.last(_key(Question(cwd=None)))
        in_force = self._elsewhere.get(known.settings_path) if known is not None else None
        loaded = (file.last for file in (self._at_home, in_force) if file is not None)
        return any(file is not None and file.rejected is not None for file in loaded)

    def timeout_ms(self, question: Question) -> int:
        """How long the question may take, as far as that is known without touching any path."""
        for values in (question.env, self._environ):
            with suppress(KeyError, ValueError):
                value: int = KEYS[TIMEOUT].parse(values[TIMEOUT], self.home).value
                return value
        known = self._memo.last(_key(question)) or self._memo.last(_key(Question(cwd=None)))
        return known.timeout_ms if known is not None else DEFAULT_TIMEOUT_MS

    def reload(self) -> Settings:
        """Read everything again; the settings of a caller without any of its own."""
        self._memo.clear()
        self.reread()
        return self.snapshot(Question(cwd=None))

    def reread(self) -> int:
        """Read every known settings.json, even if its size and times are the same; the revision
        after that."""
        in_force = [self._file(path) for path in self.settings_paths]
        with self._lock:
            files = dict.fromkeys((self._at_home, *in_force, *self._elsewhere.values()))
        for file in files:
            file.read()
        return self.revision

    def state(self) -> ConfigurationState:
        with each_path_once():
            settings = self.snapshot(Question(cwd=None))
            file = self._file(settings.settings_path).current()
        source = settings.sources[DATA_DIR]
        rejected = file.rejected
        decider = self._at_home.last
        if rejected is None and decider is not None and source.origin in ("settings", "default"):
            rejected = decider.rejected
        return ConfigurationState(
            path=settings.settings_path,
            exists=file.dependencies.state is not None,
            revision=self.revision,
            loaded_at=file.loaded_at,
            rejected=rejected,
            data_dir=settings.data_dir,
            data_dir_source=source,
            warnings=settings.warnings,
        )

    def _decide(self, question: Question, checkout: CheckoutEnv) -> Settings:
        caller = _ours(question.env)
        daemon = checkout.left(self._environ)
        revision = 0
        while revision != self.revision:
            # A change that is seen here, or in another thread meanwhile, has a number of its own.
            revision = self.revision
            layers, decider = self._with_data_dir(Layers(caller, daemon, self.home))
            file = self._file(layers.path).current()
        claude_dir = caller.get(CLAUDE_DIR) or daemon.get(CLAUDE_DIR, "")
        if not os.path.isabs(claude_dir):
            claude_dir = os.path.join(self.home, ".claude")
        settings = decide(replace(layers, file=file.values), question, claude_dir, self._memo)
        health = observer_health(settings.data_dir)
        elsewhere = decider is not None and layers.path != self._at_home.path
        files = (decider, file) if decider is not None and elsewhere else (file,)
        warnings = [
            warning
            for loaded in files
            for warning in loaded.warnings
            # Of the home folder's file only what matters where another one is in force.
            if loaded is file or warning.key == DATA_DIR or warning.code == "settings_rejected"
        ]
        if health.warning is not None:
            warnings.append(health.warning)
        return replace(
            settings,
            revision=revision,
            warnings=(*warnings, *settings.warnings),
            dependencies=(
                SettingsRevision(self, revision),
                *(loaded.dependencies for loaded in files),
                health,
                *settings.dependencies,
            ),
        )

    def _with_data_dir(self, layers: Layers) -> tuple[Layers, LoadedFile | None]:
        """The data dir is the caller's, the daemon's, that of the home folder's settings.json, or
        `~/.claude-mem`; and the home folder's file, where it was asked."""
        found = layers.in_environments(DATA_DIR_KEY)
        decider = None
        if found is None:
            decider = self._at_home.current()
            found = os.path.dirname(self._at_home.path), Source("default")
            if DATA_DIR in decider.values:
                path = DATA_DIR_KEY.parse(decider.values[DATA_DIR], self.home).value
                found = path, Source("settings", self._at_home.path)
        return replace(layers, data_dir=found, path=os.path.join(found[0], FILE)), decider

    def _file(self, path: str) -> SettingsFile:
        """Of the files that callers name, the last few are remembered."""
        if path == self._at_home.path:
            return self._at_home
        with self._lock:
            # At the end again: the first is the one not used for the longest time.
            file = self._elsewhere.pop(path, None) or self._new_file(path)
            self._elsewhere[path] = file
            while len(self._elsewhere) > MAX_FILES:
                del self._elsewhere[next(iter(self._elsewhere))]
            return file

    def _new_file(self, path: str) -> SettingsFile:
        return SettingsFile(path, self.home, self._changed)

    def _changed(self) -> None:
        with self._lock:
            self.revision += 1


def _key(question: Question, checkout: CheckoutEnv = NO_CHECKOUT) -> Hashable:
    """Settings do not depend on the folder, nor on who asks."""
    asked = question.limit, question.types, question.concepts, question.scope, question.full
    refused = frozenset(checkout.refused.items())
    return "settings", frozenset(_ours(question.env).items()), asked, refused


def _ours(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide anything here; an empty one counts as unset."""
    return {
        name: value
        for name, value in environ.items()
        if value and (name in ALL_KEYS or name in (DATA_DIR, CLAUDE_DIR))
    }
