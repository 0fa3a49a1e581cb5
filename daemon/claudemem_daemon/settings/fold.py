"""All sources of the settings folded into one snapshot. Reads nothing but mode files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claudemem_daemon.dependencies import FileState
from claudemem_daemon.question import Question
from claudemem_daemon.settings import modes
from claudemem_daemon.settings.keys import DATA_DIR, KEYS, MOST_OBSERVATIONS, clean_ids, shown
from claudemem_daemon.settings.model import Mode, Origin, Settings, Source
from claudemem_daemon.warning import AnswerWarning

TYPES: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
OWN_LIMIT: Final = "CLAUDE_MEM_DAEMON_OBSERVATIONS"
FULL_COUNT: Final = "CLAUDE_MEM_CONTEXT_FULL_COUNT"
SCOPE: Final = "CLAUDE_MEM_DAEMON_SCOPE"
MODE: Final = "CLAUDE_MEM_MODE"
CHARS: Final = "CLAUDE_MEM_DAEMON_CONTEXT_CHARS"
MODES_DIR: Final = "CLAUDE_MEM_MODES_DIR"

EVERYTHING: Final = ("*",)
"""The list that lifts a restriction."""


FEW_CHARS: Final = 300
"""Header, day, one row and the word on what was left out take about as much."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a snapshot is made of; `file` holds only values whose parsers took them."""

    question: Question
    caller: Mapping[str, str]
    daemon: Mapping[str, str]
    file: Mapping[str, Any]
    home: str
    path: str
    revision: int
    data_dir: str
    data_dir_source: Source
    claude_dir: str
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[FileState, ...]


@dataclass(slots=True)
class _Folded:
    values: dict[str, Any]
    sources: dict[str, Source]
    warnings: list[AnswerWarning]


def fold(inputs: Inputs) -> Settings:
    """One snapshot. A wrong value in an environment is named and passed over."""
    folded = _Folded({}, {DATA_DIR: inputs.data_dir_source}, list(inputs.warnings))
    for name in KEYS:
        _pick(inputs, name, folded)
    loaded = modes.load(
        folded.values[MODE],
        modes.places(folded.values[MODES_DIR], inputs.data_dir, inputs.claude_dir),
    )
    if loaded.problem is not None:
        message = f"{MODE} = {folded.values[MODE]}: {loaded.problem}"
        folded.warnings.append(AnswerWarning("mode_unavailable", message, key=MODE))
    types, types_restricted = _whitelist(
        TYPES, inputs, folded, loaded.mode, tuple(item.id for item in loaded.mode.types)
    )
    concepts, concepts_restricted = _whitelist(
        CONCEPTS, inputs, folded, loaded.mode, tuple(item.id for item in loaded.mode.concepts)
    )
    _override(inputs.question, folded)
    _mind_the_room(folded)
    values = {key.field: folded.values[name] for name, key in KEYS.items()}
    for gone in ("mode", "types", "concepts"):
        del values[gone]
    return Settings(
        **values,
        revision=inputs.revision,
        data_dir=inputs.data_dir,
        settings_path=inputs.path,
        types=types,
        concepts=concepts,
        types_restricted=types_restricted,
        concepts_restricted=concepts_restricted,
        mode=loaded.mode,
        sources=folded.sources,
        warnings=tuple(folded.warnings),
        dependencies=(*inputs.dependencies, *loaded.dependencies),
    )


def _pick(inputs: Inputs, name: str, folded: _Folded) -> None:
    """The strongest source that has a usable value."""
    key = KEYS[name]
    environments: tuple[tuple[Origin, Mapping[str, str]], ...] = (
        ("caller", inputs.caller),
        ("daemon", inputs.daemon),
    )
    for origin, values in environments:
        raw = values.get(name)
        # Without a daemon both are one, and a wrong value is said once.
        if not raw or (origin == "daemon" and raw == inputs.caller.get(name)):
            continue
        said = f"{name} = {shown(raw)} in the {origin}'s environment"
        try:
            parsed = key.parse(raw, inputs.home)
        except ValueError as error:
            folded.warnings.append(
                AnswerWarning("setting_invalid", f"{said} is ignored: {error}", key=name)
            )
            continue
        if parsed.note is not None:
            folded.warnings.append(
                AnswerWarning("setting_adjusted", f"{said}: {parsed.note}", key=name)
            )
        if parsed.value is not None:
            folded.values[name], folded.sources[name] = parsed.value, Source(origin, name)
            return
    if name in inputs.file:
        value = key.parse(inputs.file[name], inputs.home).value
        if value is not None:
            folded.values[name], folded.sources[name] = value, Source("settings", inputs.path)
            return
    folded.values[name], folded.sources[name] = key.default, Source("default")


