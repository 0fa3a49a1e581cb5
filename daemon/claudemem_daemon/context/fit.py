"""As much of a draft as its budget takes. Pure.

Detail goes first: long sections are shortened, then narratives and facts go, then token figures and
session lines, each from the oldest on. Then go the oldest rows, whole. What was given up is said in
the last line. Every choice is made by the length of the finished text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Budget, largest
from claudemem_daemon.context.clock import UNDATED
from claudemem_daemon.context.draft import Cut, Draft, Lines, Losses
from claudemem_daemon.context.entries import Entry
from claudemem_daemon.dependencies import FileState
from claudemem_daemon.warning import AnswerWarning

UNIT_WORDS: Final = {"utf16": "characters", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Context:
    """`text` is empty when there is nothing to say (limit 0, excluded project).

    observations: rows whose line is in the text. left_out: all other rows, which did not fit.
    trimmed: rows that have their line but lost detail.
    """

    text: str
    observations: int
    left_out: int
    trimmed: int
    warnings: tuple[AnswerWarning, ...] = ()
    dependencies: tuple[FileState, ...] = ()
    """The transcript, when the prior message was read from it."""
    complete: bool = True
    """Whether time was enough to write all of it."""


class _Shown(NamedTuple):
    """What a cut leaves of one entry. `heading` is the day's, before its first entry. (A tuple:
    thousands are made for each cut that is tried.)"""

    entry: Entry
    number: int
    heading: str
    body: bool


def fit(draft: Draft, budget: Budget) -> Context:
    """The draft within its budget; empty when not one honest line fits."""
    return _Fitting(draft, budget).fitted()


class _Fitting:
    """One draft being fitted; lengths of its lines are taken once."""

    def __init__(self, draft: Draft, budget: Budget) -> None:
        self.draft = draft
        self.budget = budget
        entries = draft.timeline.entries
        self.rows = sum([entry.observation for entry in entries])
        if budget.limit is None:  # no length is asked for
            self.lines = self.plain = self.bodies = []
            return
        # Plain lists: these are read again for each cut that is tried.
        self.lines = [budget.size((entry.line,)) for entry in entries]
        self.plain = [
            length if entry.line is entry.plain else budget.size((entry.plain,))
            for entry, length in zip(entries, self.lines, strict=True)
        ]
        self.bodies = [budget.size(entry.body) for entry in entries]

    def fitted(self) -> Context:
        entries = self.draft.timeline.entries
        whole = Cut(
            rows=self.rows,
            sessions=len(entries) - self.rows,
            bodies=sum(bool(entry.body) for entry in entries),
        )
        for cut in self._ever_less(whole):
            # A draft that has rows must show one: a bare header would read like "no memory".
            if (cut.rows or not self.draft.rows) and self._fits(cut):
                return self._written(cut)
        return self._least()

    def _ever_less(self, cut: Cut) -> Iterator[Cut]:
        yield cut
        yield (cut := replace(cut, shortness=1))
        yield (cut := self._most(cut.bodies, lambda count: replace(cut, bodies=count)))
        yield (cut := replace(cut, figures=False))
        yield (cut := replace(cut, shortness=2))
        yield (cut := self._most(cut.sessions, lambda count: replace(cut, sessions=count)))
        yield (cut := replace(cut, prior=False))
        # The last session is worth some of the oldest rows, but not most of the room.
        costly = 4 * self.budget.size(self.draft.summary.at(2)) > (self.budget.limit or 0)
        yield (cut := replace(cut, summary=not costly))
        yield self._most(cut.rows, lambda count: replace(cut, rows=count))
        cut = replace(cut, lean=True, summary=False)
        yield self._most(cut.rows, lambda count: replace(cut, rows=count))

    def _most(self, upper: int, cut: Callable[[int], Cut]) -> Cut:
        return cut(largest(upper, lambda count: self._fits(cut(count))))

    def _fits(self, cut: Cut) -> bool:
        if self.budget.limit is None:
            return True
        lengths = self.lines if cut.figures else self.plain
        shown = list(self._shown(cut))
        below = self._below(cut, shown, self._losses(cut, shown))
        total = -1 + self.budget.size(self._above(cut)) + self.budget.size(below)
        heading = ""
        length = 0
        for one in shown:
            total += lengths[one.number]
            if one.heading:
                if one.heading != heading:
                    heading, length = one.heading, self.budget.size((one.heading,))
                total += length
            if one.body:
                total += self.bodies[one.number]
        return total <= self.budget.limit

    def _shown(self, cut: Cut) -> Iterator[_Shown]:
        rows, sessions, bodies = cut.rows, cut.sessions, cut.bodies
        day = offset = ""
        for number, entry in enumerate(self.draft.timeline.entries):
            if entry.observation:
                rows -= 1
                if rows < 0:
                    continue
            else:
                sessions -= 1
                if sessions < 0:
                    continue
            bodies -= bool(entry.body)
            moment = entry.moment
            heading = ""
            if moment.day != day:
                heading = "Undated" if moment.day == UNDATED else moment.day
            elif moment.offset != offset:
                # The hour that a clock change repeats: same day, same times, other offset.
                heading = f"{moment.day}, at UTC{moment.offset}"
            day, offset = moment.day, moment.offset
            yield _Shown(
                entry,
                number,
                self.draft.formatter.heading(heading) if heading else "",
                bool(entry.body) and bodies >= 0,
            )

    def _written(self, cut: Cut) -> Context:
        shown = list(self._shown(cut))
        lines = list(self._above(cut))
        for one in shown:
            if one.heading:
                lines.append(one.heading)
            lines.append(one.entry.line if cut.figures else one.entry.plain)
            if one.body:
                lines.extend(one.entry.body)
        losses = self._losses(cut, shown)
        lines += self._below(cut, shown, losses)
        count = self.draft.rows
        return Context("\n".join(lines), count - losses.rows, losses.rows, losses.details)

    def _above(self, cut: Cut) -> Lines:
        return self.draft.lean_head if cut.lean else self.draft.head

    def _below(self, cut: Cut, shown: Sequence[_Shown], losses: Losses) -> Lines:
        draft = self.draft
        summary = draft.summary.at(cut.shortness) if cut.summary else ()
        prior = draft.prior.at(cut.shortness) if cut.prior else ()
        end: list[str] = []
        if not cut.lean:
            rows = [one.entry for one in shown if one.entry.observation]
            read, work = sum([one.read for one in rows]), sum([one.work for one in rows])
            end.extend(draft.footer(len(rows), read, work))
        lost = losses.sentence()
        if lost:
            end.append(self._note(lost))
        # The blank line ends a paragraph or list: what follows is no part of its last entry.
        return (*summary, *prior, *(("", *end) if end else ()))

    def _losses(self, cut: Cut, shown: Sequence[_Shown]) -> Losses:
        draft = self.draft
        rows = details = 0
        figures = False
        for entry, _, _, body in shown:
            if entry.observation:
                rows += 1
                details += entry.shortened or (bool(entry.body) and not body)
            figures = figures or entry.line is not entry.plain
        summary = draft.summary.at(cut.shortness) if cut.summary else ()
        prior = draft.prior.at(cut.shortness) if cut.prior else ()
        sessions = draft.timeline.sessions_beyond + len(draft.timeline.entries) - self.rows
        return Losses(
            rows=draft.timeline.rows_beyond + self.rows - rows,
            details=details,
            sessions=sessions - (len(shown) - rows),
            figures=figures and not cut.figures,
            texts=summary != draft.summary.at(0) or prior != draft.prior.at(0),
        )

    def _note(self, lost: str) -> str:
        limit, unit = self.budget.limit, UNIT_WORDS[self.budget.unit]
        words = f"{limit:,} {unit}" if limit is not None else "a line"
        why = "Cut off, time was over" if self.draft.timeline.late else f"Cut to fit {words}"
        return self.draft.formatter.aside(f"{why}: {lost}. {self.draft.advice}")

    def _least(self) -> Context:
        """No row fits: say that there are some, if there is room for even that."""
        draft, count, limit = self.draft, self.draft.rows, self.budget.limit
        if not count or limit is None:
            return Context("", 0, count, 0)
        note = self._note(f"all {count} observations left out")
        short = f"{count} observations left out: limit {limit}"
        for lines in ((*draft.lean_head, note), (note,), (short,)):
            if self.budget.size(lines) - 1 <= limit:
                return Context("\n".join(lines), 0, count, 0)
        return Context("", 0, count, 0)
