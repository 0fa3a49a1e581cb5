"""Observations by words in them.

The repository's keys apply as for a context. The lists of types and concepts do not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NamedTuple

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.private import without_private
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.model import Observation
from claudemem_daemon.selection.source import Source
from claudemem_daemon.selection.sources import ALL, Sources
from claudemem_daemon.stores.plans import Candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, text
from claudemem_daemon.stores.words import MAX_MATCHES, split
from claudemem_daemon.warning import AnswerWarning

PAGE: Final = 500
"""Rows that are compared with the words at a time."""
COMPARING: Final = 0.7
"""The share of the time in which rows are compared; the rest is for reading those that match."""


class Found(NamedTuple):
    """Rows that hold the words, newest first; `how` is `fts5`, `like`, or both with a comma."""

    observations: tuple[Observation, ...]
    how: str
    warnings: tuple[AnswerWarning, ...]


def search_rows(
    words: str,
    limit: int,
    since: int | None,
    resolved: ResolvedQuestion,
    pool: StorePool,
    deadline: Deadline,
) -> Found:
    """The newest rows that hold every word, at most `limit`, and none older than `since`
    (milliseconds). What cannot be read before the deadline is a warning."""
    comparing = Deadline.after(deadline.remaining() * COMPARING)
    with Sources(resolved, ALL, pool, deadline) as sources:
        search = _Search(sources, split(words), since, comparing)
        if resolved.keys.keys and search.words and limit > 0:
            sources.open()
        sources.reserve_writing(limit)
        lists = [(source, search.candidates(source)) for source in sources.opened]
        rows = sources.merged("observations", limit, lists, search.keeps)
        sources.finish()
        return Found(
            tuple([Observation(row, source.ref) for source, row in rows]),
            ", ".join(sorted(search.how)) or "like",
            (*sources.warnings(rows), *search.warnings()),
        )


@dataclass(slots=True)
class _Search:
    """One search; `how`, `more` and `late` are set while stores are searched."""

    sources: Sources
    words: tuple[str, ...]
    since: int | None
    until: Deadline
    """When to stop comparing, so that the rows that were found can still be read."""
    how: set[str] = field(default_factory=set)
    more: bool = False
    late: bool = False

    def candidates(self, source: Source) -> Iterator[Candidate]:
        """Matching rows of one store, newest first."""
        if source.admitted:
            with self.sources.guarded(source):
                yield from takewhile(self._new_enough, self._matching(source))

    def _new_enough(self, row: Candidate) -> bool:
        return self.since is None or (row.epoch is not None and row.epoch >= self.since)

    def _matching(self, source: Source) -> Iterator[Candidate]:
        found = source.reader.indexed(self.words)
        if found:
            self.more = self.more or len(found) > MAX_MATCHES
            self.how.add("fts5")
            wanted = self.sources.wanted(source)
            yield from source.reader.among("observations", wanted, found[:MAX_MATCHES])
            return
        # An index has its own rule for words, and lacks rows that were written without its
        # triggers: without a match in it a row may still have the words.
        matches = self._in_rows(source)
        first = next(matches, None)
        self.how.add("like" if found is None or first is not None else "fts5")
        if first is not None:
            yield first
            yield from matches

    def _in_rows(self, source: Source) -> Iterator[Candidate]:
        reader = source.reader
        for page in reader.candidates("observations", self.sources.wanted(source), PAGE):
            hits = reader.containing(self.words, [row.id for row in page])
            yield from (row for row in page if row.id in hits)
            self.late = self.late or self.until.passed
            if self.late or not self._new_enough(page[-1]):
                return

    def keeps(self, chosen: Chosen[Source]) -> bool:
        store = chosen.origin.ref.path
        shown = any(self.sources.lost.attempt(store, lambda: self._shows(chosen)))
        return shown and self.sources.keeps(chosen)

    def _shows(self, chosen: Chosen[Source]) -> bool:
        """Whether a person sees every word in the row: private spans are not shown, nor are the
        signs that make a list of texts JSON."""
        cells = chosen.row.cells
        signs = [word for word in self.words if not _plain(word).strip()]
        if not signs and not any(
            isinstance(cell, str) and "private" in cell.lower() for cell in cells
        ):
            return True
        row = Observation(chosen.row, chosen.origin.ref)
        older = without_private(text(cells[OBSERVATION_CELLS.index("text")]))
        shown = (row.title, row.subtitle, row.narrative, older, *row.facts, *row.concepts)
        written = "\n".join(shown)
        plain = _plain(written)
        return all(sign in written for sign in signs) and all(
            _plain(word) in plain for word in self.words
        )

    def warnings(self) -> Iterator[AnswerWarning]:
        if self.late or self.sources.unfinished:
            yield AnswerWarning(
                "deadline",
                "time was over before all rows were compared: newer ones are in the answer, older"
                " ones may be missing; --since narrows the search, CLAUDE_MEM_DAEMON_TIMEOUT_MS"
                " gives it more time",
                key="CLAUDE_MEM_DAEMON_TIMEOUT_MS",
            )
        if self.more:
            yield AnswerWarning(
                "too_many",
                f"more than {MAX_MATCHES:,} rows have these words; the others were not searched:"
                " give more words",
            )


def _plain(words: str) -> str:
    """Compared as an index does: without case, accents and what is between the words."""
    letters = unicodedata.normalize("NFKD", words.casefold())
    return re.sub(r"\W+", " ", "".join(c for c in letters if not unicodedata.combining(c)))
