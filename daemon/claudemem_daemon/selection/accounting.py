"""Where every row of the stores ends: in the answer, or at the first filter that drops it.

Filters on single rows are counted by the stores themselves. What only shows when rows of all stores
meet (duplicates, other repositories, the limit) is found by the merge of the selection, carried on
beyond its limit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.merge import Ending, endings
from claudemem_daemon.selection.source import Source
from claudemem_daemon.selection.sources import Sources
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.plans import Candidate

Disposition = Literal[
    "included",
    "excluded",
    "not_found",
    "store_unreadable",
    "other_project",
    "type_filtered",
    "malformed_concepts",
    "concept_filtered",
    "platform_filtered",
    "duplicate_of",
    "other_repository",
    "over_limit",
    "over_size",
    "not_read",
]
"""Where a row ends: the first filter, in the order of the selection, that drops it. not_read: time
was over before it could be compared."""

_PASSING: Final = frozenset({"included", "over_limit", "over_size"})
COUNTING: Final = 0.6
"""The share of the time in which a store is counted by its filters; the rest is for comparing the
newest rows."""
PAGE: Final = 500
NO_LIMIT: Final = 1 << 62
"""The limit of a merge that is to see every row."""


@dataclass(slots=True)
class Accounts:
    """What became of the rows of each (store, project key). `types` and `concepts` are the values
    that the lists leave out, with the rows that have them."""

    reasons: dict[tuple[str, str], Counter[Disposition]] = field(default_factory=dict)
    types: Counter[str] = field(default_factory=Counter)
    concepts: Counter[str] = field(default_factory=Counter)
    others: dict[str, int] = field(default_factory=dict)
    """Store -> rows whose project is none of ours."""
    days: dict[tuple[str, str], Counter[Literal["shown", "beyond"]]] = field(default_factory=dict)
    """(local day, project key) -> rows that passed all filters: those in the answer, and those
    beyond the limit or the size."""
    passed: dict[tuple[str, int], Disposition] = field(default_factory=dict)
    """(store, id) -> where it ended, of the rows that passed the filters on single rows."""
    full: bool = False
    """Whether the limit was reached."""

    def count(self, store: str, key: str, reason: Disposition, rows: int) -> None:
        if rows:
            self.reasons.setdefault((store, key), Counter())[reason] += rows

    def rank(self, store: str, number: int) -> int | None:
        """Which of the distinct rows that pass all filters a row is, the newest being 1."""
        passing = [row for row, reason in self.passed.items() if reason in _PASSING]
        return passing.index((store, number)) + 1 if (store, number) in passing else None


def reason_of(group: RowGroup, keys: ProjectKeys) -> Disposition | None:
    """The filter on single rows that drops these; None where they pass all."""
    if group.project in keys.excluded:
        return "excluded"
    if not group.right_type:
        return "type_filtered"
    if not group.right_concept:
        return "concept_filtered" if group.readable else "malformed_concepts"
    return None if group.right_platform else "platform_filtered"


def account(sources: Sources, until: Deadline, shown: int = NO_LIMIT) -> Accounts:
    """Every row of the open stores, as far as there is time; of a store that could not be counted
    by its filters, only the rows in the answer are told from the rest (`not_read`). shown: how many
    of the answer's rows its context has room for."""
    accounts = Accounts()
    passing: Counter[tuple[str, str]] = Counter()
    counted = True
    for source in sources.opened:
        source.reader.extend(Deadline.after(until.remaining() * COUNTING))
        try:
            passing += _count(accounts, sources, source)
        except StoreError as error:
            source.reader.extend(until)
            sources.stopped(source, error)
            counted = False
            passing += _totals(source)
        source.reader.extend(until)
    compared = _compare(accounts, sources, until, shown)
    # What there was no time to compare is older than all that was.
    rest: Disposition = "over_limit" if counted and accounts.full else "not_read"
    for (store, key), rows in passing.items():
        accounts.count(store, key, rest, rows - compared[store, key])
    return accounts


