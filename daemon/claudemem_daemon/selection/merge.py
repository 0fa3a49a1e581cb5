"""Many sorted lists into one without duplicates, newest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from claudemem_daemon.stores.reader import Candidate
from claudemem_daemon.stores.rows import Row, content_key

Origin = TypeVar("Origin")


@dataclass(frozen=True, slots=True)
class Chosen(Generic[Origin]):
    """A row that made it into the list, and the store it came from."""

    origin: Origin
    row: Row


@dataclass(frozen=True, slots=True)
class Merged(Generic[Origin]):
    rows: tuple[Chosen[Origin], ...]
    duplicates: int


def merge(
    lists: Iterable[tuple[Origin, Iterable[Candidate]]],
    limit: int,
    read: Callable[[Origin, list[Candidate]], dict[int, Row]],
    keep: Callable[[Chosen[Origin]], bool],
) -> Merged[Origin]:
    """The newest `limit` distinct rows of all lists, each of which is in the order of the answer:
    time, project, id, all descending; rows without a time last.

    Duplicates go before the limit: the same row reached twice, one row of another device in two
    stores, equal content at an equal time. An equal id in two stores alone is no duplicate. `read`
    gets whole rows; only as many as the limit asks for are read. `keep` may drop a row, too.
    """
    flows = [_labelled(origin, candidates) for origin, candidates in lists]
    ordered = heapq.merge(*flows, key=lambda pair: pair[1].rank, reverse=True)
    chosen: list[Chosen[Origin]] = []
    seen: set[object] = set()
    duplicates = 0
    while len(chosen) < limit:
        batch = list(islice(ordered, limit - len(chosen)))
        if not batch:
            break
        for one in _read(batch, read):
            marks = _marks(one)
            if not seen.isdisjoint(marks):
                duplicates += 1
                continue
            seen.update(marks)
            if keep(one):
                chosen.append(one)
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


def _marks(one: Chosen[Origin]) -> tuple[object, ...]:
    marks: list[object] = [(one.origin, one.row.id)]
    if one.row.origin is not None:
        marks.append(("device", *one.row.origin))
    content = content_key(one.row)
    if content is not None:
        marks.append(("content", content))
    return tuple(marks)
