"""One state of one database, asked for rows; or what was read of it last, while it is away."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.bounds import LISTS, MAX_TEXT, cut, too_large
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.interface import ExplainedQuery, StoreReader
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.plans import Candidate, candidate
from claudemem_daemon.stores.postgres import sql
from claudemem_daemon.stores.postgres.connection import Session
from claudemem_daemon.stores.recent import RecentRows, RecentValues
from claudemem_daemon.stores.rows import CELLS, Cell, Row, text
from claudemem_daemon.stores.sql import Column, Table, Wanted

T = TypeVar("T")
Index = Literal["present", "missing", "needless"]
"""The index by project; it is needless where the rows are few."""

MAX_WEIGHT: Final = 16 * 1024 * 1024
"""Bytes, about, of all answers of one state; one that takes a quarter is not remembered."""
BASE_WEIGHT: Final = 4096
CELL_WEIGHT: Final = 50
WIDE_ROWS: Final = 50
"""Whole rows read at once."""
MAX_OLDEST: Final = 256
MAX_IDS: Final = 20_000
MIN_PAGE: Final = 20
MAX_PAGE: Final = 1_000
SPARE: Final = 5
SCHEMA: Final = Schema(
    version=None,
    observations=frozenset(("id", "project", "created_at_epoch", *CELLS["observations"])),
    summaries=frozenset(("id", "project", "created_at_epoch", *CELLS["session_summaries"])),
    sessions=frozenset(("platform_source", "content_session_id")),
    session_column="memory_session_id",
    indexes={},
)
"""What a database says is what a SQLite store says, under the same names."""


@dataclass(slots=True)
class Answers:
    """What one state of a database said, by what was asked: asked for again, it is not read again,
    and while the server is away it stands in. Safe from several threads.

    complete: up to which microsecond every row was there.
    oldest: of pages as they were read last, in this state or before, the last row's microsecond.
    ids: the text ids of the rows that were seen, by their numbers.
    """

    snapshot: str
    number: int
    complete: int
    oldest: dict[sql.Page, int]
    ids: dict[int, str] = field(default_factory=dict)
    _known: OrderedDict[tuple[object, ...], tuple[Any, int]] = field(default_factory=OrderedDict)
    """With the weight of each."""
    _weight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __bool__(self) -> bool:
        return bool(self._known)

    def get(
        self,
        asked: tuple[object, ...],
        read: Callable[[], T],
        weigh: Callable[[T], int] = lambda _: 0,
    ) -> T:
        with self._lock:
            if asked in self._known:
                self._known.move_to_end(asked)
                known: T = self._known[asked][0]
                return known
        value = read()
        weight = BASE_WEIGHT + weigh(value)
        if weight <= MAX_WEIGHT // 4:
            with self._lock:
                self._weight += weight - self._known.pop(asked, (None, 0))[1]
                self._known[asked] = value, weight
                while self._weight > MAX_WEIGHT:
                    self._weight -= self._known.popitem(last=False)[1][1]
        return value

    def number_of(self, identity: str, microseconds: int) -> int:
        """The number by which a row is known above: rows written later have a greater one."""
        number = sql.row_number(identity, microseconds)
        if len(self.ids) >= MAX_IDS:
            self.ids.clear()
        self.ids[number] = identity
        return number


class DatabaseReader(StoreReader):
    """`StoreReader` of a database. Without a session, every method raises `StoreError` for what was
    not read before."""

    schema = SCHEMA

    def __init__(
        self,
        answers: Answers,
        version: StoreVersion,
        remembered: tuple[RecentValues, RecentRows],
        session: Session | None,
        index: Index,
        trouble: StoreError | None = None,
    ) -> None:
        self.version = version
        self.trouble = trouble
        self._answers = answers
        self._values, self._recent = remembered
        self._session = session
        self.has_read = False
        """Whether the database gave rows to this reader."""
        self._index = index
        self._indexed = index == "present"

    def projects(
        self,
        table: Table = "observations",  # noqa: ARG002 - observations and summaries share a table
        column: Column = "project",
    ) -> tuple[str, ...]:
        if column != "project":
            return ()
        query = sql.NAMES_BY_INDEX if self._indexed else sql.NAMES
        return tuple(sorted(str(row[0]) for row in self._known(query)))

    def present(
        self, table: Table, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = self._known(sql.present(names, prefixes) if self._indexed else sql.NAMES)
        wanted, starts = frozenset(names), tuple(prefixes)
        # To look whether a project has a summary costs as much as to look for the newest ones.
        either = table == "session_summaries"
        own = (name for name, observed in found if observed or either)
        return tuple(sorted(n for n in own if n in wanted or n.startswith(starts))), ()

    def namesakes(self, table: Table, leaves: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        return self.projects()

    def highest_id(self) -> int:
        return sql.row_number("", self._answers.complete)

    def flow(self, table: Table, wanted: Wanted, limit: int) -> Generator[Candidate, None, None]:
        size = _page_size(limit)
        before: sql.Position | None = None
        same: list[Candidate] = []
        while True:
            page = self._page(sql.Page(table, wanted, size, before))
            for identity, microseconds, project in page:
                row = self._candidate(str(identity), int(microseconds), project)
                if (wanted.above is not None and row.id <= wanted.above) or (
                    wanted.upto is not None and row.id > wanted.upto
                ):
                    continue
                # Rows of one millisecond are in order only when all of them are here.
                if same and same[0].epoch != row.epoch:
                    yield from sorted(same, reverse=True)
                    same = []
                same.append(row)
            if len(page) < size:
                yield from sorted(same, reverse=True)
                return
            before = int(page[-1][1]), str(page[-1][0])

    def _page(self, page: sql.Page) -> list[tuple[Any, ...]]:
        return self._answers.get(("page", page), lambda: self._read_page(page), _weight)

    def _read_page(self, page: sql.Page) -> list[tuple[Any, ...]]:
        """Rows are added far more often than taken away: the page is hardly ever older than it was."""
        oldest = self._answers.oldest
        since = oldest.get(page)
        rows = [] if since is None else self._rows(sql.newest(page, since, indexed=self._indexed))
        if len(rows) < page.size:
            rows = self._rows(sql.newest(page, None, indexed=self._indexed))
        if len(rows) == page.size and page.before is None and page.wanted.above is None:
            if len(oldest) >= MAX_OLDEST:
                oldest.clear()
            oldest[page] = int(rows[-1][1])
        return rows

    def rows(self, table: Table, chosen: Sequence[Candidate]) -> Iterator[Row]:
        ids = self._ids([row.id for row in chosen])
        for start in range(0, len(ids), WIDE_ROWS):
            for cells in self._known(sql.whole(table, ids[start : start + WIDE_ROWS])):
                number = self._answers.number_of(str(cells[0]), int(cells[1]))
                place = self.version.path, table, number
                yield self._recent.row(place, cells, int(cells[1]) // 1000, partial(_row, place))

    def named(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._numbers(sql.by_name(names)))

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> list[Candidate]:
        found = self._known(sql.matching(table, wanted, self._ids(ids)))
        rows = (self._candidate(str(row[0]), int(row[1]), row[2]) for row in found)
        return sorted(rows, reverse=True)

    def indexed(self, words: Sequence[str]) -> list[int] | None:
        return self._numbers(sql.with_words(words))

    def containing(self, words: Sequence[str], ids: Sequence[int]) -> frozenset[int]:
        return frozenset(self._numbers(sql.containing(words, self._ids(ids))))

    def _numbers(self, query: sql.Query) -> list[int]:
        """Those of the rows of which the query gives id and microseconds."""
        return [self._answers.number_of(str(row[0]), int(row[1])) for row in self._known(query)]

    def groups(
        self, wanted: Wanted, ids: Sequence[int] | None = None, without: Collection[int] = ()
    ) -> list[RowGroup]:
        chosen = None if ids is None else self._ids(ids)
        rows = self._known(sql.groups(wanted, chosen, self._ids(without)))
        return [
            RowGroup(
                str(project), None, text(kind), types, concepts, readable, platform, int(count)
            )
            for project, _, kind, types, concepts, readable, platform, count in rows
        ]

    def lost_concepts(self, wanted: Wanted, without: Collection[int] = ()) -> dict[str, int]:
        if wanted.concepts is None or not wanted.projects:
            return {}
        rows = self._known(sql.lost_concepts(wanted, self._ids(without)))
        return {text(concept): int(number) for concept, number in rows}

    def all_rows(self) -> int:
        return int(self._known(sql.ALL_ROWS)[0][0])

    def how_many(self, wanted: Wanted) -> int:
        return int(self._known(sql.how_many(wanted.projects))[0][0])

    def files_of_session(self, session: str) -> Iterator[Cell]:
        if session:
            for row in self._known(sql.files_of_session(session)):
                yield from row

    def files_outside(
        self,
        wanted: Wanted,
        roots: Sequence[str],  # noqa: ARG002 - those below a root are for the caller to leave out
    ) -> Iterator[tuple[int, str, Cell, Cell]]:
        for identity, microseconds, project, read, modified in self._known(
            sql.files_outside(wanted)
        ):
            number = self._answers.number_of(str(identity), int(microseconds))
            yield number, str(project), read, modified

    def queries(self, wanted: Wanted, limit: int) -> tuple[ExplainedQuery, ...]:
        page = sql.Page("observations", wanted, _page_size(limit))
        query = sql.newest(page, None, indexed=self._indexed)
        steps = self._rows(sql.Query("EXPLAIN " + query.text, query.parameters))
        return (
            ExplainedQuery(
                {"present": "index", "missing": "table", "needless": "small table"}[self._index],
                query.text,
                tuple(
                    json.dumps(one) if isinstance(one, tuple) else one for one in query.parameters
                ),
                tuple(str(row[0]) for row in steps),
            ),
        )

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        return self._values.made(of, make)

    def extend(self, deadline: Deadline) -> None:
        if self._session is not None:
            self._session.extend(deadline)

    def drop_pages(self) -> None:
        """Nothing of the database is in our memory."""

    def confirm(self) -> None:
        """A transaction sees one state."""

    def _candidate(self, identity: str, microseconds: int, project: str) -> Candidate:
        number = self._answers.number_of(identity, microseconds)
        return candidate(number, microseconds // 1000, project)

    def _ids(self, numbers: Collection[int]) -> tuple[str, ...]:
        known = self._answers.ids
        return tuple(known[number] for number in numbers if number in known)

    def _known(self, query: sql.Query) -> list[tuple[Any, ...]]:
        """What the query says of this state, now or when it was asked before."""
        return self._answers.get(("rows", query), lambda: self._rows(query), _weight)

    def _rows(self, query: sql.Query) -> list[tuple[Any, ...]]:
        if self._session is None:
            raise self.trouble or StoreError("closed", path=self.version.path, reason="away")
        rows = self._session.rows(query.text, query.parameters)
        self.has_read = True
        return rows


def _row(place: tuple[str, Table, int], read: tuple[Any, ...], epoch: int | None) -> Row:
    _, table, number = place
    names = CELLS[table]
    identity, _, project, session, platform, sizes, *cells = read
    large = too_large(("metadata", *names), sizes) if sizes is not None else ()
    for column, name in enumerate(names):
        if name in LISTS:
            cells[column] = _as_written(cells[column])
    for name, size in large:
        if name not in LISTS:
            beginning = cells[names.index(name)].encode()[:MAX_TEXT].decode("utf-8", "ignore")
            cells[names.index(name)] = cut(beginning, size)
    return Row(
        id=number,
        project=text(project),
        merged=None,
        epoch=epoch,
        session=text(session),
        platform=text(platform) if platform is not None else None,
        origin=None,
        cells=tuple(cells),
        name=text(identity),
        large=large,
    )


def _page_size(limit: int) -> int:
    """Some more than are wanted: those of the last millisecond wait for the row after them."""
    return max(MIN_PAGE, min(limit + SPARE, MAX_PAGE))


def _weight(rows: list[tuple[Any, ...]]) -> int:
    """Bytes, about."""
    return sum(
        CELL_WEIGHT + (len(cell) if isinstance(cell, str) else 0) for row in rows for cell in row
    )


def _as_written(value: str | None) -> str | None:
    """A list as claude-mem writes it into a SQLite store: the same row of both has equal cells."""
    if value is None:
        return None
    try:
        return json.dumps(json.loads(value), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return value
