"""Rows and session summaries as entries of the timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from claudemem_daemon.context.budget import Budget
from claudemem_daemon.context.clock import Moment
from claudemem_daemon.context.formatter import RowWords
from claudemem_daemon.context.options import RenderOptions
from claudemem_daemon.derived import Derived
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.stores.rows import Row

MAX_TITLE_CHARS: Final = 500
"""A longer title is a pasted text: it would push out other rows."""

SESSION_MARK: Final = "▸"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the timeline, ready to be shown with more or less of itself.

    moment       its local time; `day` and `offset` decide under which heading it is
    line, plain  its own line, with and without token figures
    body         lines below it, where it is shown in full
    mark         what its type shows as, for the legend
    shortened    its line had to be cut, or its body could never fit
    """

    observation: bool
    moment: Moment
    line: str
    plain: str
    mark: str
    labelled: bool
    body: tuple[str, ...] = ()
    shortened: bool = False
    work: int = 0
    read: int = 0


RenderedEntry: TypeAlias = tuple[tuple[object, ...], Entry]
"""Everything beside its row that an entry was made of, and the entry."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries in order, and how many of each kind are not among them: rows that no budget of this
    size can hold are not even rendered, nor any after time was over (`late`)."""

    entries: tuple[Entry, ...]
    rows_beyond: int
    sessions_beyond: int
    late: bool = False


def timeline(
    observations: Sequence[Observation],
    summaries: Sequence[Summary],
    options: RenderOptions,
    budget: Budget,
    late: Callable[[], bool],
    rendered: Derived[Row, RenderedEntry],
) -> Timeline:
    """Both lists in their own order, a session above the rows that are not newer; at most what the
    budget could hold, and what was rendered before it got `late`. Takes `rendered` entries again.
    A row that cannot be written is in none of the numbers.
    """
    writer = _Writer(options, options.fingerprint, rendered)
    entries: list[Entry] = []
    waiting = list(reversed(summaries))
    lines = bodies = 0
    for number, row in enumerate(observations):
        while waiting and _comes_first(waiting[-1], row):
            entries += writer.session(waiting.pop())
        wanted = number < options.settings.full_count
        full = wanted and (budget.limit is None or bodies <= budget.limit)
        for entry in writer.row(row, full=full):
            if budget.limit is not None:
                lines += budget.size((entry.plain,))
                bodies += budget.size(entry.body)
                if lines > budget.limit + 1:
                    return Timeline(tuple(entries), len(observations) - number, len(waiting))
            entries.append(entry if full is wanted else replace(entry, shortened=True))
        after = len(observations) - number - 1
        if after and late():
            return Timeline(tuple(entries), after, len(waiting), late=True)
    for session in reversed(waiting):
        entries += writer.session(session)
    return Timeline(tuple(entries), 0, 0)


@dataclass(slots=True)
class _Writer:
    """Writes entries one below the other, and knows what the row above says. What cannot be written
    gives no entry."""

    options: RenderOptions
    fingerprint: tuple[object, ...]
    rendered: Derived[Row, RenderedEntry]
    moment: Moment | None = None
    origin: str = ""

    def row(self, row: Observation, *, full: bool) -> list[Entry]:
        return self.options.lost.attempt(row.store, lambda: self._row(row, full=full))

    def session(self, session: Summary) -> list[Entry]:
        # Its line may have to go, and then another is the one above.
        self.origin = ""
        return self.options.lost.attempt(
            session.store, lambda: session_entry(session, self.options)
        )

    def _row(self, row: Observation, *, full: bool) -> Entry:
        options = self.options
        moment, origin = options.clock.at(row.shown_at), options.origin(row.project)
        same = bool(origin) and origin == self.origin
        time = "" if moment == self.moment else moment.time
        label = (same and options.formatter.same_origin) or origin
        made_of = (self.fingerprint, full, moment, time, label, options.marks(row.type), row.letter)
        known = self.rendered.get(row.row)
        if known is None or known[0] != made_of:
            shown = replace(moment, time=time)
            entry = observation_entry(row, shown, label, options, full=full)
            known = self.rendered.put(row.row, (made_of, entry))
        self.moment, self.origin = moment, origin
        return known[1]


def observation_entry(
    row: Observation, moment: Moment, origin: str, options: RenderOptions, *, full: bool
) -> Entry:
    """`moment` without a time, and `origin` short, where the row above has the same."""
    mark, work_mark = options.marks(row.type)
    title, shortened = _title(row, options)
    read, work = read_tokens(row), max(0, row.discovery_tokens)
    words = RowWords(row.ref, moment.time, mark, origin, title, "")
    figures = [f"~{read:,}t"] if options.settings.show_read_tokens else []
    if options.settings.show_work_tokens and work:
        figures.append(f"{work_mark}{work:,}t")
    plain = line = options.formatter.row(words)
    if figures:
        line = options.formatter.row(replace(words, figures=f"({' '.join(figures)})"))
    return Entry(
        observation=True,
        moment=moment,
        line=line,
        plain=plain,
        mark=mark,
        labelled=bool(origin),
        body=tuple(_body(row, options)) if full else (),
        shortened=shortened,
        work=work,
        read=read,
    )


def session_entry(session: Summary, options: RenderOptions) -> Entry:
    moment = options.clock.at(session.shown_at)
    origin = options.origin(session.project)
    raw = session.request or session.completed or session.learned
    words = options.formatter.text(raw, _title_chars(options)) or "(no request)"
    line = options.formatter.row(
        RowWords(session.ref, moment.time, SESSION_MARK, origin, words, "")
    )
    return Entry(False, moment, line, line, SESSION_MARK, bool(origin))


def read_tokens(row: Observation) -> int:
    """About what it costs to read the row in full, at four characters a token."""
    length = len(row.title) + len(row.subtitle) + len(row.narrative)
    if row.facts:
        length += sum(map(len, row.facts))
    return -(-length // 4)


def _title_chars(options: RenderOptions) -> int | None:
    return None if options.max_chars is None else MAX_TITLE_CHARS


def _title(row: Observation, options: RenderOptions) -> tuple[str, bool]:
    most = _title_chars(options)
    for raw in (row.title, row.subtitle, row.narrative):
        words = options.formatter.text(raw, most) if raw else ""
        if words:
            return words, most is not None and len(raw) > most and words.endswith("…")
    return "(untitled)", False


def _body(row: Observation, options: RenderOptions) -> Iterator[str]:
    """The narrative or the facts, whichever is wanted, else the other."""
    narrative = [row.narrative] if row.narrative else []
    wanted = list(row.facts) if options.settings.full_field == "facts" else narrative
    for raw in wanted or narrative or row.facts:
        words = options.formatter.text(raw, options.max_chars)
        if words:
            yield options.formatter.below(words)


def _comes_first(summary: Summary, row: Observation) -> bool:
    if row.created_at_epoch is None:
        return True
    return summary.created_at_epoch is not None and summary.created_at_epoch >= row.created_at_epoch
