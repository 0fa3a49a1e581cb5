"""Every setting of the contract, declared once: name, form, default, and what it means."""

# ruff: noqa: RUF009 - what `_key` returns is made a default by a factory

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple

from claudemem_daemon.database_url import without_secrets
from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.question import Scope
from claudemem_daemon.settings.parsers import (
    Parsed,
    Parser,
    absolute,
    choice,
    count,
    flag,
    globs,
    ids,
    lists_by_name,
    mode_id,
    shown,
    stores,
)
from claudemem_daemon.warning import AnswerWarning

MAX_OBSERVATIONS: Final = 100_000

Origin = Literal["request", "caller", "daemon", "settings", "mode", "default"]
"""Strongest first: the question itself, the caller's environment, the daemon's environment,
settings.json, the active mode, the built-in default."""

FullField = Literal["narrative", "facts"]
PromptContext = Literal["delta", "full", "off"]


class Source(NamedTuple):
    """Where one value came from; `detail` is a file path or the variable's name."""

    origin: Origin
    detail: str | None = None

    def named(self, key: str) -> tuple[str, str]:
        """The name that the value has there, by which a setting may also go, and the file or ""."""
        detail = self.detail or ""
        if not detail.startswith("CLAUDE_MEM_"):
            return key, detail
        name, _, file = detail.partition(" in ")
        return name, file


class ModeItem(NamedTuple):
    """One observation type or concept of a mode."""

    id: str
    label: str
    emoji: str = ""
    work_emoji: str = ""


class Mode(NamedTuple):
    """A claude-mem mode: which types and concepts exist, in order. `path` is the file it was read
    from; None for a built-in one."""

    id: str
    name: str
    types: tuple[ModeItem, ...]
    concepts: tuple[ModeItem, ...]
    path: str | None


class Key(NamedTuple):
    """One setting as it is written; `field` is its name in `Settings`."""

    name: str
    field: str
    parse: Parser
    default: Any = None


class Place(NamedTuple):
    """Where a value was read: a `path`, or an environment. `instead` says what is used when it is
    wrong; `warnings` takes what is to be told."""

    name: str
    warnings: list[AnswerWarning]
    path: str | None = None
    instead: str = ""


def taken(key: Key, raw: object, home: str, place: Place) -> Parsed | None:
    """The value of `key` that was read at `place`; None, and a warning, for a wrong one."""
    said = f"{key.name} = {shown(raw)} in {place.name}"
    try:
        parsed = key.parse(raw, home)
    except ValueError as error:
        message = f"{said} is ignored: {error}{place.instead}"
        place.warnings.append(AnswerWarning("setting_invalid", message, place.path, key.name))
        return None
    if parsed.note is not None:
        message = f"{said}: {parsed.note}"
        place.warnings.append(AnswerWarning("setting_adjusted", message, place.path, key.name))
    return parsed


def _key(name: str, parse: Parser, default: Any = None) -> Any:
    return field(default_factory=lambda: default, metadata={"key": (name, parse, default)})


