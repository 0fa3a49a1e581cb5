"""Stores that a checkout names in its own files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.memo import Memo
from claudemem_daemon.settings.sources import read_values

STORE_NAME: Final = "claude-mem.db"
_SETTINGS: Final = ("settings.local.json", "settings.json")


@dataclass(frozen=True, slots=True)
class Named:
    """One store a checkout names; it may be missing. `value` is the setting as written, for what
    cannot be used: then `path` is None."""

    path: str | None
    rule: str
    file: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class NamedStores:
    """What one checkout names, and the files that say so."""

    stores: tuple[Named, ...]
    dependencies: tuple[FileState, ...]


class CheckoutFiles:
    """Reads `<checkout>/.claude-mem/` and the `env` of `<checkout>/.claude/settings*.json`."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo

    def named(self, checkout: str, trust: FileState | None = None) -> NamedStores:
        """The stores this checkout names. For a sibling of the checkout that asks, pass the state
        of trusted.json: a store that appears there changes no answer before it is allowed, so what
        is missing now is asked for again only when that changes, and a thousand worktrees cost a
        warm answer nothing."""
        return self._memo.value(
            ("checkout", checkout, trust is not None), lambda: _read(checkout, trust)
        )


def _read(checkout: str, trust: FileState | None) -> NamedStores:
    found: list[Named] = []
    looked_at: list[FileState] = []
    own = file_state(os.path.join(checkout, ".claude-mem"))
    looked_at.append(own)
    if own.state is not None:
        store = file_state(os.path.join(own.path, STORE_NAME))
        looked_at.append(store)
        if store.state is not None:
            found.append(Named(store.path, "inside the checkout", store.path))
    claude = file_state(os.path.join(checkout, ".claude"))
    looked_at.append(claude)
    if claude.state is not None:
        for name in _SETTINGS:
            seen = file_state(os.path.join(claude.path, name))
            looked_at.append(seen)
            named = _setting(seen)
            if named is not None:
                found.append(named)
    # Folders and stores count by their appearance alone: the folders' times change with any file
    # in them, and locating a store looks at it again.
    dependencies = tuple(
        one
        for one in looked_at
        if (one.state is None and trust is None) or (one.state and one.path.endswith(".json"))
    )
    return NamedStores(tuple(found), dependencies if trust is None else (trust, *dependencies))


def _setting(seen: FileState) -> Named | None:
    value = _data_dir(seen.path) if seen.state is not None else None
    if value is None:
        return None
    rule = f"CLAUDE_MEM_DATA_DIR in {seen.path}"
    expanded = os.path.expanduser(value)
    if not os.path.isabs(expanded):
        return Named(None, rule, seen.path, value)
    return Named(store_file(expanded), rule, seen.path, value)


def store_file(value: str) -> str:
    """The store that a setting means: the file it names, or the one in the data dir it names."""
    if os.path.isdir(value):
        return os.path.join(value, STORE_NAME)
    if value.endswith((".db", ".sqlite", ".sqlite3")) or os.path.exists(value):
        return value
    return os.path.join(value, STORE_NAME)


def _data_dir(path: str) -> str | None:
    """The setting's text, or None; a file that is broken or huge names nothing."""
    env = (read_values(path) or {}).get("env")
    value = env.get("CLAUDE_MEM_DATA_DIR") if isinstance(env, dict) else None
    return value if isinstance(value, str) and value and "\0" not in value else None
