"""As much of a context as its budget allows. Pure.

Detail is given up first: sections are shortened, then narratives and facts are left out, the oldest
first, then token figures, then session lines. Then whole rows are left out, the oldest first. The last line says what was
given up. Each decision is made by the length of the finished text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple

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
    """How much of a draft is shown: the newest `rows` and `sessions`, the newest `bodies` of rows that
    have one, and the sections: whole, `short`, or none."""

    rows: int
    sessions: int
    bodies: int
    figures: bool = True
    sections_are: Literal["whole", "short", "gone"] = "whole"


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
    figures_lost: bool = False

    def add(self, *lines: str) -> None:
        self.lines += lines
        self.size += self.budget.size(lines)

    @property
    def fits(self) -> bool:
        return self.budget.limit is None or self.size - 1 <= self.budget.limit


@dataclass(frozen=True)
class Draft:
    """Everything that a context could say.

    head        title, legend and warnings
    least_head  title, and a second line if rows may be missing, for where no row fits
    sections    what follows the timeline
    shared      whether there are rows of the shared store
    """

    request: ContextRequest
    head: Lines
    least_head: Lines
    timeline: Timeline
    sections: tuple[Section, ...]
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
        cut = _Cut(self._rows, self._sessions, bodies)
        page = self._page(cut)
        if not page.fits:
            cut = self._shortened(cut)
            page = self._page(cut)
        # With rows at least one is shown: a header alone would read like "no memory".
        if page.fits and (cut.rows or not self._all_rows):
            text = "\n".join(page.lines)
            return Context(text, page.rows, self._all_rows - page.rows, page.trimmed)
        return self._least()

    def _shortened(self, cut: _Cut) -> _Cut:
        cut = cut._replace(sections_are="short")
        cut = self._most(cut.bodies, lambda count: cut._replace(bodies=count))
        cut = self._most(1, lambda count: cut._replace(figures=count == 1))
        cut = self._most(cut.sessions, lambda count: cut._replace(sessions=count))
        least = self._most(cut.rows, lambda count: cut._replace(rows=count))
        if not least.rows:
            cut = cut._replace(sections_are="gone")
            least = self._most(cut.rows, lambda count: cut._replace(rows=count))
        return least

    def _most(self, upper: int, cut: Callable[[int], _Cut]) -> _Cut:
        return cut(largest(upper, lambda count: self._page(cut(count)).fits))

    def _page(self, cut: _Cut) -> _Page:
        page = _Page(self._budget)
        page.add(*self.head)
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
            page.figures_lost = page.figures_lost or (not cut.figures and line > plain)
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
        shown = self._sections(cut.sections_are)
        yield from shown
        tokens = page.read, page.work
        footer = sections.footer(page.rows, tokens, self.request, shared=self.shared)
        lost = ", ".join(self._losses(page, shown))
        if footer or lost:
            # A blank line ends the list above.
            yield ""
        yield from footer
        if lost:
            yield self._note(lost)

    def _sections(self, are: Literal["whole", "short", "gone"]) -> Lines:
        if are == "gone":
            return ()
        return sum([part.whole if are == "whole" else part.short for part in self.sections], ())

    def _losses(self, page: _Page, shown: Lines) -> Iterator[str]:
        """What is not shown where the page is, with these lines of the sections."""
        if rows := self._all_rows - page.rows:
            yield f"{_counted(rows, 'older observation')} left out"
        if page.trimmed:
            yield f"{_counted(page.trimmed, 'observation')} without all detail"
        if sessions := self.timeline.sessions_beyond + self._sessions - page.sessions:
            yield f"{_counted(sessions, 'session line')} left out"
        if page.figures_lost:
            yield "token figures left out"
        if shown != self._sections("whole"):
            yield f"last session {'shortened' if shown else 'left out'}"

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
        title, *warned = self.least_head
        if not count:
            return Context(title if self._budget.size((title,)) - 1 <= limit else "", 0, 0, 0)
        _, *others = self._losses(_Page(self._budget), ())
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
