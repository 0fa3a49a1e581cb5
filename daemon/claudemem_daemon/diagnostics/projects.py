"""The project keys of the stores at hand: whose they are, how many rows each has, how new they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.likeness import Likeness, StoreProject
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKey
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import Admitted, match_keys
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.settings.exclusion import Exclusions
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.warning import AnswerWarning

MAX_COMPARED: Final = 200
"""Keys whose files are compared, per store."""


class RowCounts(NamedTuple):
    """keys: every key that was asked for or found, in the order of asking. left_out: keys that a
    store does not get asked for, and why."""

    keys: Mapping[str, ProjectKey]
    projects: tuple[StoreProject, ...]
    left_out: Mapping[str, str]
    store_paths: tuple[str, ...]
    warnings: tuple[AnswerWarning, ...]

    def as_json(self, key: str) -> dict[str, Any]:
        found = [project for project in self.projects if project.key == key]
        return {
            "key": key,
            "rule": self.keys[key].rule,
            "stores": [project.store for project in found],
            "rows": sum(project.rows for project in found),
            "newest": max((p.newest for p in found if p.newest is not None), default=None),
        }


def list_projects(
    resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> tuple[tuple[StoreProject, ...], tuple[AnswerWarning, ...]]:
    """Every key of every store of the question but those of excluded projects: ours first, then
    those that look like ours, each the newest first. Of an excluded project nothing is read."""
    counts = count_rows(resolved, pool, deadline, others=True)
    found = _with_their_worktrees(counts.projects)
    found.sort(key=lambda p: (not p.ours, p.resembles is None, -(p.newest or 0), p.key))
    return tuple(found), counts.warnings


def count_rows(
    resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline, *, others: bool = False
) -> RowCounts:
    """The keys of this repository, or with `others` all keys; a store that cannot be read before the
    deadline is a warning."""
    keys: dict[str, ProjectKey] = {}
    for key in resolved.keys.keys:
        if key.match == "exact":
            keys.setdefault(key.key, key)
    found: list[StoreProject] = []
    left_out: dict[str, str] = {}
    warnings: list[AnswerWarning] = []
    ownership = Ownership(resolved.keys)
    # Without keys nothing is to be read, and an excluded project's stores stay closed.
    stores = resolved.located.stores if resolved.keys.keys else ()
    for ref in stores:
        try:
            with pool.reading(ref, deadline) as reader:
                admitted = match_keys(reader, resolved.keys)[0]
                left_out.update(admitted.left_out)
                for name, key in admitted.names.items():
                    keys.setdefault(name, key)
                    found.append(_counted(ref.path, reader, name, admitted.wanted(name), ownership))
                if others:
                    found.extend(_others(ref.path, reader, admitted, resolved, ownership))
        except StoreError as error:
            warnings.append(AnswerWarning(f"store_{error.reason}", error.message, path=error.path))
    return RowCounts(
        keys={name: key for name, key in keys.items() if name not in left_out},
        projects=tuple(found),
        left_out=left_out,
        store_paths=tuple(ref.path for ref in stores),
        warnings=(*warnings, *ownership.warnings()),
    )


def _others(
    path: str,
    reader: StoreReader,
    admitted: Admitted,
    resolved: ResolvedQuestion,
    ownership: Ownership,
) -> Iterator[StoreProject]:
    """The keys of a store that are not this repository's, with what they look like."""
    likeness = Likeness(resolved, ownership)
    exclusions = Exclusions(resolved.settings.excluded_projects)
    excluded, merged = resolved.keys.excluded, reader.projects(column="merged_into_project")
    compared = 0
    for name in dict.fromkeys((*reader.projects(), *merged)):
        if name in admitted.names or name in excluded or exclusions.excluding(name):
            continue
        wanted = Wanted((name,), (name,) if name in merged else ())
        project = _counted(path, reader, name, wanted, None)
        if name not in admitted.left_out and compared < MAX_COMPARED:
            compared += 1
            project = likeness.compared(project, reader)
        yield project


def _counted(
    path: str, reader: StoreReader, name: str, wanted: Wanted, ours: Ownership | None
) -> StoreProject:
    """Rows of one key in one store, and the time of the newest; of a key of `ours` without those of
    another repository of the same name."""
    others = ours.others_rows(reader, wanted) if ours is not None else frozenset()
    pages = reader.candidates("observations", wanted, len(others) + 1)
    newest = next((row.epoch for page in pages for row in page if row.id not in others), None)
    rows = reader.how_many(wanted) - len(others)
    return StoreProject(name, path, rows, newest, ours is not None)


def _with_their_worktrees(found: Sequence[StoreProject]) -> list[StoreProject]:
    """A key that resembles ours takes those with it that the alias makes ours, too."""
    heads = {project.key.partition("/")[0]: project for project in found if project.resembles}
    return [
        project._replace(resembles=like.resembles, why=like.why, alias=like.alias)
        if not project.ours and (like := heads.get(project.key.partition("/")[0])) is not None
        else project
        for project in found
    ]
