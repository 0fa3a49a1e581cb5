"""Rows by the ids that answers print.

The repository's keys apply as for a context. The lists of types and concepts do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.model import MODELS, Observation, Summary, row_ref
from claudemem_daemon.selection.source import Source
from claudemem_daemon.selection.sources import ALL, Sources
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Table
from claudemem_daemon.warning import AnswerWarning

_REF: Final = re.compile(r"(S?)(?:([a-z]*)([0-9]{1,19})|([a-z]+):([0-9A-Za-z-]{1,64}))")


@dataclass(frozen=True, slots=True)
class Ref:
    """An id as answers print it, see `ShownRow.ref`. `name` is the beginning of a text id."""

    text: str
    table: Table
    letter: str
    number: int
    name: str = ""

    def __str__(self) -> str:
        return "S" * self.of_session + row_ref(self.letter, self.number, self.name)

    @property
    def of_session(self) -> bool:
        return self.table == "session_summaries"


class RowsById(NamedTuple):
    """In the order of the ids; `missing` are the ids without a row."""

    observations: tuple[Observation, ...]
    summaries: tuple[Summary, ...]
    missing: tuple[str, ...]
    warnings: tuple[AnswerWarning, ...]


def parse_ref(text: str) -> Ref | None:
    """None where `text` is not such an id."""
    match = _REF.fullmatch(text.strip())
    if match is None:
        return None
    session, letter, number, of_database, name = match.groups()
    if int(number or 0) >= 1 << 63:
        return None
    table: Table = "session_summaries" if session else "observations"
    return Ref(text.strip(), table, letter or of_database or "", int(number or 0), name or "")


def rows_by_id(
    refs: Sequence[Ref], resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> RowsById:
    """The rows with these ids that belong to the repository of the question."""
    rows: list[Chosen[Source]] = []
    shown: dict[str, Observation | Summary] = {}
    with Sources(resolved, ALL, pool, deadline) as sources:
        if resolved.keys.keys:
            sources.open()
        for source in sources.opened:
            for table, model in MODELS.items():
                wanted = [r for r in refs if (r.letter, r.table) == (source.ref.letter, table)]
                for chosen in filter(sources.keeps, _rows(sources, source, table, wanted)):
                    rows.append(chosen)
                    row = model(chosen.row, source.ref)
                    shown[row.ref] = row
        sources.finish()
        order = dict.fromkeys(map(str, refs))
        present = [shown[ref] for ref in order if ref in shown]
        return RowsById(
            tuple(row for row in present if isinstance(row, Observation)),
            tuple(row for row in present if isinstance(row, Summary)),
            tuple(ref for ref in order if ref not in shown),
            tuple(sources.warnings(rows)),
        )


def _rows(
    sources: Sources, source: Source, table: Table, wanted: Sequence[Ref]
) -> Iterator[Chosen[Source]]:
    """Those rows of one table that the keys admit."""
    if not wanted or not source.reader.has(table):
        return
    with sources.guarded(source):
        numbers = numbers_of(wanted, source)
        chosen = source.reader.among(table, sources.wanted(source, table), numbers)
        for row in sources.read(table, source, chosen).values():
            yield Chosen(source, row)


def numbers_of(refs: Sequence[Ref], source: Source) -> list[int]:
    """The numbers by which a store's reader knows these rows. Raises `StoreError`."""
    names = [ref.name for ref in refs if ref.name]
    numbers = [ref.number for ref in refs if not ref.name]
    return [*numbers, *(source.reader.named(names) if names else ())]
