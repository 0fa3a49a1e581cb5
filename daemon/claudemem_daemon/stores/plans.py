"""The five plans of `sql`, carried out on one open store: a list, newest first, of which only the
beginning is worked out. The order is the answer's: time, project, id, all descending, rows without a
time last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores import sql
from claudemem_daemon.stores.failures import DAMAGED, by_halves, until_damage
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.rows import Cell, epoch_ms, row_id, text
from claudemem_daemon.stores.sql import Column, Plan, Statement, Table, Wanted

FEW: Final = 400
"""So few rows are always read through the project index."""
MAX_WALKS: Final = 12
"""The walk goes down each project by itself; more projects than these are read in one pass."""
ENTRY_SHARE: Final = 100
"""So many entries of an index are passed in the time that one row by the project plan takes."""
TIME_SHARE: Final = 10
"""So many ids of the project index are collected in the time that one row by the time plan takes."""
MIN_STEP: Final = 16
"""Rows of each project that one step of the walk goes down at least."""
AT_ONCE: Final = 1_000
"""Rows that are found before the first is given, however many are wanted, so that the newest are read
before the time is over. Those after them are found when they are asked for."""
RECENT_ROWS: Final = 5_000
MAX_OUT_OF_ORDER: Final = 2_000
"""Rows inserted late with an early id; a store with more of them gets another plan."""

Cells = tuple[Cell, ...]
TIME_BUDGET: Final = 40
"""Calls of the guard (each `STEPS` machine steps; some 6,000 rows in all) that the time plan may take
to fill the limit, before it is given up: the projects' rows are all old."""
LEARNT_ROWS: Final = 400
"""A plan is chosen anew after about so many rows more."""
MAX_LEARNT: Final = 128
BOTH_BUDGET: Final = 600
"""The same for both indexes: some 100,000 entries in all."""


class OutOfBudget(Exception):
    """A statement took more steps than it was given; the store is fine."""


Ask = Callable[[Statement, int | None], Generator[Cells, None, None]]
"""Runs a statement, for so many calls of the guard at most; rows come as SQLite finds them. Raises
`StoreError` and `OutOfBudget`."""

Learnt = dict[tuple[object, ...], Plan]
"""Plans that served: choosing one reads an entry of each project, and ids that say nothing about
times are found out by trying. Which plan is used never changes the rows."""


class Candidate(NamedTuple):
    """A row before it is read: sorts as the answer does, oldest first."""

    at: float
    """Milliseconds since 1970; those of a row without a usable time are -inf."""
    project: str
    id: int

    @property
    def epoch(self) -> int | None:
        return None if self.at == -math.inf else int(self.at)


def candidate(identity: int, epoch: int | None, project: str) -> Candidate:
    return Candidate(-math.inf if epoch is None else epoch, project, identity)


@dataclass(slots=True)
class Search:
    """One list of candidates: what is wanted, and what was found and given so far."""

    table: Table
    wanted: Wanted
    asked: int
    """How many rows the whole answer may have."""
    found: dict[int, Candidate] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)

    @property
    def limit(self) -> int:
        """How many are found before the first is given."""
        return min(self.asked, AT_ONCE)

    def fresh(self, since: int | None = None) -> Iterator[Candidate]:
        """Those found, at least as new as `since`, that were not given yet, in order; they are from
        now on."""
        for row in sorted(self.found.values(), reverse=True):
            if row.id not in self.given and (since is None or row.at >= since):
                self.given.add(row.id)
                yield row


