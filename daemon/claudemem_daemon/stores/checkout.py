"""Stores that a checkout names in its own files."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import (
    FileDependency,
    FileState,
    all_hold,
    file_identity,
    file_state,
    something_at,
)
from claudemem_daemon.memo import Memo
from claudemem_daemon.settings.sources import read_values

STORE_NAME: Final = "claude-mem.db"
_SETTINGS: Final = ("settings.local.json", "settings.json")


class Named(NamedTuple):
    """One store a checkout names; it may be missing. `value` is the setting as written, for what
    cannot be used: then `path` is None."""

    path: str | None
    rule: str
    file: str
    value: str | None = None


class NamedStores(NamedTuple):
    """What one checkout names, and the files that say so."""

    stores: tuple[Named, ...]
    dependencies: tuple[FileDependency, ...]


class SiblingStores(NamedTuple):
    """What the checkouts of a repository name, by path; `dependencies` is trusted.json."""

    named: Mapping[str, NamedStores]
    dependencies: tuple[FileState, ...]


class CheckoutFiles:
    """Reads `<checkout>/.claude-mem/` and the `env` of `<checkout>/.claude/settings*.json`."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo

    def named(self, checkout: str) -> NamedStores:
        """The stores this checkout names."""
        return self._memo.value(("checkout", checkout), lambda: _read(checkout))

    def of_siblings(
        self, repository: Hashable, checkouts: Iterable[str], trusted: FileState
    ) -> Mapping[str, NamedStores]:
        """What each of the checkouts beside the one that asks names. A store that appears there
        changes no answer before it is allowed, so what is missing is looked for again only when
        `trusted`, the state of trusted.json, changes: a thousand worktrees cost a warm answer
        nothing."""
        key = ("siblings", repository)
        before: SiblingStores | None = self._memo.last(key)
        known = before.named if before is not None and before.dependencies == (trusted,) else {}
        named: dict[str, NamedStores] = {}
        for checkout in checkouts:
            found = known.get(checkout)
            if found is None or not all_hold(found.dependencies):
                found = _read(checkout, is_sibling=True)
            named[checkout] = found
        self._memo.put(key, SiblingStores(named, (trusted,)))
        return named


def _read(checkout: str, *, is_sibling: bool = False) -> NamedStores:
    found: list[Named] = []
    dependencies: list[FileDependency] = []
    for folder, names in ((".claude-mem", (STORE_NAME,)), (".claude", _SETTINGS)):
        # Folders and stores count by their identity alone: times of a folder change with any file in
        # it, and those of a store with any write.
        seen = [file_state(os.path.join(checkout, folder))]
        if seen[0].state is not None:
            seen += [file_state(os.path.join(checkout, folder, name)) for name in names]
        missing = [file.path for file in seen if file.state is None]
        dependencies += map(file_identity, () if is_sibling else missing)
        for file in seen[1:]:
            if not something_at(file.path):
                continue
            if file.path.endswith(".json"):
                dependencies.append(file)
                found += _setting(file.path)
            else:
                dependencies.append(file_identity(file.path))
                found.append(Named(file.path, "inside the checkout", file.path))
    return NamedStores(tuple(found), tuple(dependencies))


def _setting(path: str) -> list[Named]:
    """What the settings file names; one that is broken or huge names nothing."""
    env = (read_values(path) or {}).get("env")
    value = env.get("CLAUDE_MEM_DATA_DIR") if isinstance(env, dict) else None
    if not isinstance(value, str) or not value or "\0" in value:
        return []
    expanded = os.path.expanduser(value)
    store = store_file(expanded) if os.path.isabs(expanded) else None
    return [Named(store, f"CLAUDE_MEM_DATA_DIR in {path}", path, value)]


def store_file(value: str) -> str:
    """The store that a setting means: the file it names, or the one in the data dir it names."""
    if os.path.isdir(value):
        return os.path.join(value, STORE_NAME)
    if value.endswith((".db", ".sqlite", ".sqlite3")) or os.path.exists(value):
        return value
    return os.path.join(value, STORE_NAME)
