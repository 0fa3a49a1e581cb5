"""Which source of each setting wins. Reads mode files and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from claudemem_daemon.dependencies import FileIdentity, file_identity, is_folder
from claudemem_daemon.memo import Memo
from claudemem_daemon.question import Question
from claudemem_daemon.settings.model import (
    ALL_KEYS,
    DATA_DIR,
    KEYS,
    MAX_OBSERVATIONS,
    OWN_NAMES,
    Key,
    Mode,
    ModeItem,
    Origin,
    Place,
    Settings,
    Source,
    taken,
)
from claudemem_daemon.settings.modes import CODE, ModeFolders
from claudemem_daemon.settings.parsers import clean_ids, shown
from claudemem_daemon.warning import AnswerWarning

TYPES: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
SESSION_COUNT: Final = "CLAUDE_MEM_CONTEXT_SESSION_COUNT"
SCOPE: Final = "CLAUDE_MEM_DAEMON_SCOPE"
MODE: Final = "CLAUDE_MEM_MODE"
MODES_DIR: Final = "CLAUDE_MEM_MODES_DIR"
CHARS: Final = "CLAUDE_MEM_DAEMON_CONTEXT_CHARS"

EVERYTHING: Final = ("*",)
"""The list that lifts a restriction."""

FEW_CHARS: Final = 300
"""Header, day, one row and the note on what was left out take about as much."""

Found = tuple[Any, Source]


@dataclass(frozen=True, slots=True)
class Layers:
    """What the settings of one question are taken from: the caller's environment, the daemon's, the
    accepted values of the settings.json at `path`. `~` in any of them is `home`. `warnings` takes
    what is to be told of the environments."""

    caller: Mapping[str, str]
    daemon: Mapping[str, str]
    home: str
    path: str = ""
    file: Mapping[str, Any] = field(default_factory=dict)
    data_dir: Found = ("", Source("default"))
    warnings: list[AnswerWarning] = field(default_factory=list)

    def find(self, key: Key) -> Found | None:
        """The value of the strongest source that has a usable one."""
        found = self.in_environments(key)
        if found is None and key.name in self.file:
            value = key.parse(self.file[key.name], self.home).value
            return None if value is None else (value, Source("settings", self.path))
        return found

    def in_environments(self, key: Key) -> Found | None:
        """The caller's value, else the daemon's; a wrong one is reported and passed over."""
        of_caller = self.caller.get(key.name)
        found = self._parsed("caller", key, of_caller)
        # Without a daemon both are the same, and a wrong value is reported once.
        if found is None and self.daemon.get(key.name) != of_caller:
            found = self._parsed("daemon", key, self.daemon.get(key.name))
        return found

    def _parsed(self, origin: Origin, key: Key, raw: str | None) -> Found | None:
        place = Place(f"the {origin}'s environment", self.warnings)
        parsed = taken(key, raw, self.home, place) if raw else None
        if parsed is None or parsed.value is None:
            return None
        return parsed.value, Source(origin, key.name)


def decide(layers: Layers, question: Question, claude_dir: str, memo: Memo) -> Settings:
    """The settings for one question; `memo` is for the mode, which most edits leave as it is."""
    chosen = _Chosen(layers)
    mode = chosen.values.pop("mode", KEYS[MODE].default)
    folders = (chosen.values.get("modes_dir"), layers.data_dir[0], claude_dir)
    loaded = memo.value(("mode", mode, folders), lambda: ModeFolders(*folders).load(mode))
    if loaded.problem is not None:
        chosen.warn("mode_unavailable", f"{MODE} = {mode}: {loaded.problem}", MODE)
    chosen.whitelist(TYPES, question.types, loaded.mode, loaded.mode.types)
    chosen.whitelist(CONCEPTS, question.concepts, loaded.mode, loaded.mode.concepts)
    chosen.override(question)
    chosen.check_room()
    modes_dir = () if folders[0] is None else (chosen.check_modes_dir(folders[0]),)
    return Settings(
        **chosen.values,
        mode=loaded.mode,
        data_dir=layers.data_dir[0],
        settings_path=layers.path,
        own=chosen.own,
        sources=chosen.sources,
        warnings=tuple(layers.warnings),
        dependencies=(*loaded.dependencies, *modes_dir),
    )


class _Chosen:
    """What is chosen so far: `values` by the field of `Settings`, where it is no default; the
    others by key."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.values: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.sources = {DATA_DIR: layers.data_dir[1]}
        for key in KEYS.values():
            self._choose(key)

    def _choose(self, key: Key) -> None:
        """A key of our own comes before claude-mem's."""
        found = None
        own = OWN_NAMES.get(key.name)
        if own is not None:
            found = self.layers.find(ALL_KEYS[own])
        if own is not None and found is not None:
            self.own[own], self.sources[own] = value, source = found
            detail = own if source.detail == own else f"{own} in {source.detail}"
            found = value, source._replace(detail=detail)
        found = found or self.layers.find(key)
        if found is None:
            self.sources[key.name] = Source("default")
        else:
            self.values[key.field], self.sources[key.name] = found

    def warn(self, code: str, message: str, key: str, path: str | None = None) -> None:
        self.layers.warnings.append(AnswerWarning(code, message, path, key))

    def whitelist(
        self, name: str, asked: tuple[str, ...] | None, mode: Mode, items: tuple[ModeItem, ...]
    ) -> None:
        """The allowed ids, and whether they restrict anything."""
        of_mode = tuple(item.id for item in items)
        ids: tuple[str, ...] | None = self.values.get(KEYS[name].field)
        if asked is not None:
            ids = clean_ids(asked)
            self.sources[name] = Source("request")
        elif ids is not None and self.sources[name].origin == "settings":
            ids = self._of_this_mode(name, mode, ids, of_mode)
        restricted = ids != EVERYTHING
        if ids is None:
            self.sources[name] = Source("mode", mode.path or f"built-in mode {mode.id}")
            # A mode that lists no concepts has nothing to restrict them by.
            ids, restricted = of_mode, bool(of_mode)
        self.values |= {KEYS[name].field: ids, f"{KEYS[name].field}_restricted": restricted}

    def _of_this_mode(
        self, name: str, mode: Mode, ids: tuple[str, ...], of_mode: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """A list of settings.json in a mode other than `code`: what the mode does not know was left
        over from another mode, and none of it left means the mode's own list. In `code` an unknown
        id stays: it may be from a newer claude-mem, of which the store has rows."""
        known = tuple(name for name in ids if name in of_mode)
        if mode.id.partition("--")[0] == CODE.id or ids in (known, EVERYTHING):
            return ids
        unknown = ", ".join(shown(name) for name in ids if name not in of_mode)
        key = OWN_NAMES[name] if OWN_NAMES[name] in self.own else name
        path = self.layers.path
        if known:
            message = f"{key} in {path}: mode {mode.id} has no {unknown}; left out"
        else:
            message = (
                f"{key} in {path} is ignored: mode {mode.id} has no {unknown};"
                f" the mode's own list is used"
            )
        self.warn("setting_of_other_mode", message, key, path)
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
        for name, value in asked.items():
            self.values[KEYS[name].field] = value
            self.sources[name] = Source("request")

    def check_room(self) -> None:
        """A context too small for words cannot say so itself. 0 is meant."""
        chars = self.values.get("context_chars", 0)
        if 0 < chars < FEW_CHARS:
            self._warn_of(
                CHARS,
                "setting_small",
                f"hardly a row fits into fewer than {FEW_CHARS}, and where nothing fits the context"
                " is empty",
            )

    def check_modes_dir(self, path: str) -> FileIdentity:
        """What tells whether there is such a folder."""
        if not is_folder(path):
            wrong = "there is no such folder; modes are looked for in the other places"
            self._warn_of(MODES_DIR, "modes_dir_missing", wrong)
        return file_identity(path)

    def _warn_of(self, name: str, code: str, wrong: str) -> None:
        """Of a value of settings.json or of an environment."""
        value, source = self.values[KEYS[name].field], self.sources[name]
        path = source.detail if source.origin == "settings" else None
        where = path or f"the {source.origin}'s environment"
        self.warn(code, f"{name} = {shown(value)} in {where}: {wrong}", name, path)
