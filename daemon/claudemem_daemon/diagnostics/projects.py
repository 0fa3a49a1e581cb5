"""The project keys of the stores at hand: whose they are, and which only look like ours.

A repository whose folder was renamed, or written in other letters, has its rows under a key that no
rule matches. Such a key is told by its name, or by the files of its rows: they are in our checkouts
now, and gone from where they were.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.row_counts import count_key, in_each_store
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import Admitted
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.settings.exclusion import excluding
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row, text_list
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.warning import AnswerWarning

ALIASES: Final = "CLAUDE_MEM_DAEMON_ALIASES"
NEWEST: Final = 20
"""Rows of a key whose files are compared."""
MAX_COMPARED: Final = 200
"""Keys whose files are compared, per store."""


@dataclass(frozen=True, slots=True)
class StoreProject:
    """One project key of one store. newest is in milliseconds. ours: it is a key of this
    repository. resembles: the key of ours that it looks like, and `why` in a few words. alias: the
    line of settings.json that makes it ours; None where it is ours, or another repository's."""

    key: str
    store: str
    rows: int
    newest: int | None
    ours: bool
    resembles: str | None = None
    why: str | None = None
    alias: str | None = None


def list_projects(
    resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> tuple[tuple[StoreProject, ...], tuple[AnswerWarning, ...]]:
    """Every key of every store of the question but those of excluded projects: ours first, then
    those that look like ours, each the newest first. Of an excluded project nothing is read."""
    found: list[StoreProject] = []
    likeness = _Likeness(resolved)

    def work(path: str, reader: StoreReader, admitted: Admitted) -> None:
        found.extend(_of_store(path, reader, admitted, resolved, likeness))

    warnings = in_each_store(resolved, pool, deadline, work)
    found = _with_their_worktrees(found)
    found.sort(key=lambda p: (not p.ours, p.resembles is None, -(p.newest or 0), p.key))
    return tuple(found), tuple(warnings)


def _with_their_worktrees(found: list[StoreProject]) -> list[StoreProject]:
    """A key that resembles ours takes those with it that the alias makes ours, too."""
    heads = {project.key.partition("/")[0]: project for project in found if project.resembles}
    return [
        replace(project, resembles=like.resembles, why=like.why, alias=like.alias)
        if not project.ours and (like := heads.get(project.key.partition("/")[0])) is not None
        else project
        for project in found
    ]


def resembling(
    resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> tuple[StoreProject, ...]:
    """The keys that only look like ours."""
    return tuple(
        project for project in list_projects(resolved, pool, deadline)[0] if project.resembles
    )


def _of_store(
    path: str,
    reader: StoreReader,
    admitted: Admitted,
    resolved: ResolvedQuestion,
    likeness: _Likeness,
) -> Iterator[StoreProject]:
    names, merged = reader.projects(), reader.merged()
    patterns = resolved.settings.excluded_projects
    away = {*resolved.keys.excluded, *admitted.left_out}
    compared = 0
    for name in dict.fromkeys((*names, *merged)):
        ours = name in admitted.names
        if not ours and (name in resolved.keys.excluded or excluding(name, patterns)):
            continue
        judge = likeness.ownership if ours else None
        wanted = (
            admitted.wanted(name) if ours else Wanted((name,), (name,) if name in merged else ())
        )
        counted = count_key(path, reader, wanted, judge)
        project = StoreProject(name, path, counted.rows, counted.newest, ours)
        if not ours and name not in away and compared < MAX_COMPARED:
            compared += 1
            project = likeness.compared(project, reader)
        yield project


class _Likeness:
    """Compares keys with those of one repository."""

    def __init__(self, resolved: ResolvedQuestion) -> None:
        self._resolved = resolved
        repository = resolved.repository
        # What lies below a folder that is no checkout may be anyone's.
        inside = repository is not None and repository.kind != "none"
        self._checkouts = [path.rstrip("/") for path in resolved.keys.checkouts] if inside else []
        self.ownership = Ownership(resolved.keys)

    @cached_property
    def _names(self) -> dict[str, str]:
        """What our own names read as -> the name."""
        heads = [
            key.key.partition("/")[0]
            for key in self._resolved.keys.keys
            if key.match == "exact" and not key.bare
        ]
        return {_reads_as(name): name for name in heads if name}

    def compared(self, project: StoreProject, reader: StoreReader) -> StoreProject:
        """The project, with the key of ours that it looks like if there is one."""
        ours = self._resolved.keys.name.partition("/")[0]
        if not ours or not self._checkouts:
            return project
        head = project.key.partition("/")[0]
        if head in self._names.values():
            return project  # left out by the scope
        similar = self._names.get(_reads_as(head))
        rows = _newest(reader, project.key)
        if any(self.ownership.other_repository(row) is not None for row in rows):
            return project
        if similar is not None:
            why = f"{head!r} and {similar!r} differ only in letter case, form or separators"
            return self._with_alias(project, similar, why)
        named = [paths for row in rows if (paths := _paths(row))]
        here = sum(self._any_is_here(paths, project.key) for paths in named)
        if here * 2 <= len(named):
            worktree = project.key.partition("/")[2]
            if named or worktree not in self._worktrees or self._is_beside(head):
                return self._with_alias(project, None, None)
            why = f"{worktree!r} is the name of a worktree of this repository"
            return self._with_alias(project, ours, why)
        newest = f"{here} of its {len(rows)} newest rows name" if len(rows) > 1 else "its row names"
        why = f"{newest} files that are in this checkout"
        return self._with_alias(project, ours, why)

    @cached_property
    def _worktrees(self) -> frozenset[str]:
        paths = (key.path for key in self._resolved.keys.keys if key.role == "worktree")
        return frozenset(os.path.basename(path) for path in paths if path)

    def _is_beside(self, name: str) -> bool:
        """Whether a folder of this name, another repository perhaps, is beside a checkout."""
        folders = {os.path.dirname(checkout) for checkout in self._checkouts}
        return any(os.path.isdir(os.path.join(folder, name)) for folder in folders)

    def _with_alias(self, project: StoreProject, ours: str | None, why: str | None) -> StoreProject:
        head = project.key.partition("/")[0]
        known = {name: list(older) for name, older in self._resolved.settings.aliases.items()}
        name = self._resolved.keys.name.partition("/")[0]
        known[name] = list(dict.fromkeys((*known.get(name, ()), head)))
        alias = f'"{ALIASES}": {json.dumps(known, ensure_ascii=False)}'
        return replace(project, resembles=ours, why=why, alias=alias)

    def _any_is_here(self, paths: Iterable[str], key: str) -> bool:
        """Whether one of the files is in a checkout of ours, now or once its folder was renamed."""
        return any(self._has(path, key.split("/")) for path in paths)

    def _has(self, path: str, folders: Iterable[str]) -> bool:
        if path.startswith("/"):
            if any(path.startswith(checkout + "/") for checkout in self._checkouts):
                return True
            return any(self._moved(path, folder) for folder in folders)
        # A name without a folder, such as README.md, is in every repository.
        return "/" in path.strip("./") and self._exists(path)

    def _moved(self, path: str, folder: str) -> bool:
        before, found, tail = path.partition(f"/{folder}/")
        return bool(found) and not os.path.exists(f"{before}/{folder}") and self._exists(tail)

    def _exists(self, relative: str) -> bool:
        if ".." in relative.split("/") or "\0" in relative:
            return False
        return any(os.path.lexists(f"{checkout}/{relative}") for checkout in self._checkouts)


def _paths(row: Row) -> tuple[str, ...]:
    return (*text_list(row.cells[7]), *text_list(row.cells[8]))[:NEWEST]


def _newest(reader: StoreReader, name: str) -> list[Row]:
    page = next(reader.candidates("observations", Wanted((name,)), NEWEST), [])
    return list(reader.wide("observations", page).values())


def _reads_as(name: str) -> str:
    """The name without what people and file systems change in one: case, form, separators."""
    return re.sub(r"[-_. ]+", "", unicodedata.normalize("NFKC", name).casefold())
