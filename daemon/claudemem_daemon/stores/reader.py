"""One state of one store, asked for rows: the plans of `sql` carried out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.stores import sql
from claudemem_daemon.stores.connection import Connection, translate
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.rows import Row, text
from claudemem_daemon.stores.sql import After, Epochs, Plan, Statement, Table, Wanted

FEW: Final = 400
MANY: Final = 8_000
"""Between these the crossing of the project plan and the time plan is worked out."""

WINDOW_LOOKS: Final = 60
"""Looks at the clock (each STEPS machine steps, a few thousand rows in all) that the time plan may
take before the project plan gets its turn: projects whose rows are all old."""

RECENT_ROWS: Final = 5_000


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A row before it is read: sorts as the answer does, oldest first. `epoch` is in ms."""

    rank: tuple[float, str, int]
    id: int
    epoch: int | None
    project: str


class StoreReader:
    """The reading of one request; valid inside `StorePool.reading` only. Every method raises
    `StoreError` when the store cannot be read any further."""

    def __init__(self, connection: Connection, schema: Schema, data_version: int | None) -> None:
        self._connection = connection
        self.schema = schema
        self.data_version = data_version
        """None where the store cannot be glanced at; then the answer is not kept."""
        self.identity = connection.identity
        self._epochs: dict[Table, Epochs] = {}

    def projects(self, table: Table = "observations") -> tuple[str, ...]:
        """Every project of the table, once."""
        return self._names(table, "project")

    def merged(self, table: Table = "observations") -> tuple[str, ...]:
        """Every project that rows were merged into."""
        if "merged_into_project" not in self._columns(table):
            return ()
        return self._names(table, "merged_into_project")

    def highest_id(self) -> int:
        value = self._rows(sql.highest_id("observations"))[0][0]
        return value if isinstance(value, int) else 0

    def has(self, table: Table) -> bool:
        return bool(self._columns(table))

    def extend(self, deadline: Deadline) -> None:
        """Give the statements to come until `deadline`."""
        self._connection.guard.deadline = deadline

    def candidates(self, table: Table, wanted: Wanted, page: int) -> Iterator[list[Candidate]]:
        """Matching rows in the order of the answer, a page at a time, until there are no more."""
        epochs = self.epochs(table)
        plan = self.plan(table, wanted, page)
        after: After | None = None
        offset = 0
        while True:
            statement = sql.candidates(
                self.schema,
                table,
                wanted,
                plan=plan,
                epochs=epochs,
                limit=page,
                after=after,
                offset=offset,
            )
            rows = self._bounded(statement, plan)
            if rows is None:
                plan = "project"
                continue
            yield [_candidate(row, epochs) for row in rows]
            if len(rows) < page:
                return
            if epochs.scale is None:
                offset += page
            else:
                last = rows[-1]
                after = After(last[1], last[2], last[0])  # type: ignore[arg-type]  # uniform: numbers

    def wide(self, table: Table, chosen: Sequence[Candidate]) -> dict[int, Row]:
        """The rows themselves, by id."""
        found: dict[int, Row] = {}
        epochs = {one.id: one.epoch for one in chosen}
        for cells in self._rows(sql.wide(self.schema, table, [one.id for one in chosen])):
            identity, project, merged, session, platform, device, local, *rest = cells
            number = int(identity)  # type: ignore[arg-type]  # the primary key
            found[number] = Row(
                id=number,
                project=text(project),
                merged=text(merged) if merged is not None else None,
                epoch=epochs[number],
                session=text(session),
                platform=text(platform) if platform is not None else None,
                origin=(text(device), text(local)) if device is not None else None,
                cells=tuple(rest),
            )
        return found

    def plan(self, table: Table, wanted: Wanted, limit: int) -> Plan:
        """The cheapest plan, found by looking: with n rows of N in these projects the project plan
        touches n, the time plan about limit * N / n."""
        highest = self._rows(sql.highest_id(table))[0][0]
        total = highest if isinstance(highest, int) else 0
        if wanted.above is not None and total - wanted.above <= RECENT_ROWS:
            return "recent"
        crossing = min(MANY, max(FEW, int(math.sqrt(max(1, limit) * max(1, total)))))
        counting = sql.how_many(self.schema, table, wanted, crossing)
        if counting is None:
            return "time"
        rows = self._rows(counting)[0][0]
        return "time" if isinstance(rows, int) and rows >= crossing else "project"

    def epochs(self, table: Table) -> Epochs:
        """The unit of the table's times, by its two ends: all others lie between them."""
        known = self._epochs.get(table)
        if known is None:
            known = self._epochs[table] = self._unit(table)
        return known

    def statement(self, wanted: Wanted, limit: int) -> Statement:
        """The query for these rows as it is run, for explain."""
        table: Table = "observations"
        return sql.candidates(
            self.schema,
            table,
            wanted,
            plan=self.plan(table, wanted, limit),
            epochs=self.epochs(table),
            limit=limit,
        )

    def counts(self, wanted: Wanted) -> tuple[int, int, int]:
        """Rows of the projects, of those the right type, of those a right concept."""
        project, kind, concept = self._rows(sql.counts(self.schema, wanted))[0]
        return int(project or 0), int(kind or 0), int(concept or 0)

    def query_plan(self, statement: Statement) -> tuple[str, ...]:
        rows = self._rows(Statement("EXPLAIN QUERY PLAN " + statement.text, statement.parameters))
        return tuple(str(row[3]) for row in rows)

    def _unit(self, table: Table) -> Epochs:
        statements = sql.ends(self.schema, table)
        if statements is None:
            return Epochs(None)
        ends = [row[0] for one in statements for row in self._rows(one)]
        for low, high, scale in ((1e8, 1e11, 1000.0), (1e11, 1e14, 1.0), (1e14, 1e17, 0.001)):
            if all(isinstance(end, int | float) and low <= end < high for end in ends):
                return Epochs(scale)
        return Epochs(None)

    def _bounded(
        self, statement: Statement, plan: Plan
    ) -> list[tuple[apsw.SQLiteValue, ...]] | None:
        """The rows, or None when the time plan used up its window with time left."""
        guard = self._connection.guard
        guard.budget = WINDOW_LOOKS if plan == "time" else None
        try:
            return self._run(statement)
        except apsw.Error as error:
            if guard.spent and isinstance(error, apsw.InterruptError):
                return None
            raise translate(error, self._connection.path) from None
        finally:
            guard.budget = None

    def _names(self, table: Table, column: str) -> tuple[str, ...]:
        if not self._columns(table):
            return ()
        rows = self._rows(sql.distinct_projects(self.schema, table, column))
        return tuple(str(row[0]) for row in rows)

    def _columns(self, table: Table) -> frozenset[str]:
        return self.schema.observations if table == "observations" else self.schema.summaries

    def _rows(self, statement: Statement) -> list[tuple[apsw.SQLiteValue, ...]]:
        try:
            return self._run(statement)
        except apsw.Error as error:
            raise translate(error, self._connection.path) from None

    def _run(self, statement: Statement) -> list[tuple[apsw.SQLiteValue, ...]]:
        return self._connection.db.execute(statement.text, statement.parameters).fetchall()


def _candidate(row: Sequence[apsw.SQLiteValue], epochs: Epochs) -> Candidate:
    identity, at, project = row
    epoch: int | None = None
    if isinstance(at, int | float):
        epoch = int(at * epochs.scale) if epochs.scale not in (None, 1.0) else int(at)
    return candidate(int(identity), epoch, text(project))  # type: ignore[arg-type]  # the primary key


def candidate(identity: int, epoch: int | None, project: str) -> Candidate:
    """Rows without a usable time come last."""
    return Candidate(
        (epoch if epoch is not None else -math.inf, project, identity), identity, epoch, project
    )
