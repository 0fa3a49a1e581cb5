"""Which project keys of a store only look like this repository's.

A repository whose folder was renamed, or written in other letters, has its rows under a key that no
rule matches. Such a key is told by its name, or by the files of its rows: they are in our checkouts
now, and gone from where they were.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.rows import Row, text_list
from claudemem_daemon.stores.sql import Wanted

ALIASES: Final = "CLAUDE_MEM_DAEMON_ALIASES"
NEWEST: Final = 20
"""Rows of a key whose files are compared, and files of a row."""


class StoreProject(NamedTuple):
    """One project key of one store. newest is in milliseconds. ours: it is a key of this
    repository. resembles: the key of ours that another looks like, and `why` in a few words; both
    None where it may be an older name of ours all the same. alias: the line of settings.json that
    makes it ours; None where it is, or is another repository's."""

    key: str
    store: str
    rows: int
    newest: int | None
    ours: bool
    resembles: str | None = None
    why: str | None = None
    alias: str | None = None


class Likeness:
    """Compares keys with those of one repository."""

    def __init__(self, resolved: ResolvedQuestion, ownership: Ownership) -> None:
        keys, repository = resolved.keys, resolved.repository
        # What lies below a folder that is no checkout may be anyone's.
        inside = repository is not None and repository.kind != "none"
        self._checkouts = [path.rstrip("/") for path in keys.checkouts] if inside else []
        self._aliases = resolved.settings.aliases
        self._ownership = ownership
        self._name = keys.name.partition("/")[0]
        exact = [
            key.key.partition("/")[0] for key in keys.keys if key.match == "exact" and not key.bare
        ]
        self._names = {_reads_as(name): name for name in exact if name}
        paths = [key.path for key in keys.keys if key.role == "worktree" and key.path]
        self._worktrees = {os.path.basename(path) for path in paths}

    def compared(self, project: StoreProject, reader: StoreReader) -> StoreProject:
        """A key that is not ours, with what it looks like. Raises `StoreError`."""
        key = project.key
        head = key.partition("/")[0]
        # A name of ours was left out by the scope.
        if not self._name or not self._checkouts or head in self._names.values():
            return project
        page = next(reader.candidates("observations", Wanted((key,)), NEWEST), [])
        rows = list(reader.rows("observations", page))
        if any(self._ownership.other_repository(row) is not None for row in rows):
            return project
        known = {name: list(older) for name, older in self._aliases.items()}
        known[self._name] = list(dict.fromkeys((*known.get(self._name, ()), head)))
        alias = f'"{ALIASES}": {json.dumps(known, ensure_ascii=False)}'
        resembles, why = self._resembled(key, rows)
        return project._replace(resembles=resembles, why=why, alias=alias)

    def _resembled(self, key: str, rows: Sequence[Row]) -> tuple[str, str] | tuple[None, None]:
        head, _, worktree = key.partition("/")
        similar = self._names.get(_reads_as(head))
        if similar is not None:
            why = f"{head!r} and {similar!r} differ only in letter case, form or separators"
            return similar, why
        named = [paths for row in rows if (paths := _paths(row))]
        here = sum(any(self._has(path, key.split("/")) for path in paths) for paths in named)
        if here * 2 > len(named):
            newest = f"{here} of its {len(rows)} newest rows name"
            newest = newest if len(rows) > 1 else "its row names"
            return self._name, f"{newest} files that are in this checkout"
        if not named and worktree in self._worktrees and not self._is_beside(head):
            return self._name, f"{worktree!r} is the name of a worktree of this repository"
        return None, None

    def _is_beside(self, name: str) -> bool:
        """Whether a folder of this name, another repository perhaps, is beside a checkout."""
        folders = {os.path.dirname(checkout) for checkout in self._checkouts}
        return any(os.path.isdir(os.path.join(folder, name)) for folder in folders)

    def _has(self, path: str, folders: Iterable[str]) -> bool:
        """Whether the file is in a checkout of ours, now or once its folder was renamed."""
        if not path.startswith("/"):
            # A name without a folder, such as README.md, is in every repository.
            return "/" in path.strip("./") and self._exists(path)
        if any(path.startswith(checkout + "/") for checkout in self._checkouts):
            return True
        for folder in folders:
            before, found, tail = path.partition(f"/{folder}/")
            if found and not os.path.exists(f"{before}/{folder}") and self._exists(tail):
                return True
        return False

    def _exists(self, relative: str) -> bool:
        if ".." in relative.split("/") or "\0" in relative:
            return False
        return any(os.path.lexists(f"{checkout}/{relative}") for checkout in self._checkouts)


def _paths(row: Row) -> tuple[str, ...]:
    return (*text_list(row.cells[7]), *text_list(row.cells[8]))[:NEWEST]


def _reads_as(name: str) -> str:
    """The name without what people and file systems change in one: case, form, separators."""
    return re.sub(r"[-_. ]+", "", unicodedata.normalize("NFKC", name).casefold())