def _show(name: str, *, default: bool) -> Any:
    return _key(f"CLAUDE_MEM_CONTEXT_SHOW_{name}", flag, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one request; `sources` has one entry per key."""

    revision: int = 0
    """Grows with every accepted change of settings.json."""
    data_dir: str
    settings_path: str

    limit: int = _key("CLAUDE_MEM_CONTEXT_OBSERVATIONS", count(MAX_OBSERVATIONS), 50)
    """Most observations of an answer."""
    types: tuple[str, ...] = _key("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", ids)
    """Allowed types, lower case, in the order given; empty = none allowed. The mode's by default."""
    concepts: tuple[str, ...] = _key("CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS", ids)
    """At least one must be among the row's; empty = none allowed."""
    mode: Mode = _key("CLAUDE_MEM_MODE", mode_id, "code")
    modes_dir: str | None = _key("CLAUDE_MEM_MODES_DIR", absolute)
    full_count: int = _key("CLAUDE_MEM_CONTEXT_FULL_COUNT", count(MAX_OBSERVATIONS), 0)
    full_field: FullField = _key(
        "CLAUDE_MEM_CONTEXT_FULL_FIELD", choice("narrative", "facts"), "narrative"
    )
    session_count: int = _key("CLAUDE_MEM_CONTEXT_SESSION_COUNT", count(10_000), 10)
    show_last_summary: bool = _show("LAST_SUMMARY", default=True)
    show_last_message: bool = _show("LAST_MESSAGE", default=False)
    show_read_tokens: bool = _show("READ_TOKENS", default=False)
    show_work_tokens: bool = _show("WORK_TOKENS", default=False)
    show_savings_amount: bool = _show("SAVINGS_AMOUNT", default=False)
    show_savings_percent: bool = _show("SAVINGS_PERCENT", default=True)
    show_terminal_output: bool = _show("TERMINAL_OUTPUT", default=True)
    excluded_projects: tuple[str, ...] = _key("CLAUDE_MEM_EXCLUDED_PROJECTS", globs, ())
    """Globs of project paths, `~` expanded."""
    scope: Scope = _key("CLAUDE_MEM_DAEMON_SCOPE", choice("all", "parent", "self"), "all")
    stores: Mapping[str, tuple[str, ...]] = _key("CLAUDE_MEM_DAEMON_STORES", stores, {})
    """Glob of a checkout's path (or `*`) -> store files or data dirs, `~` expanded, absolute."""
    aliases: Mapping[str, tuple[str, ...]] = _key("CLAUDE_MEM_DAEMON_ALIASES", lists_by_name, {})
    """Project name -> older names of the same repository."""
    context_chars: int = _key("CLAUDE_MEM_DAEMON_CONTEXT_CHARS", count(10_000_000), 10_000)
    """Most UTF-16 code units of one context."""
    prompt_context: PromptContext = _key(
        "CLAUDE_MEM_DAEMON_PROMPT_CONTEXT", choice("delta", "full", "off"), "delta"
    )
    timeout_ms: int = _key("CLAUDE_MEM_DAEMON_TIMEOUT_MS", count(60_000, least=50), 1500)

    types_restricted: bool
    """False: no source narrowed the types, so rows of a type the mode does not know pass as well.
    (A mode's own list is a whitelist too and sets this; only `*` lifts it.)"""
    concepts_restricted: bool
    sources: Mapping[str, Source]
    own: Mapping[str, Any]
    """The keys of `OWN_NAMES` that are set, and their values."""
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[Dependency, ...]
    """settings.json and every mode file that was read or looked for."""

    @property
    def observer_folder(self) -> str:
        """Where claude-mem's own sessions run: they are told nothing."""
        return os.path.join(self.data_dir, "observer-sessions")

    def value(self, key: str) -> Any:
        """The effective value of a contract key, as `config` shows it."""
        if key == DATA_DIR:
            return self.data_dir
        if key not in KEYS:
            return self.own.get(key)
        value = getattr(self, KEYS[key].field)
        if key == "CLAUDE_MEM_DAEMON_STORES":
            return {name: tuple(map(without_secrets, paths)) for name, paths in value.items()}
        return value.id if isinstance(value, Mode) else value


def _declared() -> dict[str, Key]:
    keys: dict[str, Key] = {}
    for declared in fields(Settings):
        if "key" in declared.metadata:
            name, parse, default = declared.metadata["key"]
            keys[name] = Key(name, declared.name, parse, default)
    return keys


KEYS: Final[Mapping[str, Key]] = _declared()

_CONTEXT: Final = "CLAUDE_MEM_CONTEXT_"
OWN_NAMES: Final[Mapping[str, str]] = {
    name: "CLAUDE_MEM_DAEMON_" + name.removeprefix(_CONTEXT)
    for name in KEYS
    if name.startswith(_CONTEXT)
}
"""claude-mem's key -> the key of the same meaning that wins over it for this daemon alone."""

ALL_KEYS: Final[Mapping[str, Key]] = {
    **KEYS,
    **{own: KEYS[name]._replace(name=own) for name, own in OWN_NAMES.items()},
}

DATA_DIR: Final = "CLAUDE_MEM_DATA_DIR"

DATA_DIR_KEY: Final = Key(DATA_DIR, "data_dir", absolute)
"""Apart from the others, for it decides which settings.json they are read from."""
