"""The stores of one question, opened side by side inside one deadline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import Admitted, match_keys
from claudemem_daemon.selection.flow import Flow
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.stores.bounds import LISTS, most_bytes
from claudemem_daemon.stores.failures import as_store_error, log_fault
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.model import StoreRef, StoreReport
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.salvage import DAMAGED
from claudemem_daemon.stores.sql import Table, Wanted
from claudemem_daemon.warning import AnswerWarning

T = TypeVar("T")

WAIT_FOR: Final = ("busy", "slow")
"""Reasons that time may mend; such a store is asked again when the others have answered."""

FEW_STORES: Final = 4
"""So many may keep what they read in memory until the answer is made."""
RESERVED: Final = 0.15
"""Seconds of the deadline, a quarter of it at most, in which the rows that were found in time can
still be read and the answer be written."""
USUAL_ROW: Final = 64 * 1024
"""Bytes of a row that count for nothing; honest rows have a few thousand."""
MAX_EXCESS: Final = 16 * 1024 * 1024
"""Bytes of one answer besides; a row that would pass it, and all after it, are left out."""
WRITING: Final = (60e-6, 3 / 5)
WRITING_IN_FULL: Final = (150e-6, 2 / 3)
"""Seconds, about, that it takes to write a row into the answer, as a line and with its narrative;
and the share of the time that is kept for it where so many rows are asked for that this counts."""


@dataclass(eq=False, slots=True)
class Source:
    """One open store and what of it belongs to the question. Compared by identity: it stands for
    its rows in the merge."""

    ref: StoreRef
    reader: StoreReader
    admitted: Admitted
    summaries: Admitted
    flows: dict[Table, Flow] = field(default_factory=dict)

    def admits(self, table: Table) -> Admitted:
        return self.admitted if table == "observations" else self.summaries


@dataclass(frozen=True, slots=True)
class Want:
    """The filters of a question, made fit for each store."""

    types: tuple[str, ...] | None
    concepts: tuple[str, ...] | None
    platform: str | None
    since: Mapping[str, int] | None
    until: Mapping[str, int] | None
    not_of: str | None

    def of(self, source: Source, table: Table = "observations") -> Wanted:
        above = upto = None
        if self.since is not None and table == "observations":
            above = self.since.get(source.ref.path, 0)
            upto = self.until.get(source.ref.path) if self.until is not None else None
        admitted = source.admits(table)
        return Wanted(
            projects=tuple(admitted.projects),
            merged=tuple(admitted.merged),
            types=self.types,
            concepts=self.concepts,
            platform=self.platform,
            above=above,
            upto=upto,
            not_of=self.not_of,
        )


ALL: Final = Want(None, None, None, None, None, None)


@dataclass(slots=True)
class Sources:
    """All stores of a question; used inside `with`."""

    resolved: ResolvedQuestion
    want: Want
    pool: StorePool
    deadline: Deadline
    locked: bool = True
    """Whether writers wait for us; else what was read has to be confirmed."""
    opened: list[Source] = field(default_factory=list)
    failures: dict[str, StoreError] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    """Store -> rows that were found and could not be read, decoded or judged."""
    unfinished: bool = False
    """Whether there was no time for all rows that were asked for; no store's fault."""
    bytes_left: int = MAX_EXCESS
    """Of large rows; below zero no more is read."""
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *exc: object) -> None:
        for source in self.opened:
            for flow in source.flows.values():
                flow.close()
            if source.reader.damage is not None:
                self._note(source, source.reader.damage)
        self.stack.close()

    def open(self, plan: Mapping[Table, int] = MappingProxyType({})) -> None:
        """Open each store and find the first rows of the tables in `plan`, as many as it says. A
        slow or locked one gets a share of the time, and what is left when the others are done."""
        until = Deadline(self.deadline.at - min(RESERVED, self.deadline.remaining() / 4))
        refs = self.resolved.located.stores
        waiting: list[StoreRef] = []
        for number, ref in enumerate(refs):
            # A share stays for those that are asked twice; a single store needs no second time.
            single = len(refs) == 1
            share = until if single else until.share(len(refs) - number + 1)
            error = self._try(ref, plan, share, last=single)
            if error is not None and error.reason in WAIT_FOR and not single:
                waiting.append(ref)
        for number, ref in enumerate(waiting):
            self._try(ref, plan, until.share(len(waiting) - number), last=True)
        order = {ref.path: number for number, ref in enumerate(refs)}
        self.opened.sort(key=lambda one: order[one.ref.path])

    def _try(
        self, ref: StoreRef, plan: Mapping[Table, int], until: Deadline, *, last: bool
    ) -> StoreError | None:
        keys = self.resolved.keys
        try:
            with ExitStack() as attempt:
                reader = attempt.enter_context(self.pool.reading(ref, until, locked=self.locked))
                admitted = reader.once(("keys matched", keys), partial(_match_both, reader, keys))
                source = Source(ref, reader, *admitted)
                error = self._first_rows(source, plan)
                if error is not None and not _leaves_rows(error, last=last):
                    raise error
                reader.extend(self.deadline)
                if len(self.resolved.located.stores) > FEW_STORES:
                    reader.drop_pages()
                self.stack.push(attempt.pop_all())
        except StoreError as failure:
            self.failures[ref.path] = failure
            return failure
        self.failures.pop(ref.path, None)
        if reader.trouble is not None:
            self.failures[ref.path] = reader.trouble
        if error is not None:
            self._note(source, error)
        self.opened.append(source)
        return error

    def _first_rows(self, source: Source, plan: Mapping[Table, int]) -> StoreError | None:
        damage: StoreError | None = None
        for table, rows in plan.items():
            if rows <= 0 or not source.admits(table) or not source.reader.has(table):
                continue
            flow = Flow(source.reader, table, self.want.of(source, table), rows)
            source.flows[table] = flow
            error = flow.begin()
            self.lost[source.ref.path] += flow.unusable
            if error is not None and error.reason not in DAMAGED:
                return error
            damage = damage or error
        return damage

    def merging(self, limit: int, *, full: bool) -> Deadline:
        """When the rows must have been read, so that up to `limit` of them can still be written.
        What is read from now on, is read until then."""
        seconds, share = WRITING_IN_FULL if full else WRITING
        until = Deadline(self.deadline.at - min(seconds * limit, self.deadline.remaining() * share))
        for source in self.opened:
            source.reader.extend(until)
        return until

    def candidates(self, source: Source, table: Table) -> Iterator[Candidate]:
        """All matching rows of one store, those after the first as they are asked for."""
        flow = source.flows.get(table)
        if flow is None:
            return
        try:
            yield from flow.candidates()
        except Exception as error:  # noqa: BLE001 - it costs this store alone
            self.stopped(source, as_store_error(error, source.ref.path))

    def read(self, source: Source, table: Table, chosen: list[Candidate]) -> dict[int, Row]:
        """The rows themselves; without those that could not be read any more."""
        found: dict[int, Row] = {}
        try:
            if self.bytes_left >= 0 and not self._read_within(source, table, chosen, found):
                # Rows come in the order of the table, and the newest have to be among them.
                found.clear()
                for one in chosen:
                    if not self._read_within(source, table, [one], found):
                        self.bytes_left = -1
                        break
        except Exception as error:  # noqa: BLE001 - it costs this store alone
            self.stopped(source, as_store_error(error, source.ref.path))
        return found

    def _read_within(
        self, source: Source, table: Table, chosen: list[Candidate], found: dict[int, Row]
    ) -> bool:
        """Read into `found`; False where the rows are too large together."""
        left, before = self.bytes_left, len(found)
        for row in source.reader.rows(table, chosen):
            left -= _excess(row)
            if left < 0:
                return False
            found[row.id] = row
        self.bytes_left = left
        self.lost[source.ref.path] += len({one.id for one in chosen}) - (len(found) - before)
        return True

    def decoded(
        self, rows: Iterable[Chosen[Source]], decode: Callable[[Chosen[Source]], T]
    ) -> tuple[T, ...]:
        """What `decode` makes of each row; without those of which it can make nothing."""
        found: list[T] = []
        for one in rows:
            try:
                found.append(decode(one))
            except Exception as error:  # noqa: BLE001 - it costs this row alone
                self._lose(one, error)
        return tuple(found)

    def _lose(self, one: Chosen[Source], error: Exception) -> None:
        log_fault(error, one.origin.ref.path)
        self.lost[one.origin.ref.path] += 1

    def confirm(self) -> None:
        """Raises `StoreChanged` where what was read may not be one state of each store."""
        for source in self.opened:
            source.reader.confirm()

    def keeps(
        self,
        one: Chosen[Source],
        ours: Ownership,
        also: Callable[[Chosen[Source]], bool] = lambda _: True,
    ) -> bool:
        """Whether a row is of the repository that asks, and `also` something else; one of which that
        could not be read is."""
        try:
            return ours.keeps(one.row, one.origin.reader) and also(one)
        except StoreError as error:
            self.stopped(one.origin, error)
            return True
        except Exception as error:  # noqa: BLE001 - it costs this row alone
            self._lose(one, error)
            return False

    def reports(self) -> tuple[StoreReport, ...]:
        """Those that were opened or tried; of any other nothing is known."""
        versions = {one.ref.path: one.reader.schema.version for one in self.opened}
        found: list[StoreReport] = []
        for ref in self.resolved.located.stores:
            error, version = self.failures.get(ref.path), versions.get(ref.path)
            if error is not None:
                report = StoreReport(
                    ref.path, False, error.message, version, ref.rule, error.reason
                )
                found.append(report)
            elif ref.path in versions:
                found.append(StoreReport(ref.path, True, None, version, ref.rule))
        return (*found, *self.resolved.located.refused)

    def warnings(self) -> Iterator[AnswerWarning]:
        for path, error in self.failures.items():
            yield AnswerWarning(f"store_{error.reason}", error.message, path=path)
        yield from (lost_rows(path, rows) for path, rows in self.lost.items() if rows)

    @property
    def complete(self) -> bool:
        stand_ins = {one.ref.path for one in self.opened if one.reader.trouble is not None}
        return not self.failures.keys() - stand_ins and not self.unfinished

    def stopped(self, source: Source, error: StoreError) -> None:
        if error.reason == "slow":
            self.unfinished = True
        else:
            self._note(source, error)

    def _note(self, source: Source, error: StoreError) -> None:
        self.failures[source.ref.path] = error
        self.pool.failed(source.ref, error)


