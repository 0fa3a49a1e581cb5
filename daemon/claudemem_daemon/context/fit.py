"""As much of a context as its budget allows. Pure.

Detail is given up first: long sections are shortened; then narratives and facts are left out, the
oldest first, then token figures, then session lines. Then whole rows are left out, the oldest first.
The last line says what was given up. Each decision is made by the length of the finished text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from claudemem_daemon.context import sections
from claudemem_daemon.context.budget import Budget, largest
from claudemem_daemon.context.clock import UNDATED
from claudemem_daemon.context.entries import Timeline
from claudemem_daemon.context.entry import Entry
from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.context.sections import Lines, Section
from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.warning import AnswerWarning

UNIT_WORDS: Final = {"utf16": "characters", "bytes": "bytes"}


class Context(NamedTuple):
    """The text of an answer; empty where there is nothing to say (limit 0, excluded project).

    observations  rows whose line is in the text
    left_out      all other rows
    trimmed       rows whose line is in the text, but not all of their detail
    dependencies  the transcript of the prior message, and the time zone
    complete      whether there was time for all of it
    """

    text: str
    observations: int
    left_out: int
    trimmed: int
    warnings: tuple[AnswerWarning, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    complete: bool = True


class _Cut(NamedTuple):
    """How much of a draft is shown: the newest `rows` and `sessions`; the newest `bodies` of rows that
    have one; the sections at this shortness. `lean`: no legend, sections or footer."""

    rows: int
    sessions: int
    bodies: int
    figures: bool = True
    shortness: int = 0
    summary: bool = True
    prior: bool = True
    lean: bool = False


@dataclass(slots=True)
class _Page:
    """The text of a cut, and counts of what it shows; `size` in units of the budget."""

    budget: Budget
    lines: list[str] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    sessions: int = 0
    read: int = 0
    work: int = 0
    trimmed: int = 0
    figures: bool = False
    """Whether any entry has token figures, even if they are not shown."""

    def add(self, *lines: str) -> None:
        self.lines += lines
        self.size += self.budget.size(lines)

    @property
    def fits(self) -> bool:
        return self.budget.limit is None or self.size - 1 <= self.budget.limit


@dataclass(frozen=True)
class Draft:
    """Everything that a context could say.

    head       title, legend and warnings
    lean_head  the least that is above rows: what they are, and a second line if rows may be missing
    shared     whether there are rows of the shared store
    """

    request: ContextRequest
    head: Lines
    lean_head: Lines
    timeline: Timeline
    summary: Section
    prior: Section
    shared: bool

    @property
    def _budget(self) -> Budget:
        return self.request.budget

    @cached_property
    def _rows(self) -> int:
        """Rows in the timeline."""
        return sum([entry.store is not None for entry in self.timeline.entries])

    @property
    def _sessions(self) -> int:
        return len(self.timeline.entries) - self._rows

    @property
    def _all_rows(self) -> int:
        """Including those that were not rendered."""
        return self.timeline.rows_beyond + self._rows

    def fitted(self) -> Context:
        """The draft within its budget; empty where not even a line fits that says what is missing."""
        bodies = sum([bool(entry.body) for entry in self.timeline.entries])
        for cut in self._ever_less(_Cut(self._rows, self._sessions, bodies)):
            # With rows at least one is shown: a header alone would read like "no memory".
            if cut.rows or not self._all_rows:
                page = self._page(cut)
                if page.fits:
                    text = "\n".join(page.lines)
                    return Context(text, page.rows, self._all_rows - page.rows, page.trimmed)
        return self._least()

    def _ever_less(self, cut: _Cut) -> Iterator[_Cut]:
        yield cut
        yield (cut := cut._replace(shortness=1))
        yield (cut := self._most(cut.bodies, lambda count: cut._replace(bodies=count)))
        yield (cut := cut._replace(figures=False))
        yield (cut := cut._replace(shortness=2))
        yield (cut := self._most(cut.sessions, lambda count: cut._replace(sessions=count)))
        yield (cut := cut._replace(prior=False))
        # The last session may displace old rows, but not take most of the room.
        costly = 4 * self._budget.size(self.summary(2)) > (self._budget.limit or 0)
        yield (cut := cut._replace(summary=not costly))
        yield self._most(cut.rows, lambda count: cut._replace(rows=count))
        cut = cut._replace(lean=True, summary=False)
        yield self._most(cut.rows, lambda count: cut._replace(rows=count))

    def _most(self, upper: int, cut: Callable[[int], _Cut]) -> _Cut:
        return cut(largest(upper, lambda count: self._page(cut(count)).fits))

    def _page(self, cut: _Cut) -> _Page:
        page = _Page(self._budget)
        page.add(*(self.lean_head if cut.lean else self.head))
        self._add_timeline(page, cut)
        page.add(*self._below(cut, page))
        return page

    def _add_timeline(self, page: _Page, cut: _Cut) -> None:
        day = offset = ""
        bodies = cut.bodies
        for entry in self.timeline.entries:
            if entry.store is not None:
                if page.rows == cut.rows:
                    continue
                page.rows += 1
                page.read += entry.read
                page.work += entry.work
            else:
                if page.sessions == cut.sessions:
                    continue
                page.sessions += 1
            moment = entry.moment
            if moment.day != day or moment.offset != offset:
                page.add(self._heading(entry, same_day=moment.day == day))
                day, offset = moment.day, moment.offset
            line, plain, body = entry.sizes
            page.lines.append(entry.line if cut.figures else entry.plain)
            page.size += line if cut.figures else plain
            page.figures = page.figures or entry.line is not entry.plain
            if entry.body:
                bodies -= 1
                if bodies >= 0:
                    page.lines += entry.body
                    page.size += body
            page.trimmed += entry.shortened or (bool(entry.body) and bodies < 0)

    def _heading(self, entry: Entry, *, same_day: bool) -> str:
        day = entry.moment.day
        if same_day:
            # A clock change: the same times of the same day again, at another offset.
            words = f"{day}, at UTC{entry.moment.offset}"
        else:
            words = "Undated" if day == UNDATED else day
        return self.request.formatter.heading(words)

    def _below(self, cut: _Cut, page: _Page) -> Iterator[str]:
        if cut.summary:
            yield from self.summary(cut.shortness)
        if cut.prior:
            yield from self.prior(cut.shortness)
        footer: Lines = ()
        if not cut.lean:
            tokens = page.read, page.work
            footer = sections.footer(page.rows, tokens, self.request, shared=self.shared)
        lost = ", ".join(self._losses(cut, page))
        if footer or lost:
            # A blank line ends the list above.
            yield ""
        yield from footer
        if lost:
            yield self._note(lost)

    def _losses(self, cut: _Cut, page: _Page) -> Iterator[str]:
        """What a cut does not show."""
        if rows := self._all_rows - page.rows:
            yield f"{_counted(rows, 'older observation')} left out"
        if page.trimmed:
            yield f"{_counted(page.trimmed, 'observation')} without all detail"
        if sessions := self.timeline.sessions_beyond + self._sessions - page.sessions:
            yield f"{_counted(sessions, 'session line')} left out"
        if page.figures and not cut.figures:
            yield "token figures left out"
        parts = ((self.summary, cut.summary), (self.prior, cut.prior))
        texts = [(at(0), at(cut.shortness) if shown else ()) for at, shown in parts if at(0)]
        if any(whole != left for whole, left in texts):
            gone = not any(left for _, left in texts)
            yield f"last session {'left out' if gone else 'shortened'}"

    def _note(self, lost: str) -> str:
        limit, unit = self._budget.limit, UNIT_WORDS[self._budget.unit]
        words = f"{limit:,} {unit}" if limit is not None else "a line"
        why = "Cut off, time was over" if self.timeline.late else f"Cut to fit {words}"
        return self.request.formatter.aside(f"{why}: {lost}. {sections.advice(self.request)}")

    def _least(self) -> Context:
        """For where no row fits: say that there are some."""
        count, limit = self._all_rows, self._budget.limit
        if limit is None:
            return Context("", 0, count, 0)
        title, *warned = self.lean_head
        if not count:
            return Context(title if self._budget.size((title,)) - 1 <= limit else "", 0, 0, 0)
        empty = _Cut(0, 0, 0, shortness=2, summary=False, prior=False, lean=True)
        _, *others = self._losses(empty, _Page(self._budget))
        lost = f"{_counted(count, 'observation')} left out"
        every = f"all {lost}" if count > 1 else lost
        note = self._note(", ".join((every, *others)))
        short = f"Limit {limit}: {lost}"
        for lines in ((title, *warned, note), (*warned, note), (*warned, short), (note,), (short,)):
            if self._budget.size(lines) - 1 <= limit:
                return Context("\n".join(lines), 0, count, 0)
        return Context("", 0, count, 0)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
