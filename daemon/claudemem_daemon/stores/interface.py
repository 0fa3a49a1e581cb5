"""What selection asks of a store, whatever kind of store it is.

`StorePool.reading` gives a `StoreReader`: one state of one store. A kind of store is a class with
the methods of `Store`; the pool chooses it by the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from itertools import islice
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.recent import RecentValues
from claudemem_daemon.stores.rows import Cell, Row
from claudemem_daemon.stores.sql import Column, Parameter, Table, Wanted

T = TypeVar("T")

COLUMNS: Final[tuple[Column, Column]] = ("project", "merged_into_project")
"""The two that name a row's project."""


class StoreChanged(Exception):
    """A store was written during a reading that locks nothing: it has to be read anew."""


class ExplainedQuery(NamedTuple):
    """One query as it is run for an answer. `steps` is the database's own account of how."""

    plan: str
    text: str
    parameters: tuple[Parameter, ...]
    steps: tuple[str, ...]


class StoreReader(Protocol):
    """One state of one store; valid inside `StorePool.reading` only. Every method raises
    `StoreError` when the store cannot be read any further."""

    schema: Schema
    version: StoreVersion
    """Of the state that is read."""
    values: RecentValues
    """Those of the store, which outlive this reading."""
    trouble: StoreError | None = None
    """Why this is not the present state but the one that was read last; None where it is."""

    @property
    def damage(self) -> StoreError | None:
        """Why rows may be missing among those that were found so far, though others come."""
        return None

    @property
    def unusable(self) -> int:
        """Matching rows that were found so far and have no id by which they could be read."""
        return 0

    def has(self, table: Table) -> bool:  # noqa: ARG002 - most stores have both
        return True

    def projects(
        self, table: Table = "observations", column: Column = "project"
    ) -> tuple[str, ...]:
        """Every value of the column, once."""

    def present(
        self, table: Table, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Every project that starts with a prefix, and those of `names` that have a row; the same
        for what rows were merged into."""

    def namesakes(self, leaves: Sequence[str]) -> tuple[str, ...]:
        """Of observations and summaries: at least one project `X/...` for each X that has any, and
        each `X/leaf`; perhaps others."""

    def highest_id(self) -> int:
        """The mark that `Wanted.above` takes: only later rows are news."""

    def flow(self, table: Table, wanted: Wanted, limit: int) -> Generator[Candidate, None, None]:
        """Matching rows in the order of the answer, worked out as they are taken, about `limit` at
        a time. Close it before the reading ends."""

    def candidates(self, table: Table, wanted: Wanted, page: int) -> Iterator[list[Candidate]]:
        """The same in pages, none of them empty; what was found comes before an error."""
        with closing(self.flow(table, wanted, page)) as flow:
            while True:
                rows: list[Candidate] = []
                try:
                    rows.extend(islice(flow, page))
                except StoreError:
                    if rows:
                        yield rows
                    raise
                if not rows:
                    return
                yield rows

    def rows(self, table: Table, chosen: Sequence[Candidate]) -> Iterator[Row]:
        """The rows themselves as they are read, in no order, without those that cannot be; one
        beside a damaged page can come again."""

    def among(self, table: Table, wanted: Wanted, ids: Sequence[int]) -> list[Candidate]:
        """Those of `ids` that match, in the order of the answer."""

    def named(self, names: Sequence[str]) -> tuple[int, ...]:  # noqa: ARG002 - see below
        """Ids of the rows whose text ids begin so; none where ids are numbers."""
        return ()

    def indexed(self, words: Sequence[str]) -> list[int] | None:
        """Ids of the observations that hold words beginning so, by the store's own full-text
        index, and of those that hold the words and are missing in it; None where there is no index
        that can be read, or too much is missing in it."""

    def containing(self, words: Sequence[str], ids: Sequence[int]) -> frozenset[int]:
        """Those of `ids` whose observations hold every word, by comparing their texts."""

    def groups(
        self, wanted: Wanted, ids: Sequence[int] | None = None, without: Collection[int] = ()
    ) -> list[RowGroup]:
        """The observations of the projects, counted by what each filter says of them; of `ids`
        alone where given, and all but the ids `without`."""

    def lost_concepts(self, wanted: Wanted, without: Collection[int] = ()) -> dict[str, int]:
        """Concepts of the observations that only the list of concepts keeps out: how many have
        each."""

    def all_rows(self) -> int:
        """Observations of the whole store."""

    def how_many(self, wanted: Wanted) -> int:
        """Observations of the projects, whatever the filters."""

    def files_of_session(self, session: str) -> Iterator[Cell]:
        """The lists of files of a session's observations, those without an absolute path perhaps
        left out."""

    def files_outside(
        self, wanted: Wanted, roots: Sequence[str]
    ) -> Iterator[tuple[int, str, Cell, Cell]]:
        """Id, project, files_read and files_modified of the projects' observations that name an
        absolute path; those that name one below a root (with a slash at its end) perhaps left out."""

    def queries(self, wanted: Wanted, limit: int) -> tuple[ExplainedQuery, ...]:
        """How the observations are found, for explain."""

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` made the last time of something equal to `of`, which is all that it depends
        on. The first of `of` says what it is."""
        return self.values.made(of, make)

    def once(self, of: tuple[object, ...], read: Callable[[], T]) -> T:
        """What `read` read, now or when the store was last in this very state."""
        number = self.version.state_number
        return self.made((number, *of), read) if number else read()

    def extend(self, deadline: Deadline) -> None:
        """Give the queries to come until `deadline`."""

    def drop_pages(self) -> None:
        """Hold less memory while other stores are read."""

    def confirm(self) -> None:
        """Raises `StoreChanged` where what was read so far may not be of one state, which can be
        in a reading that locks nothing."""


class StoreUse(NamedTuple):
    """What `status` tells of one store; `read_ms` is how long its last reading took."""

    path: str
    ok: bool
    error: str | None
    reason: str | None
    schema_version: int | None
    connections: int
    read_ms: float | None


def store_use(
    path: str, error: StoreError | None, version: int | None, connections: int, ms: float | None
) -> StoreUse:
    if error is None:
        return StoreUse(path, True, None, None, version, connections, ms)
    return StoreUse(path, False, error.message, error.reason, version, connections, ms)


class Store(Protocol):
    """One store of the pool. Safe from several threads."""

    IDLE_SECONDS: ClassVar[float]
    """How long it may stay open when nobody asks for it."""

    @property
    def url(self) -> str | None:
        """Of a database, with its secrets."""

    @property
    def idle_since(self) -> float | None:
        """When it was last used, on the monotonic clock; None where nothing is open."""

    def reading(
        self, deadline: Deadline, *, locked: bool = True
    ) -> AbstractContextManager[StoreReader]:
        """One state of the store. Raises `StoreError`, also in the middle. What is read with
        `locked=False` keeps no writer waiting, and has to be confirmed at its end."""

    def failed(self, error: StoreError) -> StoreError:
        """Note what ended a reading, for `describe` and for the back-off; returns it."""

    def describe(self) -> StoreUse: ...

    def let_go(self) -> None:
        """Close what is open and not in use."""

    def retire(self) -> None:
        """Let go, and close what is in use when it comes back: nobody will ask this store again."""

    def interrupt(self) -> None:
        """End the queries that run."""