def _count(accounts: Accounts, sources: Sources, source: Source) -> Counter[tuple[str, str]]:
    """Count what the filters on single rows drop; returns the rows that pass them, by key. Counts
    nothing where it raises `StoreError`."""
    passing: Counter[tuple[str, str]] = Counter()
    store, wanted = source.ref.path, sources.wanted(source)
    if not source.admitted:
        accounts.others[store] = source.reader.all_rows()
        return passing
    theirs = sources.ours.others_rows(source.reader, wanted)
    groups = source.reader.groups(wanted, without=theirs)
    reasons = [reason_of(group, sources.resolved.keys) for group in groups]
    concepts = source.reader.lost_concepts(wanted, theirs) if "concept_filtered" in reasons else {}
    ours = sum(group.rows for group in groups) + len(theirs)
    accounts.others[store] = source.reader.all_rows() - ours
    accounts.concepts.update(concepts)
    for group in source.reader.groups(wanted, sorted(theirs)) if theirs else ():
        accounts.count(store, source.key_of(group), "other_repository", group.rows)
    accounts.passed.update(((store, number), "other_repository") for number in theirs)
    for group, reason in zip(groups, reasons, strict=True):
        key = source.key_of(group)
        if reason is None:
            passing[store, key] += group.rows
            continue
        accounts.count(store, key, reason, group.rows)
        if reason == "type_filtered":
            accounts.types[group.type] += group.rows
    return passing


def _totals(source: Source) -> Counter[tuple[str, str]]:
    """Rows by key, whatever the filters, which an index tells at once."""
    found: Counter[tuple[str, str]] = Counter()
    admitted = source.admitted
    with suppress(StoreError):
        for key in admitted.names:
            found[source.ref.path, key] = source.reader.how_many(admitted.wanted(key))
    return found


def _compare(
    accounts: Accounts, sources: Sources, until: Deadline, shown: int
) -> Counter[tuple[str, str]]:
    """The merge of the selection, carried on to the last row, noting where each ends. Returns how
    many rows of each (store, key) were compared."""
    compared: Counter[tuple[str, str]] = Counter()
    limit, excluded = sources.resolved.settings.limit, frozenset(sources.resolved.keys.excluded)
    distinct = 0
    lists = [(source, _candidates(sources, source)) for source in sources.opened if source.admitted]
    read = partial(sources.read, "observations")
    for chosen, ending in endings(lists, NO_LIMIT, read, sources.keeps, lambda: until.passed):
        row, store, key = chosen.row, chosen.origin.ref.path, chosen.origin.key_of(chosen.row)
        if row.project in excluded or (store, row.id) in accounts.passed:
            continue  # counted by the filters on single rows
        reason = _DROPPED.get(ending)
        if reason is None:
            distinct += 1
            within: Disposition = "included" if distinct <= shown else "over_size"
            reason = within if distinct <= limit else "over_limit"
            day = accounts.days.setdefault((_day(row.epoch), key), Counter())
            day["shown" if reason == "included" else "beyond"] += 1
        accounts.count(store, key, reason, 1)
        accounts.passed[store, row.id] = reason
        compared[store, key] += 1
    for _, flow in lists:
        flow.close()
    accounts.full = distinct >= limit
    return compared


_DROPPED: Final[dict[Ending, Disposition]] = {
    "duplicate": "duplicate_of",
    "dropped": "other_repository",
}


def _candidates(sources: Sources, source: Source) -> Generator[Candidate, None, None]:
    """As many as there is time for: what was counted before stays."""
    with sources.guarded(source):
        for page in source.reader.candidates("observations", sources.wanted(source), PAGE):
            yield from page


def _day(epoch: int | None) -> str:
    """The local day of a time in milliseconds; empty where there is none."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(epoch / 1000)) if epoch else ""
    except (ValueError, OverflowError, OSError):
        return ""
