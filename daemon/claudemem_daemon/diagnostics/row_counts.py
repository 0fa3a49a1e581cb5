"""How many rows each key has in each store, and how new they are: for people, not for answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKey
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import Admitted, admit
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.warning import AnswerWarning

COUNTING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Counted:
    store: str
    rows: int
    newest: int | None
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """keys: every key that was asked for or found, in the order of asking. left_out: keys that a
    store does not get asked for, and why."""

    keys: Mapping[str, ProjectKey]
    counts: Mapping[str, tuple[Counted, ...]]
    left_out: Mapping[str, str]
    store_paths: tuple[str, ...]
    warnings: tuple[AnswerWarning, ...]

    def as_json(self, key: str) -> dict[str, Any]:
        counted = self.counts.get(key, ())
        return {
            "key": key,
            "rule": self.keys[key].rule,
            "stores": [count.store for count in counted],
            "rows": sum(count.rows for count in counted),
            "newest": max(
                (count.newest for count in counted if count.newest is not None), default=None
            ),
        }


def count_rows(resolved: ResolvedQuestion, pool: StorePool) -> RowCounts:
    """Count inside a few seconds; a store that cannot be read is a warning."""
    keys = {key.key: key for key in reversed(resolved.keys.keys) if key.match == "exact"}
    keys = dict(reversed(keys.items()))
    counts: dict[str, list[Counted]] = {}
    left_out: dict[str, str] = {}
    ours = Ownership(resolved.keys)

    def count(path: str, reader: StoreReader, admitted: Admitted) -> None:
        left_out.update(admitted.left_out)
        for name, key in admitted.names.items():
            keys.setdefault(name, key)
            counted = count_key(path, reader, admitted.wanted(name), ours)
            counts.setdefault(name, []).append(counted)

    warnings = in_each_store(resolved, pool, Deadline.after(COUNTING_SECONDS), count)
    for name in left_out:
        keys.pop(name, None)
    paths = tuple(ref.path for ref in resolved.located.stores) if resolved.keys.keys else ()
    return RowCounts(
        keys=keys,
        counts={name: tuple(found) for name, found in counts.items()},
        left_out=left_out,
        store_paths=paths,
        warnings=(*warnings, *ours.warnings()),
    )


def in_each_store(
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
                work(ref.path, reader, admit(resolved.keys, reader.projects(), reader.merged()))
        except StoreError as error:
            warnings.append(AnswerWarning(f"store_{error.reason}", error.message, path=error.path))
    return warnings


def count_key(
    path: str, reader: StoreReader, wanted: Wanted, ours: Ownership | None = None
) -> Counted:
    """Rows of one key in one store, and the time of the newest; for `ours` without those of another
    repository of the same name."""
    others = ours.others_rows(reader, wanted) if ours is not None else frozenset()
    pages = reader.candidates("observations", wanted, len(others) + 1)
    newest = next((row for page in pages for row in page if row.id not in others), None)
    rows = reader.how_many(wanted) - len(others)
    return Counted(path, rows, newest.epoch if newest is not None else None)
