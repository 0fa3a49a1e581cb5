"""Why these rows and not others: where each row ends, the SQL and its plan, one row's fate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Any, NamedTuple

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.accounting import Accounts, account
from claudemem_daemon.selection.by_id import Ref
from claudemem_daemon.selection.fate import Fate, Judge
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.selection.select import make_wanted
from claudemem_daemon.selection.sources import Sources
from claudemem_daemon.stores.pool import StorePool

Shape = dict[str, Any]


class Explanation(NamedTuple):
    """`counts` and `queries` have the shapes of `_counts` and `_queries`."""

    selection: Selection
    accounts: Accounts
    counts: tuple[Shape, ...] = ()
    queries: tuple[Shape, ...] = ()
    fates: tuple[Fate, ...] = ()

    def as_json(self) -> Shape:
        """Without the selection."""
        accounts = self.accounts
        return {
            "counts": list(self.counts),
            "dropped": {"types": dict(accounts.types), "concepts": dict(accounts.concepts)},
            "others": dict(accounts.others),
            "days": [
                {"day": day, "project": key, "shown": rows["shown"], "beyond": rows["beyond"]}
                for (day, key), rows in sorted(accounts.days.items())
            ],
            "queries": list(self.queries),
            "observation": [fate._asdict() for fate in self.fates],
        }


def explain(
    resolved: ResolvedQuestion,
    selection: Selection,
    shown: int,
    pool: StorePool,
    deadline: Deadline,
    row: Ref | None = None,
    zone: tzinfo | None = None,
) -> Explanation:
    """How a selection came about; `shown` is the number of its observations in the context, and `zone`
    is that of the days, None for the C library's. Counting stops at the deadline. For an excluded project no store is opened."""
    accounts = Accounts()
    for warning in resolved.keys.warnings:
        if warning.code == "excluded" and not resolved.keys.keys:
            hidden = row and Fate(row.number, None, "excluded", warning.message, row.text)
            return Explanation(selection, accounts, fates=(hidden,) if hidden else ())
    filters = make_wanted(resolved.question, resolved.settings)
    with Sources(resolved, filters, pool, deadline) as sources:
        sources.open()
        queries: list[Shape] = []
        try:
            until = Deadline(deadline.at - deadline.remaining() / 4)
            accounts = account(sources, until, shown, zone)
            queries += _queries(sources)
        except StoreError as error:
            sources.failures[error.path] = error
        fates = Judge(sources, selection, accounts).fates(row) if row is not None else ()
        # Where the answer needed no store, as with a limit of 0, only these counts know them.
        known = {report.path for report in selection.stores}
        more = (report for report in sources.reports() if report.path not in known)
        selection = selection._replace(stores=(*selection.stores, *more))
        counts = tuple(_counts(sources, accounts))
        return Explanation(selection, accounts, counts, tuple(queries), tuple(fates))


def _queries(sources: Sources) -> Iterator[Shape]:
    """The queries of each store, and how the database runs them."""
    for source in sources.opened:
        limit = sources.resolved.settings.limit
        for query in source.reader.queries(sources.wanted(source), limit):
            yield {
                "store": source.ref.path,
                "plan": query.plan,
                "sql": query.text,
                "parameters": query.parameters,
                "query_plan": query.steps,
                "left_out": dict(source.admitted.left_out),
            }


def _counts(sources: Sources, accounts: Accounts) -> Iterator[Shape]:
    """For each project of each store: its rows without those of another repository, how many are left
    after each filter, and in `reasons` where all of them end, those of another repository too."""
    for source in sources.opened:
        store = source.ref.path
        for name, key in source.admitted.names.items():
            reasons = {k: n for k, n in accounts.reasons.get((store, name), {}).items() if n}
            others = reasons.get("other_repository", 0)
            rows = sum(reasons.values()) - others
            typed = rows - reasons.get("excluded", 0) - reasons.get("type_filtered", 0)
            lost = reasons.get("concept_filtered", 0) + reasons.get("malformed_concepts", 0)
            if rows or others:
                yield {
                    "project": name,
                    "store": store,
                    "key": key.key,
                    "rule": key.rule,
                    "rows": rows,
                    "other_repository": others,
                    "after_types": typed,
                    "after_concepts": typed - lost,
                    "included": reasons.get("included", 0),
                    "reasons": reasons,
                }
