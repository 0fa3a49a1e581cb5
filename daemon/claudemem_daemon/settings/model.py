"""The settings of one request: frozen, typed, each value with its source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from claudemem_daemon.database_url import without_secrets
from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.question import Scope
from claudemem_daemon.settings.keys import DATA_DIR, KEYS
from claudemem_daemon.warning import AnswerWarning

Origin = Literal["request", "caller", "daemon", "settings", "mode", "default"]
"""Strongest first: the question itself, the caller's environment, the daemon's environment,
settings.json, the active mode, the built-in default."""

FullField = Literal["narrative", "facts"]
PromptContext = Literal["delta", "full", "off"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where one value came from; `detail` is a file path or the variable's name."""

    origin: Origin
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ModeItem:
    """One observation type or concept of a mode."""

    id: str
    label: str
    emoji: str = ""
    work_emoji: str = ""


@dataclass(frozen=True, slots=True)
class Mode:
    """A claude-mem mode: which types and concepts exist, in order."""

    id: str
    name: str
    types: tuple[ModeItem, ...]
    concepts: tuple[ModeItem, ...]
    path: str | None
    """The file it was read from; None for a built-in one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of CONTRACT, checked; `sources` has one entry per key."""

    revision: int
    """Grows with every accepted change of settings.json."""
    data_dir: str
    settings_path: str
    limit: int
    """Most observations of an answer."""
    types: tuple[str, ...]
    """Allowed types, lower case, in the order given; empty = none allowed."""
    concepts: tuple[str, ...]
    """At least one must be among the row's; empty = none allowed."""
    types_restricted: bool
    """False: no source narrowed the types, so rows of a type the mode does not know pass as well.
    (A mode's own list is a whitelist too and sets this; only `*` lifts it.)"""
    concepts_restricted: bool
    mode: Mode
    modes_dir: str | None
    full_count: int
    full_field: FullField
    session_count: int
    show_last_summary: bool
    show_last_message: bool
    show_read_tokens: bool
    show_work_tokens: bool
    show_savings_amount: bool
    show_savings_percent: bool
    show_terminal_output: bool
    excluded_projects: tuple[str, ...]
    """Globs of project paths, `~` expanded."""
    scope: Scope
    stores: Mapping[str, tuple[str, ...]]
    """Glob of a checkout's path (or `*`) -> store files or data dirs, `~` expanded, absolute."""
    aliases: Mapping[str, tuple[str, ...]]
    """Project name -> older names of the same repository."""
    context_chars: int
    """Most UTF-16 code units of one context."""
    prompt_context: PromptContext
    timeout_ms: int
    sources: Mapping[str, Source]
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[Dependency, ...]
    """settings.json and every mode file that was read or looked for."""

    own: Mapping[str, Any]
    """The keys of `OWN_NAMES` that are set, and their values."""

    @property
    def observer_folder(self) -> str:
        """Where claude-mem's own sessions run: they are told nothing."""
        return os.path.join(self.data_dir, "observer-sessions")

    def value(self, key: str) -> Any:
        """The effective value of a contract key, as `config` shows it."""
        if key not in KEY_FIELDS:
            return self.own.get(key)
        value = getattr(self, KEY_FIELDS[key])
        if key == "CLAUDE_MEM_DAEMON_STORES":
            return {name: tuple(map(without_secrets, places)) for name, places in value.items()}
        return value.id if isinstance(value, Mode) else value


KEY_FIELDS: Mapping[str, str] = {
    DATA_DIR: "data_dir",
    **{name: key.field for name, key in KEYS.items()},
}
