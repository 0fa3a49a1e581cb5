"""Many sorted lists into one without duplicates, newest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from operator import itemgetter
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.rows import Row, content_key

Origin = TypeVar("Origin")

BATCH: Final = 500
"""Rows that are read before `late` is asked again."""

Ending = Literal["included", "duplicate_of", "other_repository"]


class Chosen(NamedTuple, Generic[Origin]):
    """A row and the store it came from."""

    origin: Origin
    row: Row


def merge(
    lists: Iterable[tuple[Origin, Iterable[Candidate]]],
    limit: int,
    read: Callable[[Origin, list[Candidate]], dict[int, Row]],
    keep: Callable[[Chosen[Origin]], bool],
    late: Callable[[], bool],
) -> Iterator[tuple[Chosen[Origin], Ending]]:
    """The rows of all lists with what became of each, up to the `limit`th that is included. Each list
    is in the order of the answer: time, project, id, all descending; rows without a time last.

    A duplicate does not count for the limit. It is a row that was reached before, a row of another
    device that is in two stores, or one with equal content at an equal time. Equal ids in two stores
    make no duplicate, and neither does likeness to a row that `keep` dropped. `read` returns whole
    rows by id; it is asked for few more than the limit. `late` is asked after each batch whether
    there is no time for another.
    """
    flows = [zip(repeat(origin), candidates) for origin, candidates in lists]
    ordered = heapq.merge(*flows, key=itemgetter(1), reverse=True)
    included = _Included[Origin]()
    least = 1
    while included.count < limit:
        size = min(BATCH, max(limit - included.count, least))
        before = included.count
        batch = list(islice(ordered, size))
        for chosen in _read(batch, read):
            if included.count == limit:
                return
            likeness = _likeness(chosen.row)
            if included.has_copy_of(chosen, likeness):
                yield chosen, "duplicate_of"
            elif keep(chosen):
                included.add(chosen, likeness)
                yield chosen, "included"
            else:
                yield chosen, "other_repository"
        if len(batch) < size:
            return
        # Doubled while no row is included: a long run of dropped rows takes few reads.
        least = 2 * size if included.count == before else 1
        if included.count < limit and late():
            return


def _read(
    batch: list[tuple[Origin, Candidate]], read: Callable[[Origin, list[Candidate]], dict[int, Row]]
) -> Iterator[Chosen[Origin]]:
    """The rows of a batch in its order, by one read of each store."""
    wanted: dict[Origin, list[Candidate]] = {}
    for origin, candidate in batch:
        wanted.setdefault(origin, []).append(candidate)
    rows = {origin: read(origin, candidates) for origin, candidates in wanted.items()}
    for origin, candidate in batch:
        row = rows[origin].get(candidate.id)
        if row is not None:
            yield Chosen(origin, row)


class _Included(Generic[Origin]):
    """The included rows, by all that identifies a copy. Equal content at an equal time is a copy in
    another store, and in the same store under the same project: claude-mem may write an event twice
    under one project, never under two."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: set[tuple[Origin, int]] = set()
        self._devices_rows: set[tuple[str, str]] = set()
        self._first: dict[object, Chosen[Origin]] = {}
        """By likeness, the first row."""
        self._others: dict[object, list[Chosen[Origin]]] = {}
        """By content, the rows after the first. Most rows are like no other, so that few long texts
        have to be hashed."""

    def has_copy_of(self, chosen: Chosen[Origin], likeness: object) -> bool:
        origin, row = chosen
        if (origin, row.id) in self._rows or row.origin in self._devices_rows:
            return True
        first = self._first.get(likeness)
        if first is None or (content := content_key(row)) is None:
            return False
        copies = [first] if content_key(first.row) == content else []
        return any(
            copy.origin is not origin or copy.row.project == row.project
            for copy in (*copies, *self._others.get(content, ()))
        )

    def add(self, chosen: Chosen[Origin], likeness: object) -> None:
        origin, row = chosen
        self.count += 1
        self._rows.add((origin, row.id))
        if row.origin is not None:
            self._devices_rows.add(row.origin)
        if self._first.setdefault(likeness, chosen) is not chosen:
            self._others.setdefault(content_key(row), []).append(chosen)


def _likeness(row: Row) -> object:
    """Equal for rows of equal content, and cheap: time, first text, length of the longest."""
    _, first, _, narrative, *_ = row.cells
    return row.epoch, first, len(narrative) if isinstance(narrative, str) else narrative
