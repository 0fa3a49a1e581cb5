"""Rows by their ids, or by words in them.

The repository's keys decide as they do for a context; the lists of types and concepts do not: who
asks for a row knows what it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.private import without_private
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection import decode
from claudemem_daemon.selection.merge import Chosen, merge
from claudemem_daemon.selection.model import Observation, Summary, row_ref
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.selection.select import key_of
from claudemem_daemon.selection.sources import ALL, Source, Sources, large_cells
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, text
from claudemem_daemon.stores.sql import Table
from claudemem_daemon.stores.words import MAX_MATCHES, split
from claudemem_daemon.warning import AnswerWarning

PAGE: Final = 500
"""Rows that are compared with the words at a time."""
COMPARING: Final = 0.7
"""The share of the time in which rows are compared; the rest is for reading those that match."""

TABLES: Final[tuple[Table, ...]] = ("observations", "session_summaries")
_REF: Final = re.compile(r"(S?)(?:([a-z]*)([0-9]{1,19})|([a-z]+):([0-9A-Za-z-]{1,64}))")


@dataclass(frozen=True, slots=True)
class Ref:
    """An id as answers print it: `12`, `b7` of another store, `S3` of a session, `c:1290252e` of a
    database: then `name` is how its text id begins."""

    text: str
    table: Table
    letter: str
    number: int
    name: str = ""

    def __str__(self) -> str:
        session = "S" if self.table == "session_summaries" else ""
        return session + row_ref(self.letter, self.number, self.name)

    @property
    def of_session(self) -> bool:
        return self.table == "session_summaries"


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows by their ids, in the order of asking; `missing` are the ids that no row has here."""

    observations: tuple[Observation, ...]
    summaries: tuple[Summary, ...]
    missing: tuple[str, ...]
    warnings: tuple[AnswerWarning, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Rows that hold the words, newest first; `how` is `fts5`, `like`, or both with a comma."""

    observations: tuple[Observation, ...]
    how: str
    warnings: tuple[AnswerWarning, ...]


def parse_ref(text: str) -> Ref | None:
    """The row that an id names; None where it is no such id."""
    match = _REF.fullmatch(text.strip())
    if match is None:
        return None
    session, letter, number, of_database, name = match.groups()
    if int(number or 0) >= 1 << 63:
        return None
    table: Table = "session_summaries" if session else "observations"
    return Ref(text.strip(), table, letter or of_database or "", int(number or 0), name or "")


def show(
    refs: Sequence[Ref], resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> Shown:
    """The rows of these ids, as far as they are this repository's."""
    shown: dict[str, Observation | Summary] = {}
    rows: list[Chosen[Source]] = []
    with Sources(resolved, ALL, pool, deadline) as sources:
        if resolved.keys.keys:
            sources.open()
        ours = Ownership(resolved.keys)
        for source in sources.opened:
            for table in TABLES:
                wanted = [r for r in refs if (r.letter, r.table) == (source.ref.letter, table)]
                found = [
                    one for one in _rows(sources, source, table, wanted) if sources.keeps(one, ours)
                ]
                rows += found
                decoded = sources.decoded(found, partial(_decoded, table=table))
                shown.update((one.ref, one) for one in decoded)
        order = dict.fromkeys(map(str, refs))
        present = [shown[ref] for ref in order if ref in shown]
        return Shown(
            tuple(one for one in present if isinstance(one, Observation)),
            tuple(one for one in present if isinstance(one, Summary)),
            tuple(ref for ref in order if ref not in shown),
            (*sources.warnings(), *large_cells(rows)),
        )


def _rows(
    sources: Sources, source: Source, table: Table, wanted: Sequence[Ref]
) -> Iterator[Chosen[Source]]:
    """Those rows of one table that the keys admit."""
    if not wanted or not source.reader.has(table):
        return
    names = [ref.name for ref in wanted if ref.name]
    numbers = [ref.number for ref in wanted if not ref.name]
    try:
        numbers += source.reader.named(names) if names else ()
        # Whose id it is says nothing of its time, so that is read with the row.
        chosen = source.reader.among(table, ALL.of(source, table), numbers)
    except StoreError as error:
        sources.stopped(source, error)
        return
    for row in sources.read(source, table, chosen).values():
        yield Chosen(source, row)


def _decoded(one: Chosen[Source], table: Table) -> Observation | Summary:
    if table == "observations":
        return decode.observation(one.row, one.origin.ref, key_of(one))
    return decode.summary(one.row, one.origin.ref)


@dataclass(frozen=True, slots=True)
class Search:
    """Words, each of which a row must hold; how many rows at most; since when, in milliseconds."""

    text: str
    limit: int
    since: int | None = None


@dataclass(slots=True)
class _Search:
    """What is looked for; `how` and `more` are noted while stores are search."""

    words: tuple[str, ...]
    since: int | None
    until: Deadline
    """When to stop comparing, so that the rows that were found can still be read."""
    how: dict[str, None] = field(default_factory=dict)
    more: bool = False
    late: bool = False

    def candidates(self, sources: Sources, source: Source) -> Iterator[Candidate]:
        """Matching rows of one store, newest first."""
        try:
            yield from takewhile(self._new_enough, self._matching(source))
        except StoreError as error:
            sources.stopped(source, error)

    def _new_enough(self, one: Candidate) -> bool:
        return self.since is None or (one.epoch is not None and one.epoch >= self.since)

    def _matching(self, source: Source) -> Iterator[Candidate]:
        found = source.reader.indexed(self.words)
        if found:
            self.more = self.more or len(found) > MAX_MATCHES
            self.how["fts5"] = None
            yield from source.reader.among("observations", ALL.of(source), found[:MAX_MATCHES])
            return
        # An index splits text into words of its own, and knows nothing of what was written
        # without its triggers: that it has no match does not mean that no row has.
        matches = self._in_rows(source)
        first = next(matches, None)
        self.how["like" if found is None or first is not None else "fts5"] = None
        if first is not None:
            yield first
            yield from matches

    def _in_rows(self, source: Source) -> Iterator[Candidate]:
        reader = source.reader
        for page in reader.candidates("observations", ALL.of(source), PAGE):
            ids = [row.id for row in page]
            hits = reader.containing(self.words, ids)
            yield from (row for row in page if row.id in hits)
            self.late = self.late or self.until.passed
            if self.late or not self._new_enough(page[-1]):
                return


def _shows(chosen: Chosen[Source], words: Sequence[str]) -> bool:
    """Whether a row with private spans has the words outside of them; one without is as it is."""
    row = chosen.row
    if not any(isinstance(cell, str) and "private" in cell.lower() for cell in row.cells):
        return True
    seen = decode.observation(row, chosen.origin.ref, key_of(chosen))
    older = without_private(text(row.cells[OBSERVATION_CELLS.index("text")]))
    shown = _plain(
        "\n".join((seen.title, seen.subtitle, seen.narrative, older, *seen.facts, *seen.concepts))
    )
    return all(_plain(word) in shown for word in words)


def _plain(words: str) -> str:
    """Compared as an index does: without case, accents and what is between the words."""
    letters = unicodedata.normalize("NFKD", words.casefold())
    return re.sub(r"\W+", " ", "".join(c for c in letters if not unicodedata.combining(c)))


def search_rows(
    wanted: Search, resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline
) -> Found:
    """The newest rows that hold every word. What cannot be read before the deadline is a warning."""
    limit = wanted.limit
    share = Deadline.after(deadline.remaining() * COMPARING)
    search = _Search(split(wanted.text), wanted.since, share)
    with Sources(resolved, ALL, pool, deadline) as sources:
        if resolved.keys.keys and search.words and limit > 0:
            sources.open()
        ours = Ownership(resolved.keys)
        until = sources.merging(limit, full=True)
        lists = [
            (source, search.candidates(sources, source))
            for source in sources.opened
            if source.admitted
        ]
        rows = merge(
            lists,
            limit,
            lambda source, chosen: sources.read(source, "observations", chosen),
            partial(sources.keeps, ours=ours, also=partial(_shows, words=search.words)),
            lambda: until.passed,
        )
        for _, flow in lists:
            flow.close()  # type: ignore[attr-defined]  # a generator, which may hold a cursor
        observations = sources.decoded(
            rows.rows,
            lambda chosen: decode.observation(chosen.row, chosen.origin.ref, key_of(chosen)),
        )
        return Found(
            observations,
            ", ".join(sorted(search.how)) or "like",
            (
                *sources.warnings(),
                *large_cells(rows.rows),
                *_cut(rows.cut or sources.unfinished or search.late, search.more),
            ),
        )


def _cut(late: bool, more: bool) -> Iterator[AnswerWarning]:
    if late:
        yield AnswerWarning(
            "deadline",
            "time was over before all rows were compared: newer ones are in the answer, older ones"
            " may be missing; --since narrows the search, CLAUDE_MEM_DAEMON_TIMEOUT_MS gives it"
            " more time",
            key="CLAUDE_MEM_DAEMON_TIMEOUT_MS",
        )
    if more:
        yield AnswerWarning(
            "too_many",
            f"more than {MAX_MATCHES:,} rows have these words; the others were not looked"
            " at: give more words",
        )