def _whitelist(
    name: str, inputs: Inputs, folded: _Folded, mode: Mode, of_mode: tuple[str, ...]
) -> tuple[tuple[str, ...], bool]:
    """The allowed ids, and whether they restrict anything."""
    asked = inputs.question.types if name == TYPES else inputs.question.concepts
    chosen: tuple[str, ...] | None = folded.values[name]
    if asked is not None:
        chosen = clean_ids(asked)
        folded.sources[name] = Source("request")
    elif chosen is not None and folded.sources[name].origin == "settings":
        chosen = _of_this_mode(name, inputs, folded, mode, chosen, of_mode)
    if chosen is None:
        folded.sources[name] = Source("mode", mode.path or f"built-in mode {mode.id}")
        # A mode that lists no concepts has nothing to restrict them by.
        return of_mode, bool(of_mode)
    return chosen, chosen != EVERYTHING


def _of_this_mode(
    name: str,
    inputs: Inputs,
    folded: _Folded,
    mode: Mode,
    chosen: tuple[str, ...],
    of_mode: tuple[str, ...],
) -> tuple[str, ...] | None:
    """A list of settings.json in a mode other than `code`: what the mode does not know was left
    over from another mode, and none of it left means the mode's own list. In `code` an unknown id
    is kept: it may be one of a newer claude-mem, of which the store has rows."""
    if mode.id.partition("--")[0] == modes.CODE.id or chosen in ((), EVERYTHING):
        return chosen
    known = tuple(one for one in chosen if one in of_mode)
    if known == chosen:
        return chosen
    unknown = ", ".join(shown(one) for one in chosen if one not in of_mode)
    if known:
        message = f"{name} in {inputs.path}: mode {mode.id} has no {unknown}; left out"
    else:
        message = (
            f"{name} in {inputs.path} is ignored: mode {mode.id} has no {unknown};"
            f" the mode's own list stands"
        )
    folded.warnings.append(AnswerWarning("setting_of_other_mode", message, inputs.path, name))
    return known or None


def _override(question: Question, folded: _Folded) -> None:
    """What the question itself says, and the daemon's own limit over claude-mem's."""
    if folded.values[OWN_LIMIT] is not None:
        folded.values[LIMIT] = folded.values[OWN_LIMIT]
        own = folded.sources[OWN_LIMIT]
        named = own.detail if own.detail == OWN_LIMIT else f"{OWN_LIMIT} in {own.detail}"
        folded.sources[LIMIT] = replace(own, detail=named)
    if question.full:
        folded.values[LIMIT] = folded.values[FULL_COUNT] = MOST_OBSERVATIONS
        folded.sources[LIMIT] = folded.sources[FULL_COUNT] = Source("request")
    if question.limit is not None:
        folded.values[LIMIT] = max(0, min(question.limit, MOST_OBSERVATIONS))
        folded.sources[LIMIT] = Source("request")
    if question.scope is not None:
        folded.values[SCOPE] = question.scope
        folded.sources[SCOPE] = Source("request")


def _mind_the_room(folded: _Folded) -> None:
    """A context too small for words cannot say so itself. 0 is meant."""
    chars, source = folded.values[CHARS], folded.sources[CHARS]
    if 0 < chars < FEW_CHARS:
        where = (
            source.detail if source.origin == "settings" else f"the {source.origin}'s environment"
        )
        message = (
            f"{CHARS} = {chars} in {where}: hardly a row fits into fewer than {FEW_CHARS}, and"
            " where nothing fits the context is empty"
        )
        path = source.detail if source.origin == "settings" else None
        folded.warnings.append(AnswerWarning("setting_small", message, path, CHARS))
