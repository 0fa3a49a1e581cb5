"""Why these rows and not others: where each row ends, the SQL and its plan, one row's fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.accounting import Accounts, Disposition, account
from claudemem_daemon.selection.by_id import Ref
from claudemem_daemon.selection.fate import Fate, Judge
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.selection.select import make_wanted, select
from claudemem_daemon.selection.sources import Source, Sources
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Cell


@dataclass(frozen=True, slots=True)
class ProjectCount:
    """Rows of one project in one store, apart from those that are another repository's: how many are
    left after each filter, and in `reasons` where each row of both ends; `included` is what the
    answer shows."""

    project: str
    store: str
    key: str
    rule: str
    rows: int
    other_repository: int
    """Rows that are another repository's, whose name is the same; in none of the other numbers."""
    after_types: int
    after_concepts: int
    included: int
    reasons: dict[Disposition, int]


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """The query of one store, and how SQLite runs it."""

    store: str
    plan: str
    sql: str
    parameters: tuple[Cell, ...]
    query_plan: tuple[str, ...]
    left_out: dict[str, str]


@dataclass(frozen=True, slots=True)
class Explanation:
    counts: tuple[ProjectCount, ...]
    queries: tuple[StoreQuery, ...]
    fates: tuple[Fate, ...]
    selection: Selection
    accounts: Accounts

    def as_json(self) -> dict[str, Any]:
        """Without the selection, whose shape is the query's."""
        accounts = self.accounts
        return {
            "counts": [asdict(count) for count in self.counts],
            "dropped": {"types": dict(accounts.types), "concepts": dict(accounts.concepts)},
            "others": dict(accounts.others),
            "days": [
                {"day": day, "project": key, "shown": one.shown, "beyond": one.beyond}
                for (day, key), one in sorted(accounts.days.items())
            ],
            "queries": [asdict(query) for query in self.queries],
            "observation": [asdict(fate) for fate in self.fates],
        }


def explain(
    resolved: ResolvedQuestion,
    pool: StorePool,
    deadline: Deadline,
    row: Ref | None = None,
    left_out: Callable[[Selection], int] = lambda _: 0,
) -> Explanation:
    """The same selection, and how it came about. `left_out` tells how many of its rows the context
    cannot hold. Counting stops at the deadline. For an excluded project no store is opened."""
    selection, keys, limit = (
        select(resolved, pool, deadline),
        resolved.keys,
        resolved.settings.limit,
    )
    messages = (warning.message for warning in keys.warnings if warning.code == "excluded")
    excluded = None if keys.keys else next(messages, None)
    if excluded is not None:
        hidden = () if row is None else (Fate(row.number, None, "excluded", excluded, row.text),)
        return Explanation((), (), hidden, selection, Accounts())
    filters = make_wanted(resolved.question, resolved.settings)
    with Sources(resolved, filters, pool, deadline) as sources:
        sources.open()
        accounts = Accounts()
        queries: list[StoreQuery] = []
        try:
            accounts = account(sources, Deadline(deadline.at - deadline.remaining() / 4))
            accounts.cut_to_size(left_out(selection))
            for source in sources.opened:
                queries += _queries(sources, source, limit)
        except StoreError as error:
            sources.failures[error.path] = error
        fates = tuple(Judge(sources, selection, accounts).fates(row)) if row is not None else ()
        # Where the answer needed no store, as with a limit of 0, only these counts know them.
        known = {report.path for report in selection.stores}
        more = (report for report in sources.reports() if report.path not in known)
        selection = replace(selection, stores=(*selection.stores, *more))
        counts = tuple(_counts(sources, accounts))
        return Explanation(counts, tuple(queries), fates, selection, accounts)


def _queries(sources: Sources, source: Source, limit: int) -> list[StoreQuery]:
    store, left_out = source.ref.path, dict(source.admitted.left_out)
    return [
        StoreQuery(store, query.plan, query.text, query.parameters, query.steps, left_out)
        for query in source.reader.queries(sources.wanted(source), limit)
    ]


def _counts(sources: Sources, accounts: Accounts) -> Iterator[ProjectCount]:
    for source in sources.opened:
        admitted, store = source.admitted, source.ref.path
        for name, key in admitted.names.items():
            reasons = {k: n for k, n in accounts.reasons.get((store, name), {}).items() if n}
            others = reasons.get("other_repository", 0)
            rows = sum(reasons.values()) - others
            typed = rows - reasons.get("excluded", 0) - reasons.get("type_filtered", 0)
            lost = reasons.get("concept_filtered", 0) + reasons.get("malformed_concepts", 0)
            if rows or others:
                after = (typed, typed - lost, reasons.get("included", 0))
                yield ProjectCount(name, store, key.key, key.rule, rows, others, *after, reasons)
