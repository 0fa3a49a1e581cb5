"""Many sorted lists into one without duplicates, newest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.rows import Row, content_key

Origin = TypeVar("Origin")

BATCH: Final = 500
"""Rows between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Chosen(Generic[Origin]):
    """A row that made it into the list, and the store it came from."""

    origin: Origin
    row: Row


@dataclass(frozen=True, slots=True)
class Merged(Generic[Origin]):
    """cut: time was over before the limit was reached; these are the newest rows all the same."""

    rows: tuple[Chosen[Origin], ...]
    duplicates: int
    cut: bool = False


def merge(
    lists: Iterable[tuple[Origin, Iterable[Candidate]]],
    limit: int,
    read: Callable[[Origin, list[Candidate]], dict[int, Row]],
    keep: Callable[[Chosen[Origin]], bool],
    late: Callable[[], bool] = lambda: False,
) -> Merged[Origin]:
    """The newest `limit` distinct rows of all lists, each of which is in the order of the answer:
    time, project, id, all descending; rows without a time last.

    Duplicates go before the limit: the same row reached twice, one row of another device in two
    stores, equal content at an equal time. An equal id in two stores alone is no duplicate. `read`
    gets whole rows, few more than the limit asks for. `keep` may drop a row, too. `late`
    is asked between two batches whether there is no time for another.
    """
    flows = [_labelled(origin, candidates) for origin, candidates in lists]
    ordered = heapq.merge(*flows, key=lambda pair: pair[1].rank, reverse=True)
    chosen: list[Chosen[Origin]] = []
    seen = _Seen[Origin]()
    duplicates = 0
    least = 1
    while len(chosen) < limit:
        size = min(BATCH, max(limit - len(chosen), least))
        before = len(chosen)
        batch = list(islice(ordered, size))
        for one in _read(batch, read):
            if len(chosen) == limit:
                break
            if seen.again(one):
                duplicates += 1
            elif keep(one):
                chosen.append(one)
        if len(batch) < size:
            break
        # Doubled while nothing is found: a long run of dropped rows takes few reads.
        least = 2 * size if len(chosen) == before else 1
        if len(chosen) < limit and late():
            return Merged(tuple(chosen), duplicates, cut=True)
    return Merged(tuple(chosen), duplicates)


def _labelled(
    origin: Origin, candidates: Iterable[Candidate]
) -> Iterator[tuple[Origin, Candidate]]:
    for candidate in candidates:
        yield origin, candidate


def _read(
    batch: list[tuple[Origin, Candidate]],
    read: Callable[[Origin, list[Candidate]], dict[int, Row]],
) -> Iterator[Chosen[Origin]]:
    """The rows of a batch in its order; one question a store."""
    wanted: dict[Origin, list[Candidate]] = {}
    for origin, candidate in batch:
        wanted.setdefault(origin, []).append(candidate)
    rows = {origin: read(origin, candidates) for origin, candidates in wanted.items()}
    for origin, candidate in batch:
        row = rows[origin].get(candidate.id)
        if row is not None:
            yield Chosen(origin, row)


class _Seen(Generic[Origin]):
    """Remembers rows by all that tells a copy."""

    def __init__(self) -> None:
        self._marks: set[object] = set()
        self._contents: dict[object, list[tuple[Origin, str]]] = {}

    def again(self, one: Chosen[Origin]) -> bool:
        """Whether a row like this one was here before. Equal content at an equal time is a copy in
        another store, and in one store when it is the same project's: claude-mem writes an event
        twice under one project, never under two."""
        row = one.row
        marks: list[object] = [(one.origin, row.id)]
        if row.origin is not None:
            marks.append(("device", *row.origin))
        content = content_key(row)
        twins = self._contents.setdefault(content, []) if content is not None else []
        known = not self._marks.isdisjoint(marks) or any(
            origin is not one.origin or project == row.project for origin, project in twins
        )
        if not known:
            self._marks.update(marks)
            twins.append((one.origin, row.project))
        return known