def _leaves_rows(error: StoreError, *, last: bool) -> bool:
    """Whether the rows found before the error are for the answer."""
    return error.reason in DAMAGED or (last and error.reason == "slow")


def lost_rows(path: str, rows: int) -> AnswerWarning:
    which = "1 row has an id or a value" if rows == 1 else f"{rows:,} rows have ids or values"
    return AnswerWarning("store_rows", f"{path}: {which} that cannot be read: left out", path=path)


def _excess(row: Row) -> int:
    """Bytes, about, by which a row is larger than honest ones."""
    texts = (len(cell) for cell in row.cells if isinstance(cell, str | bytes))
    return max(0, sum(texts) - USUAL_ROW)


def _match_both(reader: StoreReader, keys: ProjectKeys) -> tuple[Admitted, Admitted]:
    return match_keys(reader, "observations", keys), match_keys(reader, "session_summaries", keys)


def large_cells(rows: Iterable[Chosen[Source]]) -> tuple[AnswerWarning, ...]:
    """What of the rows is cut or left out, by store and column."""
    found = Counter((one.origin.ref.path, name) for one in rows for name, _ in one.row.large)
    return tuple(
        AnswerWarning(
            "cell_too_large",
            f"{path}: {column} of {count} {'row' if count == 1 else 'rows'} larger than"
            f" {most_bytes(column) // 1024} KiB: {'left out' if column in LISTS else 'cut'}",
            path=path,
            key=column,
        )
        for (path, column), count in found.items()
    )
