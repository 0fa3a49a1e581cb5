"""Rows and session summaries as entries of the timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from claudemem_daemon.context.clock import Moment
from claudemem_daemon.context.entry import Entry, RenderedEntry
from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.selection.model import Observation, Summary

MAX_TITLE_CHARS: Final = 500
"""A longer title, which is a pasted text, would take the room of other rows."""

CHARS_OF_TOKEN: Final = 4
"""Roughly."""
SESSION_MARK: Final = "▸"


class Timeline(NamedTuple):
    """Entries in order, and the number of rows and sessions that were not rendered: those that cannot
    fit, or all that are left once time is over (`late`)."""

    entries: tuple[Entry, ...]
    rows_beyond: int
    sessions_beyond: int
    late: bool = False


def timeline(sessions: Sequence[Summary], request: ContextRequest) -> Timeline:
    """The observations and these sessions, each in their order, a session above the rows that are not
    newer. A row that cannot be written is not counted.
    """
    writer = _Writer(request, request.style)
    observations, limit = request.selection.observations, request.budget.limit
    entries: list[Entry] = []
    waiting = list(reversed(sessions))
    lines = bodies = 0
    for number, row in enumerate(observations):
        while waiting and _comes_first(waiting[-1], row):
            entries += writer.write(waiting.pop())
        wanted = number < request.settings.full_count
        full = wanted and (limit is None or bodies <= limit)
        for entry in writer.write(row, full=full):
            lines += entry.sizes[1]
            bodies += entry.sizes[2]
            if limit is not None and lines > limit + 1:
                return Timeline(tuple(entries), len(observations) - number, len(waiting))
            entries.append(entry if full is wanted else entry._replace(shortened=True))
        after = len(observations) - number - 1
        if after and request.late():
            return Timeline(tuple(entries), after, len(waiting), late=True)
    for session in reversed(waiting):
        entries += writer.write(session)
    return Timeline(tuple(entries), 0, 0)


@dataclass(slots=True)
class _Writer:
    """Writes entries from top to bottom, and leaves out what the row above says."""

    request: ContextRequest
    style: tuple[object, ...]
    moment: Moment | None = None
    """Of the row above. Sessions do not count: their lines may be left out."""
    origin: str = ""

    def write(self, shown: Observation | Summary, *, full: bool = False) -> tuple[Entry, ...]:
        """The entry; none where it cannot be written, which costs that row alone."""
        try:
            return (self._entry(shown, full=full),)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.request.lost.lose(shown.store, error)
            return ()

    def _entry(self, shown: Observation | Summary, *, full: bool) -> Entry:
        request, row = self.request, shown.row
        known = request.rendered.get(row)
        if known is not None and known.style != self.style:
            known = None
        moment = request.clock.at(shown.shown_at) if known is None else known.moment
        origin = request.origin(row.project)
        is_session = isinstance(shown, Summary)
        time, label = moment.time, origin
        if not is_session and moment == self.moment:
            time = ""
        if not is_session and origin and origin == self.origin:
            label = request.formatter.same_origin or origin
        details = (full, time, label, shown.of)
        if known is None or known.details != details:
            said = moment if time == moment.time else moment._replace(time=time)
            if isinstance(shown, Summary):
                entry = _session_entry(shown, said, label, request)
            else:
                entry = _observation_entry(shown, said, label, request, full)
            known = RenderedEntry(self.style, moment, details, entry)
            request.rendered.put(row, known)
        # Not before the entry is made: a row that cannot be written is not above the next one.
        self.origin = "" if is_session else origin
        if not is_session:
            self.moment = moment
        return known.entry


def _observation_entry(
    row: Observation, moment: Moment, origin: str, request: ContextRequest, full: bool
) -> Entry:
    """`moment` has no time, and `origin` is short, where the row above has the same."""
    mark, work_mark = request.marks(row.type)
    title, subtitle, narrative, facts = row.title, row.subtitle, row.narrative, row.facts
    words, shortened = _title((title, subtitle, narrative), request)
    length = len(title) + len(subtitle) + len(narrative) + sum(map(len, facts))
    read, work = -(-length // CHARS_OF_TOKEN), max(0, row.discovery_tokens)
    figures = [f"~{read:,}t"] if request.settings.show_read_tokens else []
    if request.settings.show_work_tokens and work:
        figures.append(f"{work_mark}{work:,}t")
    plain = line = request.formatter.row(row.ref, moment.time, mark, origin, words)
    if figures:
        line = f"{plain} {request.formatter.figures('(' + ' '.join(figures) + ')')}"
    body = tuple(_body(narrative, facts, request)) if full else ()
    size = request.budget.size
    sizes = size((line,)), size((plain,)), size(body)
    return Entry(
        row.of, moment, line, plain, mark, bool(origin), body, shortened, work, read, sizes
    )


def _session_entry(session: Summary, moment: Moment, origin: str, request: ContextRequest) -> Entry:
    raw = session.request or session.completed or session.learned
    words = request.formatter.text(raw, _title_chars(request)) or "(no request)"
    line = request.formatter.row(session.ref, moment.time, SESSION_MARK, origin, words)
    size = request.budget.size((line,))
    return Entry(None, moment, line, line, SESSION_MARK, bool(origin), sizes=(size, size, 0))


def _title_chars(request: ContextRequest) -> int | None:
    return None if request.budget.limit is None else MAX_TITLE_CHARS


def _title(texts: Sequence[str], request: ContextRequest) -> tuple[str, bool]:
    """The first text with anything to show, and whether it was cut."""
    most = _title_chars(request)
    for raw in texts:
        words = request.formatter.text(raw, most) if raw else ""
        if words:
            return words, most is not None and len(raw) > most and words.endswith("…")
    return "(untitled)", False


def _body(narrative: str, facts: tuple[str, ...], request: ContextRequest) -> Iterator[str]:
    """The narrative or the facts, by the setting; the other one where the first is empty."""
    whole = (narrative,) if narrative else ()
    wanted = facts if request.settings.full_field == "facts" else whole
    for raw in wanted or whole or facts:
        words = request.formatter.text(raw, request.budget.limit)
        if words:
            yield request.formatter.below(words)


def _comes_first(summary: Summary, row: Observation) -> bool:
    if row.row.epoch is None:
        return True
    return summary.row.epoch is not None and summary.row.epoch >= row.row.epoch
