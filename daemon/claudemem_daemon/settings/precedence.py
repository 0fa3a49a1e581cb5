"""Which source of each setting wins. Reads mode files and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.memo import Memo
from claudemem_daemon.question import Question
from claudemem_daemon.settings import modes
from claudemem_daemon.settings.keys import (
    ALL_KEYS,
    DATA_DIR,
    KEYS,
    MAX_OBSERVATIONS,
    OWN_NAMES,
    Key,
    Place,
    clean_ids,
    shown,
    taken,
)
from claudemem_daemon.settings.model import Mode, ModeItem, Origin, Settings, Source
from claudemem_daemon.settings.settings_file import LoadedFile
from claudemem_daemon.warning import AnswerWarning

TYPES: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
SESSION_COUNT: Final = "CLAUDE_MEM_CONTEXT_SESSION_COUNT"
SCOPE: Final = "CLAUDE_MEM_DAEMON_SCOPE"
MODE: Final = "CLAUDE_MEM_MODE"
CHARS: Final = "CLAUDE_MEM_DAEMON_CONTEXT_CHARS"
MODES_DIR: Final = "CLAUDE_MEM_MODES_DIR"

EVERYTHING: Final = ("*",)
"""The list that lifts a restriction."""

FEW_CHARS: Final = 300
"""Header, day, one row and the note on what was left out take about as much."""


@dataclass(frozen=True, slots=True)
class Environments:
    """The caller's and the daemon's, without what decides nothing."""

    caller: Mapping[str, str]
    daemon: Mapping[str, str]
    home: str

    def value(self, key: Key, warnings: list[AnswerWarning]) -> tuple[Any, Source] | None:
        """The caller's word, else the daemon's; a wrong one is reported and passed over."""
        environments: tuple[tuple[Origin, Mapping[str, str]], ...] = (
            ("caller", self.caller),
            ("daemon", self.daemon),
        )
        for origin, values in environments:
            raw = values.get(key.name)
            # Without a daemon both are the same, and a wrong value is reported once.
            if not raw or (origin == "daemon" and raw == self.caller.get(key.name)):
                continue
            parsed = taken(key, raw, self.home, Place(f"the {origin}'s environment", warnings))
            if parsed is not None and parsed.value is not None:
                return parsed.value, Source(origin, key.name)
        return None


@dataclass(frozen=True, slots=True)
class DataDir:
    path: str
    source: Source
    warnings: tuple[AnswerWarning, ...] = ()
    decided_by: LoadedFile | None = None
    """The home folder's settings.json, where it was asked."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """All sources of one snapshot; `file` holds only values that their parsers took."""

    question: Question
    environments: Environments
    file: Mapping[str, Any]
    path: str
    revision: int
    data_dir: DataDir
    claude_dir: str
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[Dependency, ...]


def decide(inputs: Inputs, memo: Memo) -> Settings:
    """One snapshot; `memo` is for the mode, which most edits leave as it is."""
    chosen = _Chosen(inputs)
    for name in KEYS:
        chosen.choose(name)
    mode = chosen.values[MODE]
    folders = (chosen.values[MODES_DIR], inputs.data_dir.path, inputs.claude_dir)
    loaded = memo.value(("mode", mode, folders), lambda: modes.load(mode, modes.folders(*folders)))
    if loaded.problem is not None:
        chosen.warn("mode_unavailable", f"{MODE} = {mode}: {loaded.problem}", MODE)
    asked = inputs.question
    types, types_restricted = chosen.whitelist(TYPES, asked.types, loaded.mode, loaded.mode.types)
    concepts, concepts_restricted = chosen.whitelist(
        CONCEPTS, asked.concepts, loaded.mode, loaded.mode.concepts
    )
    chosen.override(asked)
    chosen.check_room()
    values = {key.field: chosen.values[name] for name, key in KEYS.items()}
    values.update(mode=loaded.mode, types=types, concepts=concepts)
    return Settings(
        **values,
        revision=inputs.revision,
        data_dir=inputs.data_dir.path,
        settings_path=inputs.path,
        types_restricted=types_restricted,
        concepts_restricted=concepts_restricted,
        own=chosen.own,
        sources=chosen.sources,
        warnings=tuple(chosen.warnings),
        dependencies=(*inputs.dependencies, *loaded.dependencies),
    )


