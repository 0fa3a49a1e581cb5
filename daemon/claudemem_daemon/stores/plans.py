"""The four plans of `sql`, carried out on one open store: a list, newest first, of which only the
beginning is worked out. The order is the answer's: time, project, id, all descending, rows without a
time last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores import sql
from claudemem_daemon.stores.connection import STEPS
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
MAX_NEWS: Final = 5_000
"""So few rows above an id are always read through the project index."""
MAX_OUT_OF_ORDER: Final = 2_000
"""Rows inserted late with an early id; a store with more of them gets another plan."""

TIME_BUDGET: Final = 40
"""Calls of the guard (each `STEPS` machine steps; some 6,000 rows in all) that the time plan may take
to fill the limit, before it is given up: the projects' rows are all old."""
BOTH_BUDGET: Final = 600
"""The same for both indexes: some 100,000 entries in all."""
STEPS_A_NAME: Final = 5
"""Machine steps in which SQLite puts the name of one project into a table, before it reads a row."""
LEARNT_ROWS: Final = 400
"""A plan is chosen anew after about so many rows more."""
MAX_LEARNT: Final = 128

Cells = tuple[Cell, ...]


class OutOfBudget(Exception):
    """A statement took more steps than it was given; the store is fine."""


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
class Reading:
    """One open store, and what is known of it after some searches."""

    schema: Schema
    ask: Callable[[Statement, int | None], Generator[Cells, None, None]]
    """Runs a statement, for so many calls of the guard at most; rows come as SQLite finds them.
    Raises `StoreError` and `OutOfBudget`."""
    learnt: dict[tuple[object, ...], Plan]
    """Plans that served: choosing one reads an entry of each project, and ids that say nothing about
    times are found out by trying. Which plan is used never changes the rows."""
    unusable: set[Cells] = field(default_factory=set)
    """Rows whose id is no whole number, by which they could be read."""
    damage: StoreError | None = None
    """Why rows were not found as planned."""


