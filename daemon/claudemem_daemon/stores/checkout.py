"""Stores that a checkout names in its own files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.dependencies import FileState, State, file_state

STORE_NAME: Final = "claude-mem.db"
_SETTINGS: Final = ("settings.local.json", "settings.json")
_MOST_BYTES: Final = 1_000_000
_MOST_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Named:
    """One store a checkout names; it may be missing. `value` is the setting as written, for what
    cannot be used: then `path` is None."""

    path: str | None
    rule: str
    file: str
    value: str | None = None


class CheckoutFiles:
    """Reads `<checkout>/.claude-mem/` and the `env` of `<checkout>/.claude/settings*.json`.

    With hundreds of worktrees the same settings file lies in each of them, so what was parsed is
    remembered by path and file state. Safe from several threads: entries are replaced whole.
    """

    def __init__(self) -> None:
        self._data_dirs: dict[str, tuple[State, str | None]] = {}

    def named(self, checkout: str) -> tuple[tuple[Named, ...], tuple[FileState, ...]]:
        """The stores this checkout names, and every file that was looked at."""
        found: list[Named] = []
        own = os.path.join(checkout, ".claude-mem")
        folder = file_state(own)
        dependencies = [folder]
        if folder.state is not None:
            path = os.path.join(own, STORE_NAME)
            store = file_state(path)
            dependencies.append(store)
            if store.state is not None:
                found.append(Named(path, "inside the checkout", path))
        claude = file_state(os.path.join(checkout, ".claude"))
        dependencies.append(claude)
        if claude.state is not None:
            for name in _SETTINGS:
                one, seen = self._setting(os.path.join(claude.path, name))
                dependencies.append(seen)
                if one is not None:
                    found.append(one)
        # The folders are looked at for their appearance alone: their times change with any file
        # in them, and each file that matters has an entry of its own.
        kept = [one for one in dependencies if one.path not in (own, claude.path) or not one.state]
        return tuple(found), tuple(kept)

    def _setting(self, path: str) -> tuple[Named | None, FileState]:
        seen = file_state(path)
        if seen.state is None:
            return None, seen
        known = self._data_dirs.get(path)
        if known is None or known[0] != seen.state or seen.racy:
            if len(self._data_dirs) >= _MOST_REMEMBERED:
                self._data_dirs.clear()
            known = (seen.state, _data_dir(path, seen.state))
            self._data_dirs[path] = known
        value = known[1]
        if value is None:
            return None, seen
        rule = f"CLAUDE_MEM_DATA_DIR in {path}"
        expanded = os.path.expanduser(value)
        if not os.path.isabs(expanded):
            return Named(None, rule, path, value), seen
        return Named(store_file(expanded), rule, path, value), seen


def store_file(value: str) -> str:
    """The store that a setting means: the file it names, or the one in the data dir it names."""
    if os.path.isdir(value):
        return os.path.join(value, STORE_NAME)
    if value.endswith((".db", ".sqlite", ".sqlite3")) or os.path.exists(value):
        return value
    return os.path.join(value, STORE_NAME)


def _data_dir(path: str, state: State) -> str | None:
    """The setting's text, or None; a file that is broken or huge names nothing."""
    size = state[3]
    if size > _MOST_BYTES or not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            shape: Any = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    env = shape.get("env") if isinstance(shape, dict) else None
    value = env.get("CLAUDE_MEM_DATA_DIR") if isinstance(env, dict) else None
    return value if isinstance(value, str) and value and "\0" not in value else None
