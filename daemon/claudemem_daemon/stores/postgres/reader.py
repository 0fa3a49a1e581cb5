"""One state of one database, asked for rows; or what was read of it last, while it is away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.bounds import LISTS, without_large
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.interface import ExplainedQuery, StoreReader
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.postgres import sql
from claudemem_daemon.stores.postgres.connection import Rows, Session, array
from claudemem_daemon.stores.postgres.sql import Parameter, Query
from claudemem_daemon.stores.recent import MAX_AT_ONCE, RecentRows, RecentValues
from claudemem_daemon.stores.rows import CELLS, Cell, Row, text
from claudemem_daemon.stores.sql import Column, Table, Wanted
from claudemem_daemon.stores.words import escaped

T = TypeVar("T")
Position = tuple[int, str]
"""microseconds since 1970, id"""
Plan = Literal["index", "table", "small table"]
"""How rows are found: by the index on the project, or without one, which few rows do not need."""

MAX_WEIGHT: Final = 16 * 1024 * 1024
"""Characters, about, of all answers of one state; one of a quarter is not remembered."""
BASE_WEIGHT: Final = 4096
WIDE_ROWS: Final = 50
"""Whole rows read at once."""
MAX_OLDEST: Final = 256
MAX_IDS: Final = 20_000
MIN_PAGE: Final = 20
MAX_PAGE: Final = 1_000
SPARE: Final = 5
"""Those of the last millisecond of a page wait for the row after them."""
SCHEMA: Final = Schema(
    None,
    frozenset(CELLS["observations"]),
    frozenset(CELLS["session_summaries"]),
    frozenset(),
    "",
    {},
)
"""What a database says is what a SQLite store says, under the same names."""


class Page(NamedTuple):
    """The next `size` matching rows after `before`, newest first."""

    table: Table
    wanted: Wanted
    size: int
    before: Position | None = None


@dataclass(slots=True)
class Answers:
    """The rows that one state of a database gave, by what was asked: they are not read again, and
    while the server is away they stand in. Safe from several threads.

    complete: up to which microsecond every row was there.
    oldest: of pages as they were read last, in this state or before, the last row's microsecond.
    """

    snapshot: str
    number: int
    complete: int
    oldest: dict[Page, int]
    known: dict[Hashable, Rows] = field(default_factory=dict)
    _weight: int = 0
    _ids: dict[int, str] = field(default_factory=dict)

    def get(self, asked: Hashable, read: Callable[[], Rows]) -> Rows:
        known = self.known.get(asked)
        if known is not None:
            return known
        rows = read()
        weight = BASE_WEIGHT + sum([len(c) for row in rows for c in row if type(c) is str])
        if weight <= MAX_WEIGHT // 4:
            if self._weight > MAX_WEIGHT:
                self.known, self._weight = {}, 0
            self.known[asked] = rows
            self._weight += weight
        return rows

    def number_of(self, identity: str, microseconds: int) -> int:
        """The number that stands for a row: rows written later have a greater one."""
        number = sql.row_number(identity, microseconds)
        self._ids[number] = identity
        return number

    @property
    def full(self) -> bool:
        """Whether the next reading needs new ones. An id that is forgotten sooner loses its row."""
        return len(self._ids) > MAX_IDS

    def ids(self, numbers: Collection[int]) -> tuple[str, ...]:
        return tuple(self._ids[number] for number in numbers if number in self._ids)


class DatabaseReader(StoreReader):
    """`StoreReader` of a database. Without a session, every method raises `trouble` for what was
    not read before."""

    schema = SCHEMA

    def __init__(
        self,
        answers: Answers,
        version: StoreVersion,
        remembered: tuple[RecentValues, RecentRows],
        plan: Plan,
        source: Session | StoreError,
    ) -> None:
        self.version = version
        self._answers = answers
        self.values, self._recent = remembered
        self._plan = plan
        self._source = source
        self.has_read = False
        """Whether the database gave rows to this reader."""
        self.trouble = source if isinstance(source, StoreError) else None

    def projects(
        self,
        table: Table = "observations",  # noqa: ARG002 - observations and summaries share a table
        column: Column = "project",
    ) -> tuple[str, ...]:
        if column != "project":
            return ()
        return tuple(sorted(name for name, _ in self._present((), ("",))))

    def present(
        self, table: Table, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = self._present(tuple(names), tuple(prefixes))
        wanted, starts = frozenset(names), tuple(prefixes)
        # To look whether a project has a summary costs as much as to look for the newest ones.
        either = table == "session_summaries"
        own = {name for name, observed in found if observed or either}
        return tuple(sorted(n for n in own if n in wanted or n.startswith(starts))), ()

    def namesakes(self, leaves: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002 - all names are few
        return self.projects()

    def highest_id(self) -> int:
        return sql.row_number("", self._answers.complete)

    def flow(self, table: Table, wanted: Wanted, limit: int) -> Generator[Candidate, None, None]:
        page = Page(table, wanted, _page_size(limit))
        same: list[Candidate] = []
        while True:
            rows = self._answers.get(page, partial(self._read_page, page))
            for row in self._candidates(rows):
                if (wanted.above is not None and row.id <= wanted.above) or (
                    wanted.upto is not None and row.id > wanted.upto
                ):
                    continue
                # Rows of one millisecond are in order only when all of them are here.
                if same and same[0].at != row.at:
                    yield from sorted(same, reverse=True)
                    same = []
                same.append(row)
            if len(rows) < page.size:
                yield from sorted(same, reverse=True)
                return
            identity, microseconds, _ = rows[-1]
            page = page._replace(before=(microseconds, identity))

    def _read_page(self, page: Page) -> Rows:
        """Rows are added far more often than taken away: the page is hardly ever older than it was."""
        oldest = self._answers.oldest
        since = oldest.get(page)
        rows = [] if since is None else self._read(self._newest(page, since))
        if len(rows) < page.size:
            rows = self._read(self._newest(page))
        if len(rows) == page.size and page.before is None and page.wanted.above is None:
            if len(oldest) >= MAX_OLDEST:
                oldest.clear()
            oldest[page] = rows[-1][1]
        return rows

    def _newest(self, page: Page, since: int | None = None) -> Query:
        parameters = _matching(page.table, page.wanted, since, page.before)
        has_since = parameters[5] is not None
        text = sql.NEWEST[page.table, self._indexed, has_since]
        return Query(text, (*parameters, page.size))

    def rows(self, table: Table, chosen: Sequence[Candidate]) -> Iterator[Row]:
        ids = self._answers.ids([row.id for row in chosen])
        for start in range(0, len(ids), WIDE_ROWS):
            for cells in self._rows(sql.WHOLE[table], ids[start : start + WIDE_ROWS]):
                identity, microseconds, *_ = cells
                number, epoch = sql.row_number(identity, microseconds), microseconds // 1000
                make = partial(_row, number, table)
                if len(ids) <= MAX_AT_ONCE:
                    place = self.version.path, table, number
                    yield self._recent.row(place, cells, epoch, make)
                else:
                    yield make(cells, epoch)

    def named(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._numbers(sql.BY_NAME, tuple(names)))

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> list[Candidate]:
        found = self._rows(sql.MATCHING[table], *_matching(table, wanted), self._answers.ids(ids))
        return sorted(self._candidates(found), reverse=True)

    def indexed(self, words: Sequence[str]) -> list[int] | None:
        parts = [part for word in words for part in re.findall(r"\w+", word)]
        return self._numbers(sql.WITH_WORDS, " & ".join(f"{part}:*" for part in parts))

    def containing(self, words: Sequence[str], ids: Sequence[int]) -> frozenset[int]:
        forms = tuple(words), tuple(map(escaped, words))
        return frozenset(self._numbers(sql.CONTAINING, self._answers.ids(ids), *forms))

    def groups(
        self, wanted: Wanted, ids: Sequence[int] | None = None, without: Collection[int] = ()
    ) -> list[RowGroup]:
        chosen = None if ids is None else self._answers.ids(ids)
        but = self._answers.ids(without)
        rows = self._rows(sql.GROUPS, *_filters("observations", wanted), but, chosen)
        return [RowGroup(*row) for row in rows]

    def lost_concepts(self, wanted: Wanted, without: Collection[int] = ()) -> dict[str, int]:
        but = self._answers.ids(without)
        rows = self._rows(sql.LOST_CONCEPTS, *_filters("observations", wanted), but)
        return {text(concept): number for concept, number in rows}

    def all_rows(self) -> int:
        return int(self._rows(sql.ALL_ROWS)[0][0])

    def how_many(self, wanted: Wanted) -> int:
        return int(self._rows(sql.HOW_MANY, wanted.projects)[0][0])

    def files_of_session(self, session: str) -> Iterator[Cell]:
        if session:
            for row in self._rows(sql.FILES_OF_SESSION, session):
                yield from row

    def files_outside(
        self,
        wanted: Wanted,
        roots: Sequence[str],  # noqa: ARG002 - those below a root are for the caller to leave out
    ) -> Iterator[tuple[int, str, Cell, Cell]]:
        for identity, microseconds, *rest in self._rows(sql.FILES_OUTSIDE, wanted.projects):
            project, read, modified = rest
            yield self._answers.number_of(identity, microseconds), project, read, modified

    def queries(self, wanted: Wanted, limit: int) -> tuple[ExplainedQuery, ...]:
        query = self._newest(Page("observations", wanted, _page_size(limit)))
        parameters = [array(p) if isinstance(p, tuple) else p for p in query.parameters]
        steps = self._read(query._replace(text="EXPLAIN " + query.text))
        told = tuple(row[0] for row in steps)
        return (ExplainedQuery(self._plan, query.text, tuple(parameters), told),)

    def extend(self, deadline: Deadline) -> None:
        if isinstance(self._source, Session):
            self._source.extend(deadline)

    def drop_pages(self) -> None:
        """Nothing of the database is in our memory."""

    def confirm(self) -> None:
        """A transaction sees one state."""

    @property
    def _indexed(self) -> bool:
        return self._plan == "index"

    def _candidates(self, rows: Rows) -> Iterator[Candidate]:
        for identity, microseconds, project in rows:
            number = self._answers.number_of(identity, microseconds)
            yield Candidate(microseconds // 1000, project, number)

    def _present(self, names: tuple[str, ...], prefixes: tuple[str, ...]) -> Rows:
        """Names of projects, perhaps also of others, each with whether it has an observation."""
        return self._rows(sql.PRESENT, prefixes, names) if self._indexed else self._rows(sql.NAMES)

    def _numbers(self, text: str, *parameters: Parameter) -> list[int]:
        """Those of the rows of which the query gives id and microseconds."""
        return [self._answers.number_of(*row) for row in self._rows(text, *parameters)]

    def _rows(self, text: str, *parameters: Parameter) -> Rows:
        """What the query says of this state, now or when it was asked before."""
        query = Query(text, parameters)
        return self._answers.get(query, partial(self._read, query))

    def _read(self, query: Query) -> Rows:
        if isinstance(self._source, StoreError):
            raise self._source
        rows = self._source.rows(query)
        self.has_read = True
        return rows


def _filters(table: Table, wanted: Wanted) -> tuple[Parameter, ...]:
    """The parameters $1 to $4."""
    observed = table == "observations"
    types, concepts = (wanted.types, wanted.concepts) if observed else (None, None)
    return wanted.projects, types, concepts, wanted.platform


def _matching(
    table: Table, wanted: Wanted, since: int | None = None, before: Position | None = None
) -> tuple[Parameter, ...]:
    """The parameters $1 to $8. Rows at the very bounds of `wanted` may be among those that match."""
    if since is None and wanted.above is not None:
        since = sql.microseconds_of(wanted.above)
    if before is None and wanted.upto is not None:
        before = sql.microseconds_of(wanted.upto) + 1, ""
    return (*_filters(table, wanted), wanted.not_of, since, *(before or (None, None)))


def _page_size(limit: int) -> int:
    return max(MIN_PAGE, min(limit + SPARE, MAX_PAGE))


def _row(number: int, table: Table, read: tuple[Any, ...], epoch: int | None) -> Row:
    identity, _, project, session, platform, sizes, *cells = read
    names = CELLS[table]
    named = dict(zip(names, cells, strict=True))
    for name in LISTS & named.keys():
        named[name] = _as_written(named[name])
    row = Row(
        id=number,
        project=project,
        merged=None,
        epoch=epoch,
        session=session,
        platform=platform,
        origin=None,
        cells=tuple(named.values()),
        name=identity,
    )
    return row if sizes is None else without_large(row, ("metadata", *names), sizes)


def _as_written(value: str | None) -> str | None:
    """A list as claude-mem writes it into a SQLite store: the same row of both has equal cells."""
    if value is None:
        return None
    try:
        return json.dumps(json.loads(value), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return value
