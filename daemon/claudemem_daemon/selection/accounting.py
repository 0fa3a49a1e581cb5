"""Where every row of the stores ends: in the answer, or at the first filter that drops it.

The stores count what the filters on single rows drop. What depends on other rows (duplicates, the
limit) is found by the merge of the selection, continued beyond its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final, Literal

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.merge import merge
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
    "unreadable",
    "not_read",
]
"""Where a row ends: at the first filter, in the order of the selection, that drops it. unreadable: its
id is no number, or a value cannot be read. not_read: time was over before it was compared with
others."""

_PASSING: Final = frozenset({"included", "over_limit", "over_size"})
COUNTING: Final = 0.6
"""The share of the time for counting a store by the filters; the rest is for comparing rows."""
PAGE: Final = 500
NO_LIMIT: Final = 1 << 62
"""The limit of a merge of all rows."""


@dataclass(slots=True)
class Accounts:
    """What became of the rows of each (store, project key). `types` and `concepts`: the values that the
    lists do not contain, with the number of rows dropped for them."""

    reasons: dict[tuple[str, str], Counter[Disposition]] = field(default_factory=dict)
    types: Counter[str] = field(default_factory=Counter)
    concepts: Counter[str] = field(default_factory=Counter)
    others: dict[str, int] = field(default_factory=dict)
    """Store -> number of rows whose project is not ours."""
    days: dict[tuple[str, str], Counter[Literal["shown", "beyond"]]] = field(default_factory=dict)
    """(local day, project key) -> rows that passed all filters: those in the context, and those beyond
    the limit or the size."""
    passed: dict[tuple[str, int], Disposition] = field(default_factory=dict)
    """(store, id) -> where it ended, for rows that passed the filters on single rows."""
    full: bool = False
    """Whether the limit was reached."""

    def count(self, store: str, key: str, reason: Disposition, rows: int) -> None:
        if rows:
            self.reasons.setdefault((store, key), Counter())[reason] += rows

    def rank(self, store: str, number: int) -> int | None:
        """A row's place among the distinct rows that pass all filters, 1 for the newest."""
        passing = [row for row, reason in self.passed.items() if reason in _PASSING]
        return passing.index((store, number)) + 1 if (store, number) in passing else None


def reason_of(group: RowGroup, keys: ProjectKeys) -> Disposition | None:
    """The filter on single rows that drops the group; None where it passes all."""
    if group.project in keys.excluded:
        return "excluded"
    if not group.right_type:
        return "type_filtered"
    if not group.right_concept:
        return "concept_filtered" if group.readable else "malformed_concepts"
    return None if group.right_platform else "platform_filtered"


def account(
    sources: Sources, until: Deadline, shown: int = NO_LIMIT, zone: tzinfo | None = None
) -> Accounts:
    """Account for all rows of the open stores, as far as there is time. In a store that could not be
    counted by the filters, only rows of the answer are told from the rest (`not_read`). shown: the
    number of the answer's rows in its context. zone: that of the days; None for the C library's."""
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
    compared = _compare(accounts, sources, until, shown, zone)
    # Rows that were not compared are older than all that were.
    rest: Disposition = "over_limit" if counted and accounts.full else "not_read"
    finished = not (until.passed or sources.cut)
    for (store, key), rows in passing.items():
        reason: Disposition = "unreadable" if finished and store not in sources.failures else rest
        accounts.count(store, key, reason, rows - compared[store, key])
    return accounts


def _count(accounts: Accounts, sources: Sources, source: Source) -> Counter[tuple[str, str]]:
    """Count the rows that the filters on single rows drop; returns the number of those that pass, by
    key. Where it raises `StoreError`, it has counted none."""
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
    """The number of rows by key, whatever the filters: an index has it."""
    found: Counter[tuple[str, str]] = Counter()
    admitted = source.admitted
    with suppress(StoreError):
        for key in admitted.names:
            found[source.ref.path, key] = source.reader.how_many(admitted.wanted(key))
    return found


def _compare(
    accounts: Accounts, sources: Sources, until: Deadline, shown: int, zone: tzinfo | None
) -> Counter[tuple[str, str]]:
    """Merge to the last row and account for each. Returns how many rows of each (store, key) were
    compared."""
    compared: Counter[tuple[str, str]] = Counter()
    limit, excluded = sources.resolved.settings.limit, frozenset(sources.resolved.keys.excluded)
    distinct = 0
    lists = [(source, _candidates(sources, source)) for source in sources.opened if source.admitted]
    read = partial(sources.read, "observations")
    for chosen, ending in merge(lists, NO_LIMIT, read, sources.keeps, lambda: until.passed):
        row, store, key = chosen.row, chosen.origin.ref.path, chosen.origin.key_of(chosen.row)
        if row.project in excluded or (store, row.id) in accounts.passed:
            continue  # counted by the filters on single rows
        reason: Disposition = ending
        if ending == "included":
            distinct += 1
            within: Disposition = "included" if distinct <= shown else "over_size"
            reason = within if distinct <= limit else "over_limit"
            day = accounts.days.setdefault((_day(row.shown_at, zone), key), Counter())
            day["shown" if reason == "included" else "beyond"] += 1
        accounts.count(store, key, reason, 1)
        accounts.passed[store, row.id] = reason
        compared[store, key] += 1
    for _, flow in lists:
        flow.close()
    accounts.full = distinct >= limit
    return compared


def _candidates(sources: Sources, source: Source) -> Generator[Candidate, None, None]:
    """As many as there is time for."""
    with sources.guarded(source):
        yield from source.reader.flow("observations", sources.wanted(source), PAGE)


def _day(epoch: int | None, zone: tzinfo | None) -> str:
    """The local day of a time in milliseconds; empty where there is none."""
    if epoch is None:
        return ""
    try:
        return datetime.fromtimestamp(epoch // 1000, UTC).astimezone(zone).isoformat()[:10]
    except (ValueError, OverflowError, OSError):
        return ""