class Search:
    """One list of rows; can be taken once."""

    def __init__(self, reading: Reading, table: Table, wanted: Wanted, limit: int = 0) -> None:
        """limit: how many rows the whole answer may have."""
        self._reading = reading
        self._schema = reading.schema
        self._table = table
        self._wanted = wanted
        self._limit = limit
        self._first = min(limit, AT_ONCE)
        """How many are found before the first is given."""
        self._found: set[Candidate] = set()
        """A row can be reached by its project and by where it was merged."""
        self._given: set[Candidate] = set()

    def plan(self) -> Plan:
        """With n rows of N in these projects the project plan reads n rows; the walk reads the
        limit's and passes limit * N / n entries of the time index, each a hundredth of a row's
        cost; so does the plan of both indexes, which collects n ids before; the time plan reads
        limit * N / n rows."""
        if not self._wanted.branches or self._table in self._schema.loose_ids:
            return "project"
        total = self._number(sql.highest_id(self._table))
        if self._wanted.above is not None and total - self._wanted.above <= MAX_NEWS:
            return "project"
        plan = self._reading.learnt.get(self._learnt_by(total))
        if plan is None or (plan in ("time", "both") and not self._uniform()):
            plan = self._cheapest(total)
            self._learn(plan, total)
        return plan

    def _learnt_by(self, total: int) -> tuple[object, ...]:
        wanted, anew = self._wanted, total // LEARNT_ROWS
        return self._table, wanted.projects, wanted.merged, self._limit, anew

    def _learn(self, plan: Plan, total: int) -> None:
        if len(self._reading.learnt) >= MAX_LEARNT:
            self._reading.learnt.clear()
        self._reading.learnt[self._learnt_by(total)] = plan

    def _cheapest(self, total: int) -> Plan:
        if self._schema.index_on(self._table, "created_at_epoch") is None:
            return "project"
        many = sum(len(names) for _, names in self._wanted.branches) > MAX_WALKS
        product = max(1, self._limit) * max(1, total)
        few = max(FEW, math.isqrt(product // ENTRY_SHARE))
        most = max(FEW, math.isqrt(product * TIME_SHARE)) if many else few
        if not self._has_indexes:
            return "time" if self._uniform() else "project"
        rows = self._number(sql.how_many(self._schema, self._table, self._wanted, most))
        if rows < few:
            return "project"
        if not many:
            return "walk"
        if not self._uniform():
            return "project"
        return "both" if rows < most else "time"

    @property
    def _has_indexes(self) -> bool:
        return sql.has_indexes(self._schema, self._table, self._wanted)

    def statements(self, plan: Plan) -> tuple[Statement, ...]:
        """Those that the plan starts with."""
        of = self._schema, self._table, self._wanted
        if plan == "walk":
            return tuple(
                sql.newest_by_id(*of, (column, name), self._limit)
                for column, names in self._wanted.branches
                for name in names
            )
        if plan == "time":
            return (sql.newest_by_time(*of),)
        return (sql.newest_by_both(*of),) if plan == "both" else sql.all_rows(*of)

    def candidates(self) -> Generator[Candidate, None, None]:
        """All matching rows in order, worked out about `limit` at a time, or `AT_ONCE`. What was
        found comes before an error; of a damaged page so do all rows that can be read."""
        try:
            plan = self.plan()
            if plan == "walk":
                yield from self._walk()
            elif plan in ("time", "both"):
                yield from self._by_time(plan)
            else:
                yield from self._all(self.statements(plan))
        except StoreError as error:
            if error.reason in DAMAGED:
                self._reading.damage = error
                yield from self._salvaged()
            else:
                yield from self._give(self._found)
            raise

    def among(self, ids: Sequence[int]) -> Iterator[Candidate]:
        """Those of `ids` that match, in order. What was found comes before an error."""
        try:
            self._found.update(self._matching_rows(self._schema, ids))
        finally:
            yield from self._give(self._found)

    def _matching_rows(self, schema: Schema, ids: Sequence[int]) -> Iterator[Candidate]:
        return self._rows(sql.matching(schema, self._table, self._wanted, ids))

    def _all(self, statements: Iterable[Statement]) -> Iterator[Candidate]:
        for statement in statements:
            self._found.update(self._rows(statement))
        yield from self._give(self._found)

    def _salvaged(self) -> Iterator[Candidate]:
        """All matching rows to which the projects' indexes lead, or the table from either end."""
        damage: list[StoreError] = []
        ids: list[int] = []
        of = self._schema, self._table, self._wanted
        try:
            if self._has_indexes:
                found = until_damage(self._reading.ask(sql.ids_of(*of), None), damage)
                ids += filter(None, (row_id(row[0]) for row in found))
            if damage or not self._has_indexes:
                for statement in sql.without_indexes(*of):
                    self._found.update(until_damage(self._rows(statement), damage))
            ids.sort(reverse=True)
            for start in range(0, len(ids), AT_ONCE):
                some = ids[start : start + AT_ONCE]
                self._found.update(by_halves(some, self._schema, self._matching_rows, damage))
        finally:
            yield from self._give(self._found)

    def _walk(self) -> Iterator[Candidate]:
        """Rows with the highest ids are the newest, but for those that were inserted late: copied
        from another device, or imported. The time index tells whether there are any."""
        down_to: dict[tuple[Column, str], int | None] = {
            (column, name): None for column, names in self._wanted.branches for name in names
        }
        """Branches that have more rows -> the lowest id that was reached."""
        of = self._schema, self._table, self._wanted
        step = target = max(MIN_STEP, self._first)
        while True:
            for branch, below in tuple(down_to.items()):
                lowest = rows = 0
                for row in self._rows(sql.newest_by_id(*of, branch, step, below)):
                    self._found.add(row)
                    lowest, rows = row.id, rows + 1
                if rows == step:
                    down_to[branch] = lowest
                else:
                    del down_to[branch]
            if not down_to:
                yield from self._give(self._found)
                return
            newest = sorted(self._found, reverse=True)
            since = newest[min(target, len(newest)) - 1].epoch
            complete = max(reached or 0 for reached in down_to.values())
            if since is None or not self._late(since, complete):
                # Ids say nothing about times.
                tries: tuple[Plan, ...] = ("time", "both") if self._uniform() else ()
                yield from self._by_time(*tries, learn=True)
                return
            # Only what is at least as new as `since` is known to be complete.
            yield from self._give(row for row in self._found if row.at >= since)
            step = min(2 * step, max(AT_ONCE, self._limit - target))
            target += step

    def _late(self, since: int, below: int) -> bool:
        """Find the matching rows of smaller ids that are that new. False when there are too many to
        tell."""
        above = self._wanted.above
        late = sql.out_of_order(self._schema, self._table, since, below, above, MAX_OUT_OF_ORDER)
        ids = [int(row[0] or 0) for row in self._reading.ask(late, None)]
        if ids and len(ids) < MAX_OUT_OF_ORDER:
            self._found.update(self._matching_rows(self._schema, ids))
        return len(ids) < MAX_OUT_OF_ORDER

    def _by_time(self, *tries: Plan, learn: bool = False) -> Iterator[Candidate]:
        """The first of these plans that gives as many as the limit inside its budget, and what
        follows; the project plan where none does."""
        for plan in tries:
            if plan == "both" and not self._has_indexes:
                continue
            (statement,) = self.statements(plan)
            budget = TIME_BUDGET if plan == "time" else BOTH_BUDGET
            names = sum(len(names) for _, names in self._wanted.branches)
            try:
                ended = self._begin_by_time(statement, budget + names * STEPS_A_NAME // STEPS)
            except OutOfBudget:
                continue
            if learn:
                self._learn(plan, self._number(sql.highest_id(self._table)))
            yield from self._give(self._found)
            if not ended and plan == "both":
                break  # The rest is few rows, far apart in time.
            if not ended:
                for _ in self._by_each_time(statement, None):
                    yield from self._give(self._found)
                    self._found.clear()
                yield from self._give(self._found)
            of = self._schema, self._table, self._wanted
            yield from self._all(sql.all_rows(*of, sql.UNTIMED))
            return
        yield from self._all(self.statements("project"))

    def _begin_by_time(self, statement: Statement, budget: int) -> bool:
        """Find the first rows: the limit's, and all of the last one's time. Whether there are no
        more with a time."""
        self._found.clear()
        with closing(self._by_each_time(statement, budget)) as times:
            return all(len(self._found) < self._first for _ in times)

    def _by_each_time(
        self, statement: Statement, budget: int | None
    ) -> Generator[None, None, None]:
        """Find rows, newest first; stops whenever all of one time are found and others follow."""
        at: float | None = None
        with closing(self._reading.ask(statement, budget)) as rows:
            for row in map(_candidate, rows):
                if at is not None and row.at != at:
                    yield
                at = row.at
                self._found.add(row)

    def _give(self, rows: Iterable[Candidate]) -> Iterator[Candidate]:
        """Those that were not given yet, in order."""
        fresh = set(rows) - self._given
        self._given |= fresh
        yield from sorted(fresh, reverse=True)

    def _rows(self, statement: Statement) -> Iterator[Candidate]:
        """As they come: time may be over in between."""
        rows: Iterable[Cells] = self._reading.ask(statement, None)
        if self._table in self._schema.loose_ids:
            rows = self._usable(rows)
        return map(_candidate, rows)

    def _usable(self, rows: Iterable[Cells]) -> Iterator[Cells]:
        """Without those whose id is no whole number."""
        for row in rows:
            number = row_id(row[0])
            if number is None:
                self._reading.unusable.add(row)
            else:
                yield (number, *row[1:])

    def _uniform(self) -> bool:
        """Whether the time index has the order of the answer: the smallest and the greatest time
        are of one unit, so all between them are, and none is text."""
        statement = sql.ends(self._schema, self._table)
        if statement is None:
            return False
        ((first, last),) = self._reading.ask(statement, None)
        units = {
            next((n for n, high in enumerate((1e11, 1e14, 1e17)) if end < high), None)
            for end in (first, last)
            if isinstance(end, int | float)
        }
        return len(units) <= 1

    def _number(self, statement: Statement) -> int:
        ((number,),) = self._reading.ask(statement, None)
        return number if isinstance(number, int) else 0


def _candidate(row: Cells) -> Candidate:
    identity, written, created_at, project = row
    epoch = epoch_ms(written, created_at)
    return Candidate(-math.inf if epoch is None else epoch, text(project), int(identity or 0))
