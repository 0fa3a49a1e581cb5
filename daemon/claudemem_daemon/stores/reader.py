"""One state of one SQLite store, asked for rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores import counting, files, sql
from claudemem_daemon.stores import names as name_sql
from claudemem_daemon.stores import words as word_sql
from claudemem_daemon.stores.bounds import without_large
from claudemem_daemon.stores.connection import Connection
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.failures import (
    DAMAGED,
    as_store_error,
    by_halves,
    log_fault,
    slow,
    store_error,
    until_damage,
)
from claudemem_daemon.stores.interface import COLUMNS, ExplainedQuery, StoreChanged, StoreReader
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.odd_text import text_rows
from claudemem_daemon.stores.plans import Candidate, Cells, OutOfBudget, Reading, Search
from claudemem_daemon.stores.recent import MAX_AT_ONCE, RecentRows, RecentValues
from claudemem_daemon.stores.rows import CELLS, Cell, Row, row_id, text
from claudemem_daemon.stores.sql import TABLES, Column, Plan, Statement, Table, Wanted

T = TypeVar("T")

MAX_JOINED: Final = 2_000
"""So many names are asked for one by one; where there are more, all names are listed."""
WIDE_ROWS: Final = 500
"""Whole rows read by one statement: enough to make its cost small, few enough to stop between."""


class StoreState(NamedTuple):
    """What a reading begins with."""

    version: StoreVersion
    schema: Schema


class SqliteReader(StoreReader):
    """`StoreReader` of a SQLite file."""

    def __init__(
        self,
        path: str,
        state: StoreState,
        connection: Connection | None,
        begin: Callable[[Deadline], tuple[Connection, StoreState]],
        number: Callable[[Deadline], tuple[int, bool]],
        remembered: tuple[RecentValues, RecentRows, dict[tuple[object, ...], Plan]],
    ) -> None:
        """connection: where None, `begin` gives one to the first question whose answer is not known
        of this version. number: that of the store's present state."""
        self.connection = connection
        self.version, self.schema = state
        self._path = path
        self._deadline = Deadline.after(0)
        self._begin = begin
        self._number = number
        self._overtaken = False
        """Whether the store was written before `begin`."""
        self.values, self._recent, learnt = remembered
        self._reading = Reading(self.schema, self._flow, learnt)

    @property
    def _connection(self) -> Connection:
        """Raises `StoreError`."""
        if self.connection is None:
            try:
                self.connection, now = self._begin(self._deadline)
            except Exception as error:  # noqa: BLE001 - it costs this store alone
                raise as_store_error(error, self._path) from None
            self._overtaken = now.version.number != self.version.number
        if self._overtaken:
            raise store_error(self._path, "busy", "written to while it was read")
        return self.connection

    @property
    def damage(self) -> StoreError | None:
        return self._reading.damage

    @property
    def unusable(self) -> int:
        return len(self._reading.unusable)

    def has(self, table: Table) -> bool:
        return bool(self.schema.columns(table))

    def extend(self, deadline: Deadline) -> None:
        self._deadline = deadline
        if self.connection is not None:
            self.connection.guard.deadline = deadline

    def drop_pages(self) -> None:
        if self.connection is not None:
            self.connection.drop_pages()

    def confirm(self) -> None:
        unlocked = self.connection is not None and self.connection.mode == "nolock"
        if self._overtaken or (unlocked and self._number(self._deadline)[0] != self.version.number):
            raise StoreChanged(self._path)

    def projects(
        self, table: Table = "observations", column: Column = "project"
    ) -> tuple[str, ...]:
        """The same object for as long as they are the same."""
        if column not in self.schema.columns(table):
            return ()
        try:
            ((number, joined),) = self._flow(name_sql.distinct_at_once(self.schema, table, column))
        except StoreError as error:
            names = self._names_without_indexes(error, table, (column,))
            return tuple(dict.fromkeys(text(name) for _, name in names))
        if not isinstance(joined, str) or joined.count("\0") + 1 != number:  # NUL in a name
            rows = self._flow(name_sql.distinct(self.schema, table, column))
            return tuple(text(row[0]) for row in rows)
        return self.made(
            ("names", table, column, joined), lambda: tuple(map(text, joined.split("\0")))
        )

    def present(
        self, table: Table, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        columns = [column for column in COLUMNS if column in self.schema.columns(table)]
        starts = tuple(prefixes)
        others = [name for name in names if not name.startswith(starts)]
        if not columns or not (others or prefixes):
            return (), ()
        found: dict[Column, dict[str, None]] = {column: {} for column in COLUMNS}
        try:
            rows = list(self._flow(name_sql.present(self.schema, table, columns, others, prefixes)))
        except StoreError as error:
            rows = list(self._names_without_indexes(error, table, columns))
        wanted = frozenset(others)
        for number, cell in rows:
            name = text(cell)
            # Above a prefix that ends in the last character of all SQL was given no bound.
            if name in wanted or name.startswith(starts):
                found[columns[int(number or 0)]][name] = None
        own, merged = (tuple(found[column]) for column in COLUMNS)
        return own, merged

    def _names_without_indexes(
        self, error: StoreError, table: Table, columns: Sequence[Column]
    ) -> Iterator[Cells]:
        """Where an index is damaged, every name that the table gives from either end, after the
        number of its column. Raises `error` where it says something else."""
        if error.reason not in DAMAGED:
            raise error
        for statement in name_sql.without_indexes(table, columns):
            yield from until_damage(self._flow(statement), [])

    def namesakes(self, leaves: Sequence[str]) -> tuple[str, ...]:
        tables = [table for table in TABLES if self.has(table)]
        indexes = {table: self.schema.index_on(table, "project") for table in tables}
        named = {table: index for table, index in indexes.items() if index is not None}
        try:
            if len(named) == len(tables):
                firsts = [text(row[0]) for row in self._flow(name_sql.first_of_each(named))]
                heads = list(dict.fromkeys(name.partition("/")[0] for name in firsts))
                if len(heads) * len(leaves) <= MAX_JOINED:
                    joined = self._flow(name_sql.joined(named, heads, leaves))
                    return (*firsts, *(text(row[0]) for row in joined))
        except StoreError as error:
            if error.reason not in DAMAGED:
                raise
        return tuple(name for table in tables for name in self.projects(table))

    def highest_id(self) -> int:
        ((number,),) = self.once(
            ("highest",), lambda: list(self._flow(sql.highest_id("observations")))
        )
        return row_id(number) or 0

    def flow(self, table: Table, wanted: Wanted, limit: int) -> Generator[Candidate, None, None]:
        return self._search(table, wanted, limit).candidates()

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> list[Candidate]:
        return list(self._search(table, wanted).among(ids))

    def rows(self, table: Table, chosen: Sequence[Candidate]) -> Iterator[Row]:
        known = self._known_rows(table, chosen)
        if known is not None:
            yield from known
            return
        wanted: dict[int | None, Candidate] = {candidate.id: candidate for candidate in chosen}
        few = len(chosen) <= MAX_AT_ONCE
        number, make = self.version.state_number, partial(_row, table)
        damage: list[StoreError] = []

        def read(schema: Schema, ids: Sequence[int]) -> Iterator[Cells]:
            return self._flow(sql.wide(schema, table, ids))

        for start in range(0, len(chosen), WIDE_ROWS):
            ids = [candidate.id for candidate in chosen[start : start + WIDE_ROWS]]
            for cells in by_halves(ids, self.schema, read, damage):
                candidate = wanted.get(row_id(cells[0]))
                # Ids that are not unique can be another project's as well.
                if candidate is None or candidate.project not in ("", text(cells[1])):
                    continue
                try:
                    if few:
                        key = (self._path, table, candidate.id)
                        row = self._recent.row(key, cells, candidate.epoch, make, number)
                    else:
                        row = make(cells, candidate.epoch)
                except Exception as error:  # noqa: BLE001 - it costs this row alone
                    log_fault(error, self._path)
                    continue
                yield row
                self._check_time()
        if damage:
            raise damage[0]

    def _known_rows(self, table: Table, chosen: Sequence[Candidate]) -> list[Row] | None:
        """The rows, if all of them were read in this very state before; None where the store is
        open, or has to be opened for them."""
        number = self.version.state_number
        if self.connection is not None or not number or table in self.schema.loose_ids:
            return None
        rows: list[Row] = []
        for candidate in chosen:
            row = self._recent.at((self._path, table, candidate.id), number, candidate.epoch)
            if row is None:
                return None
            rows.append(row)
        return rows

    def indexed(self, words: Sequence[str]) -> list[int] | None:
        """The highest ids first."""
        try:
            if not any(word_sql.is_index(row[0]) for row in self._flow(word_sql.INDEX)):
                return None
            found = {int(row[0] or 0) for row in self._flow(word_sql.in_index(words))}
            unindexed = [int(row[0] or 0) for row in self._flow(word_sql.UNINDEXED)]
        except StoreError as error:
            if error.reason == "slow":
                raise
            return None
        if len(unindexed) > word_sql.MAX_UNINDEXED:
            return None
        return sorted(found | self.containing(words, unindexed), reverse=True)

    def containing(self, words: Sequence[str], ids: Sequence[int]) -> frozenset[int]:
        rows = self._flow(word_sql.in_rows(self.schema, words, ids))
        return frozenset(number for row in rows if (number := row_id(row[0])) is not None)

    def plan(self, table: Table, wanted: Wanted, limit: int) -> Plan:
        """The cheapest plan for this store."""
        return self._search(table, wanted, limit).plan()

    def _search(self, table: Table, wanted: Wanted, limit: int = 0) -> Search:
        return Search(self._reading, table, self._spelled(wanted, table), limit)

    def query_plan(self, statement: Statement) -> tuple[str, ...]:
        rows = self._flow(Statement("EXPLAIN QUERY PLAN " + statement.text, statement.parameters))
        return tuple(str(row[3]) for row in rows)

    def queries(self, wanted: Wanted, limit: int) -> tuple[ExplainedQuery, ...]:
        search = self._search("observations", wanted, limit)
        plan = search.plan()
        return tuple(
            ExplainedQuery(
                plan,
                found.text,
                tuple(text(p) if isinstance(p, bytes) else p for p in found.parameters),
                self.query_plan(found),
            )
            for found in search.statements(plan)
        )

    def files_of_session(self, session: str) -> Iterator[Cell]:
        for cells in self._flow(files.of_session(self.schema, session)):
            yield from cells
            self._check_time()

    def files_outside(
        self, wanted: Wanted, roots: Sequence[str]
    ) -> Iterator[tuple[int, str, Cell, Cell]]:
        statement = files.outside(self.schema, self._spelled(wanted), roots)
        for number, project, read, modified in self._flow(statement):
            known = row_id(number)
            if known is not None:
                yield known, text(project), read, modified
            self._check_time()

    def groups(
        self, wanted: Wanted, ids: Sequence[int] | None = None, without: Collection[int] = ()
    ) -> list[RowGroup]:
        found: list[RowGroup] = []
        statement = counting.groups(self.schema, self._spelled(wanted), ids, without)
        for project, merged, kind, *flags, rows in self._flow(statement):
            into = text(merged) if merged is not None else None
            types, concepts, readable, platform = map(bool, flags)
            number = int(rows or 0)
            found.append(
                RowGroup(
                    text(project), into, text(kind), types, concepts, readable, platform, number
                )
            )
        return found

    def lost_concepts(self, wanted: Wanted, without: Collection[int] = ()) -> dict[str, int]:
        statement = counting.lost_concepts(self.schema, self._spelled(wanted), without)
        if statement is None:
            return {}
        return {text(value): int(rows or 0) for value, rows in self._flow(statement)}

    def all_rows(self) -> int:
        return self._count(counting.ALL_ROWS)

    def how_many(self, wanted: Wanted) -> int:
        return self._count(sql.how_many(self.schema, "observations", self._spelled(wanted)))

    def _count(self, statement: Statement) -> int:
        return sum(int(row[0] or 0) for row in self._flow(statement))

    def _spelled(self, wanted: Wanted, table: Table = "observations") -> Wanted:
        """With each name that has U+FFFD in it, all that read so: their bytes are no UTF-8."""
        spelled: dict[Column, tuple[str, ...]] = {}
        for column, names in wanted.branches:
            odd = [name for name in names if "\ufffd" in name]
            if odd:
                every = set(names)
                for name in odd:
                    begin = name.partition("\ufffd")[0]
                    rows = self._flow(name_sql.distinct(self.schema, table, column, begin))
                    every.update(str(row[0]) for row in rows if text(row[0]) == name)
                spelled[column] = tuple(every)
        if not spelled:
            return wanted
        return wanted._replace(
            projects=spelled.get("project", wanted.projects),
            merged=spelled.get("merged_into_project", wanted.merged),
        )

    def _check_time(self) -> None:
        """Raises `StoreError`: the guard counts steps of SQLite, and what is made of a large row
        takes few of them."""
        if self._deadline.passed:
            raise slow(self._path)

    def _flow(
        self, statement: Statement, budget: int | None = None
    ) -> Generator[Cells, None, None]:
        """Rows as SQLite finds them.

        `budget` is how often the guard is called before `OutOfBudget` is raised; such a flow must be
        read to its end, or given up, before the next statement."""
        connection = self._connection
        guard = connection.guard
        guard.budget = budget
        try:
            yield from text_rows(connection.db, statement.text, statement.parameters)
        except Exception as error:  # noqa: BLE001 - it costs this store alone
            if isinstance(error, apsw.InterruptError) and guard.spent:
                raise OutOfBudget from None
            raise as_store_error(error, self._path) from None
        finally:
            if budget is not None:
                guard.budget = None


def _row(table: Table, cells: Cells, epoch: int | None) -> Row:
    """The row of `sql.wide`, without the cells that are too large."""
    identity, project, merged, session, platform, device, local, sizes, *rest = cells
    row = Row(
        id=row_id(identity) or 0,
        project=text(project),
        merged=text(merged) if merged is not None else None,
        epoch=epoch,
        session=text(session),
        platform=text(platform) if platform is not None else None,
        origin=(text(device), text(local)) if None not in (device, local) else None,
        cells=tuple(rest),
    )
    if sizes is None:
        return row
    return without_large(row, CELLS[table], json.loads(text(sizes)))
