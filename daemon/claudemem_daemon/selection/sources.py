"""The stores of one question, opened side by side inside one deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import INCOMPLETE, Dependency
from claudemem_daemon.errors import StoreError
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import match_keys
from claudemem_daemon.selection.lost import LostRows, large_cells
from claudemem_daemon.selection.merge import Chosen, merge
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.selection.source import Flow, Source
from claudemem_daemon.stores.failures import as_store_error
from claudemem_daemon.stores.model import StoreRef, StoreReport
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.sql import Table, Wanted
from claudemem_daemon.warning import AnswerWarning

ALL: Final = Wanted(())
"""No filter: every row passes."""
FEW_STORES: Final = 4
"""Up to this number, stores keep the pages they read in memory until the answer is complete."""
RESERVED: Final = 0.15
"""Seconds before the deadline, a quarter of the time at most, in which no more rows are looked up:
they are for reading the rows that were found, and for writing the answer."""
USUAL_ROW: Final = 64 * 1024
"""Characters of a row that are free; a usual row has a few thousand."""
MAX_EXCESS: Final = 16 * 1024 * 1024
"""Further characters of all rows of an answer. The row that exceeds them, and all rows after it, are
left out."""
WRITING: Final = 150e-6
"""Roughly the seconds that writing a row in full takes."""
MAX_WRITING: Final = 2 / 3
"""The largest share of the time that is reserved for writing."""


@dataclass(slots=True)
class Sources:
    """All stores of a question; use it in a `with` statement."""

    resolved: ResolvedQuestion
    filters: Wanted
    pool: StorePool
    deadline: Deadline
    locked: bool = True
    """Whether writers have to wait; if not, `finish` checks that nothing was written."""
    opened: list[Source] = field(default_factory=list)
    failures: dict[str, StoreError] = field(default_factory=dict)
    lost: LostRows = field(default_factory=LostRows)
    unfinished: bool = False
    """Whether time was over before all rows were read, through no failure of a store."""
    room: int = MAX_EXCESS
    """Characters that large rows may still have; once below zero, no more rows are read."""
    stack: ExitStack = field(default_factory=ExitStack)
    ours: Ownership = field(init=False)
    until: Deadline = field(init=False)
    """When the rows must have been read."""

    def __post_init__(self) -> None:
        self.ours = Ownership(self.resolved.keys)
        self.until = self.deadline

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stack.close()

    def wanted(self, source: Source, table: Table = "observations") -> Wanted:
        """The filters of the question, for one table of one store."""
        admitted, question = source.admits(table), self.resolved.question
        wanted = self.filters._replace(
            projects=tuple(admitted.projects), merged=tuple(admitted.merged)
        )
        if question.since is None or table != "observations":
            return wanted
        above, upto = question.since.get(source.ref.path, 0), question.until or {}
        return wanted._replace(above=above, upto=upto.get(source.ref.path))

    def open(self) -> None:
        """Open each store; a slow or locked one takes no more than its share of the time."""
        refs, until = self.resolved.located.stores, self._until_rows()
        for number, ref in enumerate(refs):
            self._open(ref, until.share(len(refs) - number))

    def _open(self, ref: StoreRef, until: Deadline) -> None:
        keys = self.resolved.keys
        try:
            with ExitStack() as attempt:
                reader = attempt.enter_context(self.pool.reading(ref, until, locked=self.locked))
                admitted = reader.once(("keys matched", keys), partial(match_keys, reader, keys))
                self.stack.push(attempt.pop_all())
        except StoreError as failure:
            self.failures[ref.path] = failure
            return
        if reader.trouble is not None:
            self.failures[ref.path] = reader.trouble
        source = Source(ref, reader, *admitted)
        self._go_on(source)
        self.opened.append(source)

    def _go_on(self, source: Source) -> None:
        """What is read next is for the answer alone."""
        source.reader.extend(self.until)
        if len(self.resolved.located.stores) > FEW_STORES:
            source.reader.drop_pages()

    def _until_rows(self) -> Deadline:
        """When to stop looking rows up."""
        return Deadline(self.deadline.at - min(RESERVED, self.deadline.remaining() / 4))

    def reserve_writing(self, rows: int) -> None:
        """Stop reading from now on while there is time to write so many rows."""
        spare = min(WRITING * rows, self.deadline.remaining() * MAX_WRITING)
        self.until = Deadline(self.deadline.at - spare)
        for source in self.opened:
            source.reader.extend(self.until)

    def newest(self, table: Table, limit: int) -> tuple[Chosen[Source], ...]:
        """The newest rows of all stores that match the filters."""
        if limit <= 0:
            return ()
        until = self._until_rows()
        sources = [s for s in self.opened if s.admits(table) and s.reader.has(table)]
        lists: list[tuple[Source, Iterator[Candidate]]] = []
        for number, source in enumerate(sources):
            flow = Flow(source.reader, table, self.wanted(source, table), limit)
            self.stack.callback(flow.close)
            source.reader.extend(until.share(len(sources) - number))
            try:
                flow.begin()
            except Exception as error:  # noqa: BLE001 - it costs this store alone
                # The rows found before it are used.
                self._note(source, as_store_error(error, source.ref.path))
            self._go_on(source)
            self.lost[source.ref.path] += flow.unusable
            lists.append((source, self._guarded(source, flow.candidates())))
        return self.merged(table, limit, lists, self.keeps)

    def _guarded(self, source: Source, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        with self.guarded(source):
            yield from candidates

    def merged(
        self,
        table: Table,
        limit: int,
        lists: Iterable[tuple[Source, Iterator[Candidate]]],
        keep: Callable[[Chosen[Source]], bool],
    ) -> tuple[Chosen[Source], ...]:
        """The newest rows in the lists for which `keep` is true."""
        found = merge(lists, limit, partial(self.read, table), keep, self._late)
        return tuple([chosen for chosen, ending in found if ending == "included"])

    def _late(self) -> bool:
        """Whether no more rows can be read."""
        if self.room < 0:
            return True
        self.unfinished = self.unfinished or self.until.passed
        return self.until.passed

    @contextmanager
    def guarded(self, source: Source) -> Iterator[None]:
        """An error inside ends the reading of this store, not of the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.stopped(source, as_store_error(error, source.ref.path))

    def read(self, table: Table, source: Source, chosen: list[Candidate]) -> dict[int, Row]:
        """The rows themselves, without those that cannot be read."""
        found: dict[int, Row] = {}
        with self.guarded(source):
            if self.room >= 0 and not self._read_within(source, table, chosen, found):
                # Rows come in the order of the table, and the newest have to be among them.
                found.clear()
                for candidate in chosen:
                    if not self._read_within(source, table, [candidate], found):
                        self.room = -1
                        break
        return found

    def _read_within(
        self, source: Source, table: Table, chosen: list[Candidate], found: dict[int, Row]
    ) -> bool:
        """Read into `found`; False where the rows are too large together."""
        room, before = self.room, len(found)
        for row in source.reader.rows(table, chosen):
            if row.size > USUAL_ROW:
                room -= row.size - USUAL_ROW
                if room < 0:
                    return False
            found[row.id] = row
        self.room = room
        self.lost[source.ref.path] += len({candidate.id for candidate in chosen}) - (
            len(found) - before
        )
        return True

    def keeps(self, chosen: Chosen[Source]) -> bool:
        """Whether a row belongs to the repository of the question. A row whose files cannot be read
        from the store counts as its own."""
        try:
            return self.ours.keeps(chosen.row, chosen.origin.reader)
        except StoreError as error:
            self.stopped(chosen.origin, error)
            return True
        except Exception as error:  # noqa: BLE001 - it costs this row alone
            self.lost.lose(chosen.origin.ref.path, error)
            return False

    def finish(self) -> None:
        """End the reading. Raises `StoreChanged` where a store was written meanwhile, so that the rows
        may be of two of its states."""
        for source in self.opened:
            source.reader.confirm()
            if source.reader.damage is not None:
                self._note(source, source.reader.damage)

    def reports(self) -> tuple[StoreReport, ...]:
        """For the stores that were opened or could not be, and those that were refused."""
        versions = {source.ref.path: source.reader.schema.version for source in self.opened}
        found: list[StoreReport] = []
        for ref in self.resolved.located.stores:
            error = self.failures.get(ref.path)
            if error is not None or ref.path in versions:
                message, reason = (error.message, error.reason) if error else (None, None)
                version = versions.get(ref.path)
                found.append(
                    StoreReport(ref.path, error is None, message, version, ref.rule, reason)
                )
        return (*found, *self.resolved.located.refused)

    def warnings(self, rows: Iterable[Chosen[Source]]) -> Iterator[AnswerWarning]:
        """About the stores, and about what is too large: cells of the `rows` of the answer, and the
        rows after them."""
        for path, error in self.failures.items():
            yield AnswerWarning(f"store_{error.reason}", error.message, path=path)
        for source in self.opened:
            if left_out := source.reader.schema.left_out:
                path = source.ref.path
                yield AnswerWarning("store_tables", f"{path}: {left_out}", path=path)
        yield from self.lost.warnings("read")
        yield from large_cells(rows)
        if self.room < 0:
            size = USUAL_ROW // 1024
            message = f"cut off: the next rows are too large, of more than {size} KiB each"
            yield AnswerWarning("rows_too_large", message)

    def dependencies(self) -> Iterator[Dependency]:
        """What failures, and the verdicts on whose a row is, depend on."""
        for error in self.failures.values():
            yield error.lasting or INCOMPLETE
        if self.cut:
            yield INCOMPLETE
        yield from self.ours.dependencies()

    @property
    def cut(self) -> bool:
        """Whether rows are missing though no store failed."""
        return self.unfinished or self.room < 0

    @property
    def complete(self) -> bool:
        stand_ins = {source.ref.path for source in self.opened if source.reader.trouble is not None}
        return not self.failures.keys() - stand_ins and not self.cut

    def stopped(self, source: Source, error: StoreError) -> None:
        if error.reason == "slow":
            self.unfinished = True
        else:
            self._note(source, error)

    def _note(self, source: Source, error: StoreError) -> None:
        self.failures[source.ref.path] = error
        self.pool.failed(source.ref, error)
