"""The stores of one question, opened side by side inside one deadline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.admission import Admitted, admit
from claudemem_daemon.stores.model import Located, StoreRef, StoreReport, StoreState
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.reader import Candidate, StoreReader
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.sql import Table, Wanted
from claudemem_daemon.warning import AnswerWarning

WAIT_FOR = ("busy", "slow")
"""Reasons that time may mend; such a store is asked again when the others have answered."""


@dataclass(eq=False, slots=True)
class Source:
    """One open store and what of it belongs to the question. Compared by identity: it stands for
    its rows in the merge."""

    ref: StoreRef
    reader: StoreReader
    admitted: Admitted
    first: dict[Table, list[Candidate]] = field(default_factory=dict)
    pages: dict[Table, Iterator[list[Candidate]]] = field(default_factory=dict)


@dataclass(slots=True)
class Sources:
    """All stores of a question; used inside `with`."""

    pool: StorePool
    deadline: Deadline
    opened: list[Source] = field(default_factory=list)
    failures: dict[str, StoreError] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stack.close()

    def open(self, located: Located, keys: ProjectKeys, plan: dict[Table, int], want: Want) -> None:
        """Open each store and read its first page. A slow or locked one gets a share of the time,
        and what is left when the others are done."""
        waiting: list[StoreRef] = []
        for number, ref in enumerate(located.stores):
            share = self.deadline.share(len(located.stores) - number + 1)
            error = self._try(ref, keys, plan, want, share)
            if error is not None and error.reason in WAIT_FOR:
                waiting.append(ref)
        for ref in waiting:
            if not self.deadline.passed:
                self._try(ref, keys, plan, want, self.deadline)
        order = {ref.path: number for number, ref in enumerate(located.stores)}
        self.opened.sort(key=lambda one: order[one.ref.path])

    def _try(
        self, ref: StoreRef, keys: ProjectKeys, plan: dict[Table, int], want: Want, until: Deadline
    ) -> StoreError | None:
        with ExitStack() as attempt:
            try:
                reader = attempt.enter_context(self.pool.reading(ref, until))
                present, merged = reader.projects(), reader.merged()
                source = Source(ref, reader, admit(keys, present, merged))
                for table, page in plan.items():
                    self._first_page(source, table, page, want)
                reader.extend(self.deadline)
            except StoreError as error:
                self.failures[ref.path] = error
                self.pool.failed(ref.path, error)
                return error
            self.failures.pop(ref.path, None)
            self.opened.append(source)
            self.stack.push(attempt.pop_all())
        return None

    def _first_page(self, source: Source, table: Table, page: int, want: Want) -> None:
        if page <= 0 or not source.admitted or not source.reader.has(table):
            return
        wanted = want.of(source, table)
        pages = source.reader.candidates(table, wanted, page)
        source.pages[table] = pages
        source.first[table] = next(pages, [])

    def candidates(self, source: Source, table: Table) -> Iterator[Candidate]:
        """All matching rows of one store, further pages as they are asked for."""
        yield from source.first.get(table, ())
        pages = source.pages.get(table)
        while pages is not None:
            try:
                page = next(pages, None)
            except StoreError as error:
                self.failures[source.ref.path] = error
                self.pool.failed(source.ref.path, error)
                return
            if page is None:
                return
            yield from page

    def read(self, source: Source, table: Table, chosen: list[Candidate]) -> dict[int, Row]:
        try:
            return source.reader.wide(table, chosen)
        except StoreError as error:
            self.failures[source.ref.path] = error
            self.pool.failed(source.ref.path, error)
            return {}

    def reports(self, located: Located) -> tuple[StoreReport, ...]:
        versions = {one.ref.path: one.reader.schema.version for one in self.opened}
        found: list[StoreReport] = []
        for ref in located.stores:
            error = self.failures.get(ref.path)
            found.append(
                StoreReport(
                    ref.path,
                    error is None,
                    error.message if error is not None else None,
                    versions.get(ref.path),
                    ref.rule,
                    error.reason if error is not None else None,
                )
            )
        return (*found, *located.refused)

    def warnings(self) -> tuple[AnswerWarning, ...]:
        return tuple(
            AnswerWarning(f"store_{error.reason}", error.message, path=path)
            for path, error in self.failures.items()
        )

    def states(self) -> tuple[StoreState, ...]:
        return tuple(
            StoreState(one.ref.path, one.reader.identity, one.reader.data_version or 0)
            for one in self.opened
        )

    @property
    def complete(self) -> bool:
        return not self.failures and all(one.reader.data_version is not None for one in self.opened)


@dataclass(frozen=True, slots=True)
class Want:
    """The filters of a question, made fit for each store."""

    types: tuple[str, ...] | None
    concepts: tuple[str, ...] | None
    platform: str | None
    since: dict[str, int] | None
    not_of: str | None

    def of(self, source: Source, table: Table = "observations") -> Wanted:
        above = None
        if self.since is not None and table == "observations":
            above = self.since.get(source.ref.path, 0)
        if table == "session_summaries":
            merged = source.reader.merged(table)
            targets = tuple(name for name in merged if name in source.admitted.merged)
        else:
            targets = tuple(source.admitted.merged)
        return Wanted(
            projects=tuple(source.admitted.projects),
            merged=targets,
            types=self.types,
            concepts=self.concepts,
            platform=self.platform,
            above=above,
            not_of=self.not_of,
        )
