"""One state of one store, asked for rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores import counting, files, sql
from claudemem_daemon.stores import names as name_sql
from claudemem_daemon.stores import words as word_sql
from claudemem_daemon.stores.bounds import LISTS, MAX_TEXT, cut, too_large
from claudemem_daemon.stores.connection import Connection
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.failures import log_fault, slow, translate, unexpected
from claudemem_daemon.stores.interface import COLUMNS, ExplainedQuery, StoreChanged
from claudemem_daemon.stores.kept import Kept
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.odd_text import text_rows
from claudemem_daemon.stores.plans import Candidate, Cells, OutOfBudget, Plans
from claudemem_daemon.stores.recent import RecentRows
from claudemem_daemon.stores.rows import (
    OBSERVATION_CELLS,
    SUMMARY_CELLS,
    Cell,
    Row,
    row_id,
    text,
)
from claudemem_daemon.stores.salvage import DAMAGED, by_halves, until_damage
from claudemem_daemon.stores.schema import index_on
from claudemem_daemon.stores.sql import Column, Plan, Statement, Table, Wanted

T = TypeVar("T")

MOST_JOINED: Final = 2_000
"""So many names are looked for one by one; beyond that all there are are listed."""
MOST_REMEMBERED: Final = 200
"""Rows read at once that are remembered; more would push out all that others ask for."""
SIZES: Final = 7
"""Where `sql.wide` has the bytes of a row with large cells."""
WIDE_ROWS: Final = 500
"""Whole rows read by one statement: enough to make its cost small, few enough to stop between."""


class SqliteReader:
    """`StoreReader` of a SQLite file."""

    trouble = None

    def __init__(
        self,
        connection: Connection,
        schema: Schema,
        version: StoreVersion,
        number: Callable[[Deadline], tuple[int, bool]],
        kept: Kept,
        recent: RecentRows,
    ) -> None:
        self._connection = connection
        self._kept = kept
        self._recent = recent
        self.schema = schema
        self.version = version
        self._number = number
        """The number of the store's present state."""
        self._plans = Plans(schema, self._flow, kept.learnt)

    def projects(
        self, table: Table = "observations", column: Column = "project"
    ) -> tuple[str, ...]:
        """Every project of the table, once; the same object for as long as they are the same."""
        if column not in self._columns(table):
            return ()
        try:
            ((number, joined),) = self._flow(name_sql.distinct_at_once(self.schema, table, column))
        except StoreError as error:
            names = self._names_without_indexes(error, table, (column,))
            return tuple(dict.fromkeys(text(name) for _, name in names))
        if not number:
            return ()
        if not isinstance(joined, str) or joined.count("\0") + 1 != number:  # NUL in a name
            rows = self._flow(name_sql.distinct(self.schema, table, column))
            return tuple(text(row[0]) for row in rows)
        return self._kept.made(
            ("names", table, column, joined), lambda: tuple(map(text, joined.split("\0")))
        )

    def merged(self, table: Table = "observations") -> tuple[str, ...]:
        """Every project that rows were merged into."""
        return self.projects(table, "merged_into_project")

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` made the last time of something equal to `of`, which is all that it depends
        on; it outlives this reading. The first of `of` says what it is."""
        return self._kept.made(of, make)

    def once(self, of: tuple[object, ...], read: Callable[[], T]) -> T:
        """What `read` read, now or when the store was last in this very state."""
        return self._kept.read(self.version.number or None, of, read)

    def present(
        self, table: Table, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Every project that starts with a prefix and those of `names` that have a row; the same
        for what rows were merged into."""
        columns = [one for one in COLUMNS if one in self._columns(table)]
        starts = tuple(prefixes)
        left = [name for name in names if not name.startswith(starts)]
        found: dict[Column, dict[str, None]] = {column: {} for column in COLUMNS}
        if columns and (left or prefixes):
            wanted = frozenset(left)
            statement = name_sql.present(self.schema, table, columns, left, prefixes)
            try:
                rows = list(self._flow(statement))
            except StoreError as error:
                rows = list(self._names_without_indexes(error, table, columns))
            for number, cell in rows:
                name = text(cell)
                # Above a prefix that ends in the last character of all SQL was given no bound.
                if name in wanted or name.startswith(starts):
                    found[columns[int(number or 0)]][name] = None
        own, merged = (tuple(found[column]) for column in COLUMNS)
        return own, merged

    def namesakes(self, table: Table, leaves: Sequence[str]) -> tuple[str, ...]:
        """Projects that tell whether a worktree's folder name alone is another repository's too:
        every `X/leaf`, and at least one `X/...` for each X that has any. Perhaps others."""
        index = index_on(self.schema, table, "project")
        if index is None:
            return self.projects(table)
        statement = name_sql.first_of_each(table, "project", index)
        try:
            firsts = [text(row[0]) for row in self._flow(statement)]
        except StoreError as error:
            if error.reason not in DAMAGED:
                raise
            return self.projects(table)
        heads = list(dict.fromkeys(name.partition("/")[0] for name in firsts))
        if len(heads) * len(leaves) > MOST_JOINED:
            return self.projects(table)
        joined = name_sql.joined(table, "project", index, heads, leaves)
        return (*firsts, *(text(row[0]) for row in self._flow(joined)))

    def highest_id(self) -> int:
        return self.once(("highest",), self._highest_id)

    def _highest_id(self) -> int:
        for row in self._flow(sql.highest_id("observations")):
            return row_id(row[0]) or 0
        return 0

    def has(self, table: Table) -> bool:
        return bool(self._columns(table))

    def extend(self, deadline: Deadline) -> None:
        """Give the statements to come until `deadline`."""
        self._connection.guard.deadline = deadline

    def drop_pages(self) -> None:
        """Hold less memory while other stores are read."""
        self._connection.drop_pages()

    def confirm(self) -> None:
        """Raises `StoreChanged` where what was read so far may not be of one state."""
        deadline = self._connection.guard.deadline or Deadline.after(1)
        if self._connection.mode != "nolock" or self._number(deadline)[0] == self.version.number:
            return
        raise StoreChanged(self._connection.path)

    def flow(self, table: Table, wanted: Wanted, limit: int) -> Generator[Candidate, None, None]:
        """Matching rows in the order of the answer, worked out as they are taken, about `limit` at
        a time. Close it before the reading ends."""
        return self._plans.candidates(table, self._spelled(table, wanted), limit)

    @property
    def unusable(self) -> int:
        """Matching rows that were found so far and have no id by which they could be read."""
        return len(self._plans.unusable)

    @property
    def damage(self) -> StoreError | None:
        return self._plans.damage

    def candidates(self, table: Table, wanted: Wanted, page: int) -> Iterator[list[Candidate]]:
        """The same in pages, none of them empty."""
        with closing(self.flow(table, wanted, page)) as flow:
            while rows := list(islice(flow, page)):
                yield rows

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> list[Candidate]:
        """Those of `ids` that match, in the order of the answer."""
        return list(self._plans.among(table, self._spelled(table, wanted), ids))

    def named(self, names: Sequence[str]) -> tuple[int, ...]:  # noqa: ARG002 - ids are numbers
        return ()

    def indexed(self, words: Sequence[str]) -> list[int] | None:
        """Ids by the store's full-text index, the highest first; None without one to be read."""
        try:
            if not any(word_sql.is_index(row[0]) for row in self._flow(word_sql.INDEX)):
                return None
            return [int(row[0] or 0) for row in self._flow(word_sql.in_index(words))]
        except StoreError as error:
            if error.reason == "slow":
                raise
            return None

    def containing(self, words: Sequence[str], ids: Sequence[int]) -> frozenset[int]:
        """Those of `ids` whose rows hold every word."""
        statement = word_sql.in_rows(self.schema, words, ids)
        numbers = (row_id(row[0]) for row in self._flow(statement))
        return frozenset(number for number in numbers if number is not None)

    def wide(self, table: Table, chosen: Sequence[Candidate]) -> dict[int, Row]:
        """The rows themselves, by id."""
        return {row.id: row for row in self.rows(table, chosen)}

    def rows(self, table: Table, chosen: Sequence[Candidate]) -> Iterator[Row]:
        """The rows themselves as they are read, in no order; without those that cannot be."""
        wanted = {one.id: one for one in chosen}
        few = len(chosen) <= MOST_REMEMBERED
        damage: list[StoreError] = []

        def read(ids: Sequence[int]) -> Iterator[Cells]:
            return self._flow(sql.wide(self.schema, table, ids))

        for start in range(0, len(chosen), WIDE_ROWS):
            ids = [one.id for one in chosen[start : start + WIDE_ROWS]]
            for cells in by_halves(ids, read, damage):
                number = row_id(cells[0])
                one = wanted.get(number) if number is not None else None
                # Ids that are not unique can be another project's as well.
                if one is None or one.project not in ("", text(cells[1])):
                    continue
                try:
                    if cells[SIZES] is not None:
                        row = self._large_row(table, cells, one.epoch)
                    elif few:
                        place = (self._connection.path, table, one.id)
                        row = self._recent.row(place, cells, one.epoch, _row)
                    else:
                        row = _row(cells, one.epoch)
                except StoreError:
                    raise
                except Exception as error:  # noqa: BLE001 - it costs this row alone
                    log_fault(error, self._connection.path)
                    continue
                yield row
                self._check_time()
        if damage:
            raise damage[0]

    def _large_row(self, table: Table, cells: Cells, epoch: int | None) -> Row:
        """A row some of whose cells are too large: texts cut, with a mark at the end that says so,
        lists left out."""
        row = _row(cells, epoch)
        names = OBSERVATION_CELLS if table == "observations" else SUMMARY_CELLS
        sizes = json.loads(text(cells[SIZES]))
        large = too_large(names, sizes)
        texts = {
            name: cut(self._beginning(table, name, row.id), size)
            for name, size in large
            if name not in LISTS
        }
        whole = zip(names, row.cells, strict=True)
        return replace(row, cells=tuple(texts.get(name, cell) for name, cell in whole), large=large)

    def _beginning(self, table: Table, column: str, number: int) -> str:
        """The first `MAX_TEXT` bytes of a cell; of the rest no page is read."""
        if table in self.schema.loose_ids:  # the number is no row id
            return ""
        db = self._connection.db
        try:
            with closing(db.blob_open("main", table, column, number, False)) as blob:
                return blob.read(MAX_TEXT).decode(self._encoding(), "ignore")
        except apsw.Error:  # a table without rowids, or a column that is worked out
            return ""

    def _encoding(self) -> str:
        return text(next(self._flow(Statement("PRAGMA encoding", ())))[0])

    def plan(self, table: Table, wanted: Wanted, limit: int) -> Plan:
        """The plan that a look at the store says is cheapest."""
        return self._plans.choose(table, wanted, limit)

    def queries(self, wanted: Wanted, limit: int) -> tuple[ExplainedQuery, ...]:
        """How the observations are found, for explain."""
        wanted = self._spelled("observations", wanted)
        plan = self.plan("observations", wanted, limit)
        found = self._plans.statements("observations", wanted, limit)
        return tuple(
            ExplainedQuery(
                plan,
                one.text,
                tuple(text(p) if isinstance(p, bytes) else p for p in one.parameters),
                self.query_plan(one),
            )
            for one in found
        )

    def files_of_session(self, session: str) -> Iterator[Cell]:
        for cells in self._flow(files.of_session(self.schema, session)):
            yield from cells
            self._check_time()

    def files_outside(
        self, wanted: Wanted, roots: Sequence[str]
    ) -> Iterator[tuple[int, str, Cell, Cell]]:
        wanted = self._spelled("observations", wanted)
        for number, project, read, modified in self._flow(
            files.outside(self.schema, wanted, roots)
        ):
            known = row_id(number)
            if known is not None:
                yield known, text(project), read, modified
            self._check_time()

    def groups(
        self,
        wanted: Wanted,
        ids: Sequence[int] | None = None,
        without: Collection[int] = (),
    ) -> list[RowGroup]:
        """The rows of the projects, counted by what each filter says of them."""
        found: list[RowGroup] = []
        wanted = self._spelled("observations", wanted)
        for cells in self._flow(counting.groups(self.schema, wanted, ids, without)):
            project, merged, kind, *flags, rows = cells
            right_type, right_concept, readable, right_platform = map(bool, flags)
            into = text(merged) if merged is not None else None
            found.append(
                RowGroup(
                    text(project), into, text(kind), right_type, right_concept, readable,
                    right_platform, int(rows or 0),
                )
            )  # fmt: skip
        return found

    def lost_concepts(self, wanted: Wanted, without: Collection[int] = ()) -> dict[str, int]:
        """Concepts of the rows that only the list of concepts keeps out: how many have each."""
        wanted = self._spelled("observations", wanted)
        statement = counting.lost_concepts(self.schema, wanted, without)
        if statement is None:
            return {}
        return {text(value): int(rows or 0) for value, rows in self._flow(statement)}

    def all_rows(self) -> int:
        return sum(int(row[0] or 0) for row in self._flow(counting.all_rows()))

    def how_many(self, wanted: Wanted) -> int:
        """Rows of the projects, whatever the filters."""
        wanted = self._spelled("observations", wanted)
        for row in self._flow(counting.rows_of(self.schema, wanted)):
            return int(row[0] or 0)
        return 0

    def query_plan(self, statement: Statement) -> tuple[str, ...]:
        rows = self._flow(Statement("EXPLAIN QUERY PLAN " + statement.text, statement.parameters))
        return tuple(str(row[3]) for row in rows)

    def _spelled(self, table: Table, wanted: Wanted) -> Wanted:
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
        return replace(
            wanted,
            projects=spelled.get("project", wanted.projects),
            merged=spelled.get("merged_into_project", wanted.merged),
        )

    def _names_without_indexes(
        self, error: StoreError, table: Table, columns: Sequence[Column]
    ) -> Iterator[Cells]:
        """Where an index is damaged, every name that the table gives from either end, after the
        number of its column. Raises `error` where it says something else."""
        if error.reason not in DAMAGED:
            raise error
        for one in name_sql.without_indexes(table, columns):
            yield from until_damage(self._flow(one), [])

    def _check_time(self) -> None:
        """Raises `StoreError`: the guard counts steps of SQLite, and what is made of a large row
        takes few of them."""
        until = self._connection.guard.deadline
        if until is not None and until.passed:
            raise slow(self._connection.path)

    def _columns(self, table: Table) -> frozenset[str]:
        return self.schema.observations if table == "observations" else self.schema.summaries

    def _flow(self, statement: Statement, looks: int | None = None) -> Iterator[Cells]:
        """Rows as SQLite finds them.

        `looks` is how often the guard may look before `OutOfBudget` is raised; such a flow must be
        read to its end, or given up, before the next statement."""
        connection = self._connection
        guard = connection.guard
        guard.budget = looks
        try:
            yield from text_rows(connection.db, statement.text, statement.parameters)
        except apsw.InterruptError as error:
            if guard.spent:
                raise OutOfBudget from None
            raise translate(error, connection.path) from None
        except apsw.Error as error:
            raise translate(error, connection.path) from None
        except Exception as error:  # noqa: BLE001 - it costs this store alone
            raise unexpected(error, connection.path) from None
        finally:
            if looks is not None:
                guard.budget = None


def _row(cells: Cells, epoch: int | None) -> Row:
    identity, project, merged, session, platform, device, local, _sizes, *rest = cells
    return Row(
        id=row_id(identity) or 0,
        project=text(project),
        merged=text(merged) if merged is not None else None,
        epoch=epoch,
        session=text(session),
        platform=text(platform) if platform is not None else None,
        origin=(text(device), text(local)) if None not in (device, local) else None,
        cells=tuple(rest),
    )
