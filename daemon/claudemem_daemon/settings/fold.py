"""All sources of the settings folded into one snapshot. Reads nothing but mode files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.evidence import Evidence
from claudemem_daemon.question import Question
from claudemem_daemon.settings import modes
from claudemem_daemon.settings.keys import DATA_DIR, KEYS, MOST_OBSERVATIONS
from claudemem_daemon.settings.model import Mode, Settings, Source
from claudemem_daemon.warning import AnswerWarning

TYPES: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
OWN_LIMIT: Final = "CLAUDE_MEM_DAEMON_OBSERVATIONS"
FULL_COUNT: Final = "CLAUDE_MEM_CONTEXT_FULL_COUNT"
SCOPE: Final = "CLAUDE_MEM_DAEMON_SCOPE"
MODE: Final = "CLAUDE_MEM_MODE"
MODES_DIR: Final = "CLAUDE_MEM_MODES_DIR"


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a snapshot is made of; `file` holds only values whose parsers took them."""

    question: Question
    caller: Mapping[str, str]
    daemon: Mapping[str, str]
    file: Mapping[str, Any]
    path: str
    revision: int
    data_dir: str
    data_dir_source: Source
    claude_dir: str
    warnings: tuple[AnswerWarning, ...]
    evidence: tuple[Evidence, ...]


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
        modes.folders(folded.values[MODES_DIR], inputs.data_dir, inputs.claude_dir),
    )
    if loaded.problem is not None:
        folded.warnings.append(
            AnswerWarning("mode", f"{MODE}: {loaded.problem}", path=inputs.path, key=MODE)
        )
    types, types_restricted = _whitelist(
        TYPES, inputs, folded, loaded.mode, tuple(item.id for item in loaded.mode.types)
    )
    concepts, concepts_restricted = _whitelist(
        CONCEPTS, inputs, folded, loaded.mode, tuple(item.id for item in loaded.mode.concepts)
    )
    _override(inputs.question, folded)
    values = {key.field: folded.values[name] for name, key in KEYS.items() if name != OWN_LIMIT}
    values["limit"] = folded.values[LIMIT]
    for gone in ("modes_dir", "mode", "types", "concepts"):
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
        evidence=(*inputs.evidence, *loaded.evidence),
    )


def _pick(inputs: Inputs, name: str, folded: _Folded) -> None:
    """The strongest source that has a usable value."""
    key = KEYS[name]
    for origin, values in (("caller", inputs.caller), ("daemon", inputs.daemon)):
        raw = values.get(name)
        if not raw:
            continue
        try:
            parsed = key.parse(raw)
        except ValueError as error:
            message = f"{name} = {raw[:80]!r} in the {origin}'s environment is ignored: {error}"
            folded.warnings.append(AnswerWarning("setting_invalid", message, key=name))
            continue
        folded.values[name] = parsed.value
        folded.sources[name] = Source(origin, name)  # type: ignore[arg-type]  # the two literals above
        return
    if name in inputs.file:
        folded.values[name] = key.parse(inputs.file[name]).value
        if folded.values[name] is not None or key.default is None:
            folded.sources[name] = Source("settings", inputs.path)
            if folded.values[name] is not None:
                return
    folded.values[name] = key.default
    folded.sources[name] = Source("default")


def _whitelist(
    name: str, inputs: Inputs, folded: _Folded, mode: Mode, of_mode: tuple[str, ...]
) -> tuple[tuple[str, ...], bool]:
    """The allowed ids, and whether they restrict anything."""
    asked = inputs.question.types if name == TYPES else inputs.question.concepts
    chosen: tuple[str, ...] | None = folded.values[name]
    if asked is not None:
        chosen = tuple(dict.fromkeys(one.strip().lower() for one in asked if one.strip()))
        folded.sources[name] = Source("request")
    elif chosen is not None and folded.sources[name].origin == "settings":
        chosen = _of_this_mode(name, inputs, folded, mode, chosen, of_mode)
    if chosen is None:
        folded.sources[name] = Source("mode", mode.path or f"built-in mode {mode.id}")
        # A mode that lists no concepts has nothing to restrict them by.
        return of_mode, bool(of_mode)
    return chosen, chosen != ("*",)


def _of_this_mode(
    name: str,
    inputs: Inputs,
    folded: _Folded,
    mode: Mode,
    chosen: tuple[str, ...],
    of_mode: tuple[str, ...],
) -> tuple[str, ...] | None:
    """A list of settings.json in a mode other than `code`: what the mode does not know was left
    over from another mode. In `code` an unknown id may be one of a newer claude-mem."""
    if mode.id.partition("--")[0] == "code" or not chosen or chosen == ("*",) or not of_mode:
        return chosen
    known = tuple(one for one in chosen if one in of_mode)
    if known == chosen:
        return chosen
    unknown = ", ".join(one for one in chosen if one not in of_mode)
    if known:
        message = f"{name} in {inputs.path}: mode {mode.id} has no {unknown}; left out"
    else:
        message = (
            f"{name} in {inputs.path} is ignored: mode {mode.id} has none of {unknown};"
            f" the mode's own list stands"
        )
    folded.warnings.append(
        AnswerWarning("setting_of_other_mode", message, path=inputs.path, key=name)
    )
    return known or None


def _override(question: Question, folded: _Folded) -> None:
    """What the question itself says, and the daemon's own limit over claude-mem's."""
    if folded.values[OWN_LIMIT] is not None:
        folded.values[LIMIT] = folded.values[OWN_LIMIT]
        folded.sources[LIMIT] = folded.sources[OWN_LIMIT]
    if question.full:
        folded.values[LIMIT] = folded.values[FULL_COUNT] = MOST_OBSERVATIONS
        folded.sources[LIMIT] = folded.sources[FULL_COUNT] = Source("request")
    if question.limit is not None:
        folded.values[LIMIT] = min(question.limit, MOST_OBSERVATIONS)
        folded.sources[LIMIT] = Source("request")
    if question.scope is not None:
        folded.values[SCOPE] = question.scope
        folded.sources[SCOPE] = Source("request")