class _Chosen:
    """The values chosen so far, each with its source."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.values: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.sources: dict[str, Source] = {DATA_DIR: inputs.data_dir.source}
        self.warnings: list[AnswerWarning] = list(inputs.warnings)

    def choose(self, name: str) -> None:
        """The strongest source that has a usable value; a key of our own before claude-mem's."""
        own = OWN_NAMES.get(name)
        found = self._found(own) if own is not None else None
        if own is not None and found is not None:
            value, source = found
            self.own[own], self.sources[own] = found
            where = own if source.detail == own else f"{own} in {source.detail}"
            found = value, replace(source, detail=where)
        found = found or self._found(name) or (KEYS[name].default, Source("default"))
        self.values[name], self.sources[name] = found

    def _found(self, name: str) -> tuple[Any, Source] | None:
        inputs, key = self.inputs, ALL_KEYS[name]
        found = inputs.environments.value(key, self.warnings)
        if found is None and name in inputs.file:
            value = key.parse(inputs.file[name], inputs.environments.home).value
            if value is not None:
                return value, Source("settings", inputs.path)
        return found

    def warn(self, code: str, message: str, key: str, path: str | None = None) -> None:
        self.warnings.append(AnswerWarning(code, message, path, key))

    def whitelist(
        self, name: str, asked: tuple[str, ...] | None, mode: Mode, items: tuple[ModeItem, ...]
    ) -> tuple[tuple[str, ...], bool]:
        """The allowed ids, and whether they restrict anything."""
        of_mode = tuple(item.id for item in items)
        ids: tuple[str, ...] | None = self.values[name]
        if asked is not None:
            ids = clean_ids(asked)
            self.sources[name] = Source("request")
        elif ids is not None and self.sources[name].origin == "settings":
            ids = self._of_this_mode(name, mode, ids, of_mode)
        if ids is None:
            self.sources[name] = Source("mode", mode.path or f"built-in mode {mode.id}")
            # A mode that lists no concepts has nothing to restrict them by.
            return of_mode, bool(of_mode)
        return ids, ids != EVERYTHING

    def _of_this_mode(
        self, name: str, mode: Mode, ids: tuple[str, ...], of_mode: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """A list of settings.json in a mode other than `code`: what the mode does not know was left
        over from another mode, and none of it left means the mode's own list. In `code` an unknown
        id stays: it may be from a newer claude-mem, of which the store has rows."""
        if mode.id.partition("--")[0] == modes.CODE.id or ids in ((), EVERYTHING):
            return ids
        known = tuple(name for name in ids if name in of_mode)
        if known == ids:
            return ids
        unknown = ", ".join(shown(name) for name in ids if name not in of_mode)
        own = OWN_NAMES[name]
        key = own if own in self.own else name
        if known:
            message = f"{key} in {self.inputs.path}: mode {mode.id} has no {unknown}; left out"
        else:
            message = (
                f"{key} in {self.inputs.path} is ignored: mode {mode.id} has no {unknown};"
                f" the mode's own list is used"
            )
        self.warn("setting_of_other_mode", message, key, self.inputs.path)
        return known or None

    def override(self, question: Question) -> None:
        """What the question itself asks for."""
        asked: dict[str, object] = {}
        if question.full:
            asked |= {LIMIT: MAX_OBSERVATIONS, SESSION_COUNT: MAX_OBSERVATIONS}
        if question.limit is not None:
            asked[LIMIT] = max(0, min(question.limit, MAX_OBSERVATIONS))
        if question.scope is not None:
            asked[SCOPE] = question.scope
        self.values |= asked
        self.sources |= dict.fromkeys(asked, Source("request"))

    def check_room(self) -> None:
        """A context too small for words cannot say so itself. 0 is meant."""
        chars, source = self.values[CHARS], self.sources[CHARS]
        if 0 < chars < FEW_CHARS:
            path = source.detail if source.origin == "settings" else None
            where = path or f"the {source.origin}'s environment"
            message = (
                f"{CHARS} = {chars} in {where}: hardly a row fits into fewer than {FEW_CHARS}, and"
                " where nothing fits the context is empty"
            )
            self.warn("setting_small", message, CHARS, path)
