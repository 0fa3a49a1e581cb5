"""The project keys of the stores at hand: whose they are, how many rows each has, how new they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
COUNTING_SECONDS: Final = 5.0


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
    found: list[StoreProject] = []
    ownership = Ownership(resolved.keys)
    likeness = Likeness(resolved, ownership)
    exclusions = Exclusions(resolved.settings.excluded_projects)

    def work(path: str, reader: StoreReader, admitted: Admitted) -> None:
        names, merged = reader.projects(), reader.merged()
        away = {*resolved.keys.excluded, *admitted.left_out}
        compared = 0
        for name in dict.fromkeys((*names, *merged)):
            if name in admitted.names:
                found.append(_counted(path, reader, name, admitted.wanted(name), ownership))
                continue
            if name in resolved.keys.excluded or exclusions.excluding(name):
                continue
            wanted = Wanted((name,), (name,) if name in merged else ())
            project = _counted(path, reader, name, wanted, None)
            if name not in away and compared < MAX_COMPARED:
                compared += 1
                project = likeness.compared(project, reader)
            found.append(project)

    warnings = _in_each_store(resolved, pool, deadline, work)
    found = _with_their_worktrees(found)
    found.sort(key=lambda p: (not p.ours, p.resembles is None, -(p.newest or 0), p.key))
    return tuple(found), tuple(warnings)


def count_rows(resolved: ResolvedQuestion, pool: StorePool) -> RowCounts:
    """Count inside a few seconds; a store that cannot be read is a warning."""
    keys: dict[str, ProjectKey] = {}
    for key in resolved.keys.keys:
        if key.match == "exact":
            keys.setdefault(key.key, key)
    found: list[StoreProject] = []
    left_out: dict[str, str] = {}
    ownership = Ownership(resolved.keys)

    def work(path: str, reader: StoreReader, admitted: Admitted) -> None:
        left_out.update(admitted.left_out)
        for name, key in admitted.names.items():
            keys.setdefault(name, key)
            found.append(_counted(path, reader, name, admitted.wanted(name), ownership))

    warnings = _in_each_store(resolved, pool, Deadline.after(COUNTING_SECONDS), work)
    return RowCounts(
        keys={name: key for name, key in keys.items() if name not in left_out},
        projects=tuple(found),
        left_out=left_out,
        store_paths=tuple(ref.path for ref in resolved.located.stores)
        if resolved.keys.keys
        else (),
        warnings=(*warnings, *ownership.warnings()),
    )


def _in_each_store(
    resolved: ResolvedQuestion,
    pool: StorePool,
    deadline: Deadline,
    work: Callable[[str, StoreReader, Admitted], None],
) -> list[AnswerWarning]:
    """Do `work` with each store's path, its reader, and the keys that are asked for in it; a warning
    for each store that cannot be read."""
    warnings: list[AnswerWarning] = []
    # Without keys nothing is to be read, and an excluded project's stores stay closed.
    for ref in resolved.located.stores if resolved.keys.keys else ():
        try:
            with pool.reading(ref, deadline) as reader:
                work(ref.path, reader, match_keys(reader, resolved.keys)[0])
        except StoreError as error:
            warnings.append(AnswerWarning(f"store_{error.reason}", error.message, path=error.path))
    return warnings


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


def _with_their_worktrees(found: list[StoreProject]) -> list[StoreProject]:
    """A key that resembles ours takes those with it that the alias makes ours, too."""
    heads = {project.key.partition("/")[0]: project for project in found if project.resembles}
    return [
        project._replace(resembles=like.resembles, why=like.why, alias=like.alias)
        if not project.ours and (like := heads.get(project.key.partition("/")[0])) is not None
        else project
        for project in found
    ]
