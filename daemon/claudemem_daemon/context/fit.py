"""As much of a page as its budget takes. Pure.

Detail goes first: long sections are shortened, then narratives and facts go, then subtitles, token
figures and session lines, each from the oldest on. Then go the oldest rows, whole. What was given up
is said in the last line. Every choice is made by the length of the finished text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Unit, most, size
from claudemem_daemon.context.clock import UNDATED
from claudemem_daemon.context.entries import Entry
from claudemem_daemon.context.page import Cut, Lines, Losses, Page

UNIT_WORDS: Final = {"utf16": "characters", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Fitted:
    """observations + left_out is the number of rows of the page."""

    text: str
    observations: int
    left_out: int
    trimmed: int


class _Shown(NamedTuple):
    """What a cut leaves of one entry. `heading` is the day's, before its first entry. (A tuple:
    thousands are made for each cut that is tried.)"""

    entry: Entry
    number: int
    heading: str
    body: bool
    subtitle: bool


def fit(page: Page, limit: int | None, unit: Unit) -> Fitted:
    """The page in at most `limit` units (None = all of it); empty when not one honest line fits."""
    return _Fitting(page, limit, unit).fitted()


class _Fitting:
    """One page being fitted; lengths of its lines are taken once."""

    def __init__(self, page: Page, limit: int | None, unit: Unit) -> None:
        self.page = page
        self.limit = limit
        self.unit = unit
        self.rows = sum([one.observation for one in page.timeline.entries])
        entries = page.timeline.entries
        if limit is None:  # no length is asked for
            self.lines = self.plain = self.subtitles = self.bodies = []
            return
        # Line breaks included. Plain lists: these are read again for each cut that is tried.
        self.lines = [size(one.line, unit) + 1 for one in entries]
        self.plain = [
            length if one.line is one.plain else size(one.plain, unit) + 1
            for one, length in zip(entries, self.lines, strict=True)
        ]
        self.subtitles = [size(one.subtitle, unit) + 1 if one.subtitle else 0 for one in entries]
        self.bodies = [self._length(one.body) if one.body else 0 for one in entries]

    def fitted(self) -> Fitted:
        entries = self.page.timeline.entries
        whole = Cut(
            rows=self.rows,
            sessions=len(entries) - self.rows,
            bodies=sum(bool(one.body) for one in entries),
            subtitles=sum(bool(one.subtitle) for one in entries),
        )
        for cut in self._ever_less(whole):
            # A page that has rows must show one: a bare header would read like "no memory".
            if (cut.rows or not self.page.rows) and self._fits(cut):
                return self._written(cut)
        return self._least()

    def _ever_less(self, cut: Cut) -> Iterator[Cut]:
        yield cut
        yield (cut := replace(cut, shortness=1))
        yield (cut := self._most(cut.bodies, lambda count: replace(cut, bodies=count)))
        yield (cut := self._most(cut.subtitles, lambda count: replace(cut, subtitles=count)))
        yield (cut := replace(cut, figures=False))
        yield (cut := replace(cut, shortness=2))
        yield (cut := self._most(cut.sessions, lambda count: replace(cut, sessions=count)))
        yield (cut := replace(cut, prior=False))
        # The last session is worth some of the oldest rows, but not most of the room.
        costly = 4 * self._length(self.page.summary.at(2)) > (self.limit or 0)
        yield (cut := replace(cut, summary=not costly))
        yield self._most(cut.rows, lambda count: replace(cut, rows=count))
        cut = replace(cut, lean=True, summary=False)
        yield self._most(cut.rows, lambda count: replace(cut, rows=count))

    def _most(self, upper: int, cut: Callable[[int], Cut]) -> Cut:
        return cut(most(upper, lambda count: self._fits(cut(count))))

    def _fits(self, cut: Cut) -> bool:
        if self.limit is None:
            return True
        plain = self.lines if cut.figures else self.plain
        shown = list(self._shown(cut))
        below = self._below(cut, shown, self._losses(cut, shown))
        total = -1 + self._length(self._above(cut)) + self._length(below)
        heading = ""
        length = 0
        for one in shown:
            total += plain[one.number]
            if one.heading:
                if one.heading != heading:
                    heading, length = one.heading, self._length((one.heading,))
                total += length
            if one.body:
                total += self.bodies[one.number]
            if one.subtitle:
                total += self.subtitles[one.number]
        return total <= self.limit

    def _shown(self, cut: Cut) -> Iterator[_Shown]:
        rows, sessions, bodies, subtitles = cut.rows, cut.sessions, cut.bodies, cut.subtitles
        day = offset = ""
        for number, one in enumerate(self.page.timeline.entries):
            if one.observation:
                rows -= 1
                if rows < 0:
                    continue
            else:
                sessions -= 1
                if sessions < 0:
                    continue
            bodies -= bool(one.body)
            subtitles -= bool(one.subtitle)
            heading = ""
            if one.day != day:
                heading = "Undated" if one.day == UNDATED else one.day
            elif one.offset != offset:
                # The hour that a clock change repeats: same day, same times, other offset.
                heading = f"{one.day}, at UTC{one.offset}"
            day, offset = one.day, one.offset
            yield _Shown(
                one,
                number,
                self.page.style.heading(heading) if heading else "",
                bool(one.body) and bodies >= 0,
                bool(one.subtitle) and subtitles >= 0,
            )

    def _written(self, cut: Cut) -> Fitted:
        shown = list(self._shown(cut))
        lines = list(self._above(cut))
        for one in shown:
            if one.heading:
                lines.append(one.heading)
            lines.append(one.entry.line if cut.figures else one.entry.plain)
            if one.subtitle:
                lines.append(one.entry.subtitle)
            if one.body:
                lines.extend(one.entry.body)
        losses = self._losses(cut, shown)
        lines += self._below(cut, shown, losses)
        count = self.page.rows
        return Fitted("\n".join(lines), count - losses.rows, losses.rows, losses.details)

    def _above(self, cut: Cut) -> Lines:
        return self.page.lean_head if cut.lean else self.page.head

    def _below(self, cut: Cut, shown: Sequence[_Shown], losses: Losses) -> Lines:
        page = self.page
        summary = page.summary.at(cut.shortness) if cut.summary else ()
        prior = page.prior.at(cut.shortness) if cut.prior else ()
        end: list[str] = []
        if not cut.lean:
            rows = [one.entry for one in shown if one.entry.observation]
            read, work = sum([one.read for one in rows]), sum([one.work for one in rows])
            end.extend(page.footer(len(rows), read, work))
        lost = losses.sentence()
        if lost:
            end.append(self._note(lost))
        # The blank line ends a list: what follows is no part of its last entry.
        return (*summary, *prior, *(("", *end) if end else ()))

    def _losses(self, cut: Cut, shown: Sequence[_Shown]) -> Losses:
        page = self.page
        rows = details = 0
        figures = False
        for entry, _, _, body, subtitle in shown:
            if entry.observation:
                rows += 1
                if (
                    entry.shortened
                    or (entry.body and not body)
                    or (entry.subtitle and not subtitle)
                ):
                    details += 1
            figures = figures or entry.line is not entry.plain
        kept_summary = page.summary.at(cut.shortness) if cut.summary else ()
        kept_prior = page.prior.at(cut.shortness) if cut.prior else ()
        sessions = page.timeline.sessions_beyond + len(page.timeline.entries) - self.rows
        return Losses(
            rows=page.timeline.rows_beyond + self.rows - rows,
            details=details,
            sessions=sessions - (len(shown) - rows),
            figures=figures and not cut.figures,
            texts=kept_summary != page.summary.at(0) or kept_prior != page.prior.at(0),
        )

    def _note(self, lost: str) -> str:
        words = f"{self.limit:,} {UNIT_WORDS[self.unit]}" if self.limit is not None else "a line"
        why = "Cut off, time was over" if self.page.timeline.late else f"Cut to fit {words}"
        return self.page.style.aside(f"{why}: {lost}. {self.page.advice}")

    def _least(self) -> Fitted:
        """No row fits: say that there are some, if there is room for even that."""
        page, count = self.page, self.page.rows
        if not count or self.limit is None:
            return Fitted("", 0, count, 0)
        note = self._note(f"all {count} observations left out")
        short = f"{count} observations left out: limit {self.limit}"
        for lines in ((*page.lean_head, note), (note,), (short,)):
            if self._length(lines) - 1 <= self.limit:
                return Fitted("\n".join(lines), 0, count, 0)
        return Fitted("", 0, count, 0)

    def _length(self, lines: Sequence[str]) -> int:
        """With a line break for each line."""
        return sum(size(one, self.unit) + 1 for one in lines)
