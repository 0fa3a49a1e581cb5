"""Many sorted lists into one without duplicates, newest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, Generic, Literal, TypeVar

from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.rows import Row, content_key

Origin = TypeVar("Origin")

BATCH: Final = 500
"""Rows between two looks at the clock."""


Content = tuple[object, ...]
Ending = Literal["included", "duplicate", "dropped"]


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
    """The newest `limit` distinct rows of all lists, as `endings` tells them."""
    rows: list[Chosen[Origin]] = []
    duplicates = 0
    cut = False

    def out_of_time() -> bool:
        nonlocal cut
        cut = late()
        return cut

    for row, ending in endings(lists, limit, read, keep, out_of_time):
        duplicates += ending == "duplicate"
        if ending == "included":
            rows.append(row)
    return Merged(tuple(rows), duplicates, cut)


def endings(
    lists: Iterable[tuple[Origin, Iterable[Candidate]]],
    limit: int,
    read: Callable[[Origin, list[Candidate]], dict[int, Row]],
    keep: Callable[[Chosen[Origin]], bool],
    late: Callable[[], bool],
) -> Iterator[tuple[Chosen[Origin], Ending]]:
    """The rows of all lists, each of which is in the order of the answer (time, project, id, all
    descending; rows without a time last), with what became of each, up to the `limit`th that
    is included.

    Duplicates go before the limit: the same row reached twice, one row of another device in two
    stores, equal content at an equal time. An equal id in two stores alone is no duplicate, nor is a
    row like one that `keep` dropped. `read` gets whole rows, few more than the limit asks for. `late`
    is asked between two batches whether there is no time for another.
    """
    flows = [_labelled(origin, candidates) for origin, candidates in lists]
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
            content = content_key(chosen.row)
            if included.has_copy_of(chosen, content):
                yield chosen, "duplicate"
            elif keep(chosen):
                included.add(chosen, content)
                yield chosen, "included"
            else:
                yield chosen, "dropped"
        if len(batch) < size:
            return
        # Doubled while nothing is found: a long run of dropped rows takes few reads.
        least = 2 * size if included.count == before else 1
        if included.count < limit and late():
            return


def _labelled(
    origin: Origin, candidates: Iterable[Candidate]
) -> Iterator[tuple[Origin, Candidate]]:
    for candidate in candidates:
        yield origin, candidate


def _read(
    batch: list[tuple[Origin, Candidate]], read: Callable[[Origin, list[Candidate]], dict[int, Row]]
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


class _Included(Generic[Origin]):
    """The rows in the list, by all that tells a copy of them. Equal content at an equal time is a copy
    in another store, and in one store when it is the same project's: claude-mem writes an event
    twice under one project, never under two."""

    def __init__(self) -> None:
        self.count = 0
        self._marks: set[object] = set()
        self._contents: dict[object, list[tuple[Content, Origin, str]]] = {}
        """By what is cheaper to hash than a narrative."""

    def has_copy_of(self, chosen: Chosen[Origin], content: Content | None) -> bool:
        return not self._marks.isdisjoint(_marks(chosen)) or any(
            (origin is not chosen.origin or project == chosen.row.project) and known == content
            for known, origin, project in self._contents.get(_short(content), ())
        )

    def add(self, chosen: Chosen[Origin], content: Content | None) -> None:
        self.count += 1
        self._marks.update(_marks(chosen))
        if content is not None:
            known = content, chosen.origin, chosen.row.project
            self._contents.setdefault(_short(content), []).append(known)


def _short(content: Content | None) -> object:
    """Equal for equal content: its time, its first text, and how long another one is."""
    if content is None:
        return None
    when, _, first, _, narrative, *_ = content
    return when, first, len(narrative) if isinstance(narrative, str) else narrative


def _marks(chosen: Chosen[Origin]) -> list[object]:
    here = (chosen.origin, chosen.row.id)
    return [here] if chosen.row.origin is None else [here, ("device", *chosen.row.origin)]