class Plans:
    """Chooses a plan by looking, and carries it out."""

    def __init__(self, schema: Schema, ask: Ask, learnt: Learnt) -> None:
        self._schema = schema
        self._ask = ask
        self._learnt = learnt
        self.unusable: set[Cells] = set()
        """Rows whose id is no whole number, by which they could be read."""
        self.damage: StoreError | None = None
        """Why rows were not found as planned."""

    def choose(self, table: Table, wanted: Wanted, limit: int) -> Plan:
        """With n rows of N in these projects the project plan reads n rows; the walk reads the
        limit's and passes limit * N / n entries of the time index, each a hundredth of a row's
        cost; so does the plan of both indexes, which collects n ids before; the time plan reads
        limit * N / n rows."""
        if not wanted.branches or table in self._schema.loose_ids:
            return "project"
        total = self._number(sql.highest_id(table))
        if wanted.above is not None and total - wanted.above <= RECENT_ROWS:
            return "recent"
        plan = self._learnt.get(_learnt_of(table, wanted, limit, total))
        if plan is None or (plan in ("time", "both") and not self._uniform(table)):
            plan = self._cheapest(table, wanted, limit, total)
            self._learn(table, wanted, limit, plan)
        return plan

    def _learn(self, table: Table, wanted: Wanted, limit: int, plan: Plan) -> None:
        if len(self._learnt) >= MAX_LEARNT:
            self._learnt.clear()
        total = self._number(sql.highest_id(table))
        self._learnt[_learnt_of(table, wanted, limit, total)] = plan

    def _cheapest(self, table: Table, wanted: Wanted, limit: int, total: int) -> Plan:
        if self._schema.index_on(table, "created_at_epoch") is None:
            return "project"
        many = sum(len(names) for _, names in wanted.branches) > MAX_WALKS
        product = max(1, limit) * max(1, total)
        few = max(FEW, math.isqrt(product // ENTRY_SHARE))
        most = max(FEW, math.isqrt(product * TIME_SHARE)) if many else few
        if not sql.has_indexes(self._schema, table, wanted):
            return "time" if self._uniform(table) else "project"
        rows = self._number(sql.how_many(self._schema, table, wanted, most))
        if rows < few:
            return "project"
        if not many:
            return "walk"
        if not self._uniform(table):
            return "project"
        return "both" if rows < most else "time"

    def statements(self, table: Table, wanted: Wanted, limit: int) -> tuple[Statement, ...]:
        """The statements that the chosen plan starts with, for explain."""
        plan = self.choose(table, wanted, limit)
        if plan == "recent":
            return (sql.recent_rows(self._schema, table, wanted),)
        if plan == "walk":
            return tuple(
                sql.newest_by_id(self._schema, table, wanted, (column, name), limit)
                for column, names in wanted.branches
                for name in names
            )
        timed = self._timed_statement(table, wanted, plan)
        return (timed,) if timed is not None else sql.all_rows(self._schema, table, wanted)

    def candidates(
        self, table: Table, wanted: Wanted, limit: int
    ) -> Generator[Candidate, None, None]:
        """All matching rows in order, worked out about `limit` at a time, or `AT_ONCE`. What was
        found comes before an error; of a damaged page so do all rows that can be read."""
        search = Search(table, wanted, limit)
        try:
            plan = self.choose(table, wanted, limit)
            if plan == "recent":
                yield from _in_order(self._ask(sql.recent_rows(self._schema, table, wanted), None))
            elif plan == "walk":
                yield from self._walk(search)
            elif plan in ("time", "both"):
                yield from self._by_time(search, (plan,))
            else:
                yield from self._all(search)
        except StoreError as error:
            if error.reason in DAMAGED:
                self.damage = error
                salvaged = _in_order(self._salvaged(table, wanted))
                yield from (row for row in salvaged if row.id not in search.given)
            else:
                yield from search.fresh()
            raise

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> Iterator[Candidate]:
        """Those of `ids` that match, in order."""
        return _in_order(self._usable(table, sql.matching(self._schema, table, wanted, ids)))

    def _all(self, search: Search) -> Iterator[Candidate]:
        statements = sql.all_rows(self._schema, search.table, search.wanted)
        rows = _in_order(chain.from_iterable(self._usable(search.table, s) for s in statements))
        return (row for row in rows if row.id not in search.given)

    def _salvaged(self, table: Table, wanted: Wanted) -> Iterator[Cells]:
        """All matching rows to which the projects' indexes lead, or the table from either end."""
        damage: list[StoreError] = []
        ids: list[int] = []
        indexed = sql.has_indexes(self._schema, table, wanted)
        if indexed:
            rows = until_damage(self._ask(sql.ids_of(self._schema, table, wanted), None), damage)
            ids += filter(None, (row_id(row[0]) for row in rows))
        if damage or not indexed:
            for statement in sql.without_indexes(self._schema, table, wanted):
                yield from until_damage(self._usable(table, statement), damage)
        ids.sort(reverse=True)

        def read(some: Sequence[int]) -> Iterator[Cells]:
            return self._usable(table, sql.matching(self._schema, table, wanted, some))

        for start in range(0, len(ids), AT_ONCE):
            yield from by_halves(ids[start : start + AT_ONCE], read, damage)

    def _usable(self, table: Table, statement: Statement) -> Iterator[Cells]:
        """Rows without those whose id is no whole number."""
        if table not in self._schema.loose_ids:
            yield from self._ask(statement, None)
            return
        for row in self._ask(statement, None):
            number = row_id(row[0])
            if number is None:
                self.unusable.add(row)
            else:
                yield (number, *row[1:])

    def _walk(self, search: Search) -> Iterator[Candidate]:
        """Rows with the highest ids are the newest, but for those that were inserted late: copied
        from another device, or imported. The time index tells whether there are any."""
        table, wanted, found = search.table, search.wanted, search.found
        down_to: dict[tuple[Column, str], int | None] = {
            (column, name): None for column, names in wanted.branches for name in names
        }
        """Branches that have more rows -> the lowest id that was reached."""
        step = target = max(MIN_STEP, search.limit)
        while True:
            for branch, below in tuple(down_to.items()):
                statement = sql.newest_by_id(self._schema, table, wanted, branch, step, below)
                ids = self._take(statement, found)
                if len(ids) == step:
                    down_to[branch] = min(ids)
                else:
                    del down_to[branch]
            if not down_to:
                yield from search.fresh()
                return
            newest = sorted(found.values(), reverse=True)
            since = newest[min(target, len(newest)) - 1].epoch
            lowest = max(reached or 0 for reached in down_to.values())
            if since is None or not self._late(search, since, lowest):
                yield from self._disordered(search)
                return
            # Only what is at least as new as `since` is known to be complete.
            yield from search.fresh(since)
            step = min(2 * step, max(AT_ONCE, search.asked - target))
            target += step

    def _late(self, search: Search, since: int, below: int) -> bool:
        """Find the matching rows of smaller ids that are that new. False when there are too many to
        tell."""
        table, wanted = search.table, search.wanted
        statement = sql.out_of_order(
            self._schema, table, since, below, wanted.above, MAX_OUT_OF_ORDER
        )
        ids = [int(row[0] or 0) for row in self._ask(statement, None)]
        if len(ids) >= MAX_OUT_OF_ORDER:
            return False
        if ids:
            self._take(sql.matching(self._schema, table, wanted, ids), search.found)
        return True

    def _disordered(self, search: Search) -> Iterator[Candidate]:
        """All matching rows where ids say nothing about times."""
        if self._uniform(search.table):
            return self._by_time(search, ("time", "both"), learn=True)
        return self._all(search)

    def _by_time(
        self, search: Search, tries: Sequence[Plan], *, learn: bool = False
    ) -> Iterator[Candidate]:
        """The first of these plans that gives as many as the limit inside its budget, and what
        follows; the project plan where none does."""
        for plan in tries:
            statement = self._timed_statement(search.table, search.wanted, plan)
            if statement is None:
                continue
            budget = TIME_BUDGET if plan == "time" else BOTH_BUDGET
            try:
                ended = self._begin_by_time(search, statement, budget)
            except OutOfBudget:
                continue
            if learn:
                self._learn(search.table, search.wanted, search.asked, plan)
            yield from search.fresh()
            if not ended and plan == "time":
                yield from self._on_by_time(search, statement)
            elif not ended:
                break  # The rest is few rows, far apart in time.
            untimed = sql.untimed_rows(self._schema, search.table, search.wanted)
            yield from _in_order(chain.from_iterable(self._ask(part, None) for part in untimed))
            return
        yield from self._all(search)

    def _timed_statement(self, table: Table, wanted: Wanted, plan: Plan) -> Statement | None:
        if plan == "time":
            return sql.newest_by_time(self._schema, table, wanted)
        both = plan == "both" and sql.has_indexes(self._schema, table, wanted)
        return sql.newest_by_both(self._schema, table, wanted) if both else None

    def _begin_by_time(self, search: Search, statement: Statement, budget: int) -> bool:
        """Find the first rows: the limit's, and all of the last one's time. Whether there are no
        more with a time."""
        search.found.clear()
        at: float | None = None
        with closing(self._ask(statement, budget)) as flow:
            for row in flow:
                found = _candidate(row)
                if len(search.found) >= search.limit and found.at != at:
                    return False
                at = found.at
                search.found[found.id] = found
        return True

    def _on_by_time(self, search: Search, statement: Statement) -> Iterator[Candidate]:
        """The rest of the time plan, rows of equal times put in order."""
        search.found.clear()
        at: float | None = None
        for row in self._ask(statement, None):
            found = _candidate(row)
            if found.at != at:
                yield from search.fresh()
                search.found.clear()
            at = found.at
            search.found[found.id] = found
        yield from search.fresh()

    def _take(self, statement: Statement, found: dict[int, Candidate]) -> list[int]:
        """Add to `found` as rows come: time may be over in between."""
        ids: list[int] = []
        for row in map(_candidate, self._ask(statement, None)):
            found[row.id] = row
            ids.append(row.id)
        return ids

    def _uniform(self, table: Table) -> bool:
        """Whether the time index has the order of the answer: the smallest and the greatest time
        are of one unit, so all between them are, and none is text."""
        statement = sql.ends(self._schema, table)
        if statement is None:
            return False
        ((first, last),) = self._ask(statement, None)
        units = {
            next((n for n, high in enumerate((1e11, 1e14, 1e17)) if end < high), None)
            for end in (first, last)
            if isinstance(end, int | float)
        }
        return len(units) <= 1

    def _number(self, statement: Statement) -> int:
        for row in self._ask(statement, None):
            return row[0] if isinstance(row[0], int) else 0
        return 0


def _learnt_of(table: Table, wanted: Wanted, limit: int, total: int) -> tuple[object, ...]:
    return table, wanted.projects, wanted.merged, limit, total // LEARNT_ROWS


def _in_order(rows: Iterable[Cells]) -> Iterator[Candidate]:
    """All of them, each once: a row can be reached by its project and by where it was merged.
    When time is over, what was found comes before the error."""
    found: set[Candidate] = set()
    error: StoreError | None = None
    try:
        found.update(map(_candidate, rows))
    except StoreError as failure:
        if failure.reason in DAMAGED:
            raise
        error = failure
    yield from sorted(found, reverse=True)
    if error is not None:
        raise error


def _candidate(row: Cells) -> Candidate:
    identity, written, created_at, project = row
    epoch = epoch_ms(written, created_at)
    return Candidate(-math.inf if epoch is None else epoch, text(project), int(identity or 0))
