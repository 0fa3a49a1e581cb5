"""Rows and session summaries as entries of the timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from claudemem_daemon.context.budget import Unit, size
from claudemem_daemon.context.clock import Clock, Moment
from claudemem_daemon.context.places import Places
from claudemem_daemon.context.style import RowWords, Style
from claudemem_daemon.derived import Derived
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.settings.model import ModeItem, Settings

TITLE_CHARS: Final = 500
"""A title beyond this is somebody's paste: it would push out other rows whole."""

SESSION_MARK: Final = "▸"
WORK_MARK: Final = "⚒"
MOST_FILES: Final = 12


@dataclass(frozen=True, slots=True)
class Look:
    """What decides how an entry reads. `most` bounds one text in characters (None = no bound),
    `stores` gives the letter of rows whose id is not one of the shared store."""

    style: Style
    clock: Clock
    places: Places
    settings: Settings
    types: Mapping[str, ModeItem]
    stores: Mapping[str, str]
    most: int | None
    marks: dict[str, str] = field(default_factory=dict)
    here: dict[str, str] = field(default_factory=dict)
    """What types and projects read as, made once for all rows."""

    def of_all_rows(self) -> tuple[object, ...]:
        """All that an entry is made of, but its row and what depends on that."""
        settings = self.settings
        return (
            type(self.style),
            self.clock,
            self.most,
            settings.show_read_tokens,
            settings.show_work_tokens,
            settings.full_field,
        )

    def mark(self, kind: str) -> str:
        """The emoji of a type, else its name."""
        if kind not in self.marks:
            item = self.types.get(kind.lower())
            emoji = self.style.text(item.emoji, 8) if item else ""
            self.marks[kind] = emoji or self.style.text(kind, 24) or "·"
        return self.marks[kind]

    def place(self, project: str) -> str:
        """Where rows of a project were written; empty for here."""
        if project not in self.here:
            name = self.style.text(self.places.of(project), 60)
            self.here[project] = self.style.place(name) if name else ""
        return self.here[project]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the timeline, ready to be shown with more or less of itself.

    day, offset  the local day it belongs to, and its zone offset
    line, plain  its own line, with and without token figures
    subtitle, body
                 lines below it, where it is shown in full
    mark         what its type shows as, for the legend
    shortened    its line had to be cut, or its detail could never fit
    """

    observation: bool
    day: str
    offset: str
    line: str
    plain: str
    mark: str
    placed: bool
    subtitle: str = ""
    body: tuple[str, ...] = ()
    shortened: bool = False
    work: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """An entry and everything beside its row that it was made of."""

    look: tuple[object, ...]
    entry: Entry


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries in order, and how many of each kind are not among them: rows that no budget of this
    size can hold are not even made, nor any after time was over (`late`)."""

    entries: tuple[Entry, ...]
    rows_beyond: int
    sessions_beyond: int
    late: bool = False


def timeline(
    observations: Sequence[Observation],
    summaries: Sequence[Summary],
    look: Look,
    full_count: int,
    limit: int | None,
    unit: Unit,
    late: Callable[[], bool] = lambda: False,
    written: Derived[Observation, Written] | None = None,
) -> Timeline:
    """Both lists in their own order, a session above the rows that are not newer; at most what
    `limit` units could hold, and what was made before it got `late`. Entries `written` before are
    taken again."""
    known = written if written is not None else Derived[Observation, Written]()
    of_all = look.of_all_rows()
    entries: list[Entry] = []
    waiting = list(reversed(summaries))
    lines = details = rows = 0
    ended = False
    for number, one in enumerate(observations):
        while waiting and _comes_first(waiting[-1], one):
            entries.append(session_entry(waiting.pop(), look))
        full = number < full_count and (limit is None or details <= limit)
        made = _entry(one, look, of_all, known, full=full)
        if limit is not None:
            lines += size(made.plain, unit) + 1
            if made.body:
                details += sum(size(line, unit) + 1 for line in made.body)
            if lines > limit + 1:
                break
        if number < full_count and not full:
            made = replace(made, shortened=True)
        entries.append(made)
        rows += 1
        if late() and rows < len(observations):
            ended = True
            break
    else:
        entries.extend(session_entry(one, look) for one in reversed(waiting))
        waiting = []
    return Timeline(tuple(entries), len(observations) - rows, len(waiting), ended)


def _entry(
    one: Observation,
    look: Look,
    of_all: tuple[object, ...],
    known: Derived[Observation, Written],
    *,
    full: bool,
) -> Entry:
    of = (of_all, full, look.mark(one.type), look.place(one.project))
    written = known.get(one)
    if written is None or written.look != of:
        written = known.put(one, Written(of, observation_entry(one, look, full=full)))
    return written.entry


def observation_entry(one: Observation, look: Look, *, full: bool) -> Entry:
    moment = look.clock.at(one.created_at_epoch)
    mark = look.mark(one.type)
    most = None if look.most is None else TITLE_CHARS
    title, shortened = _title(one, look, most)
    place = look.place(one.project)
    read = read_tokens(one)
    line, plain = _lines(
        look,
        one.ref,
        moment,
        mark,
        place,
        title,
        figures(read, one.discovery_tokens, look.settings),
    )
    return Entry(
        observation=True,
        day=moment.day,
        offset=moment.offset,
        line=line,
        plain=plain,
        mark=mark,
        placed=bool(place),
        subtitle=_subtitle(one, look) if full else "",
        body=tuple(_body(one, look)) if full else (),
        shortened=shortened,
        work=max(0, one.discovery_tokens),
        read=read,
    )


def session_entry(one: Summary, look: Look) -> Entry:
    moment = look.clock.at(one.created_at_epoch)
    place = look.place(one.project)
    most = None if look.most is None else TITLE_CHARS
    words = look.style.text(one.request or one.completed or one.learned, most) or "(no request)"
    line, plain = _lines(look, one.ref, moment, SESSION_MARK, place, words, "")
    return Entry(False, moment.day, moment.offset, line, plain, SESSION_MARK, bool(place))


def read_tokens(one: Observation) -> int:
    """About what it costs to read the row in full, at four characters a token."""
    length = len(one.title) + len(one.subtitle) + len(one.narrative)
    if one.facts:
        length += sum(map(len, one.facts))
    return -(-length // 4)


def figures(read: int, work: int, settings: Settings) -> str:
    parts = [f"~{read:,}t"] if settings.show_read_tokens else []
    if settings.show_work_tokens and work > 0:
        parts.append(f"{WORK_MARK}{work:,}t")
    return f"({' '.join(parts)})" if parts else ""


def _lines(
    look: Look, number: str, moment: Moment, mark: str, place: str, title: str, numbers: str
) -> tuple[str, str]:
    plain = look.style.row(RowWords(number, moment.time, mark, place, title, ""))
    if not numbers:
        return plain, plain
    return look.style.row(RowWords(number, moment.time, mark, place, title, numbers)), plain


def _title(one: Observation, look: Look, most: int | None) -> tuple[str, bool]:
    for raw in (one.title, one.subtitle, one.narrative):
        words = look.style.text(raw, most) if raw else ""
        if words:
            return words, most is not None and len(raw) > most and words.endswith("…")
    return "(untitled)", False


def _subtitle(one: Observation, look: Look) -> str:
    words = look.style.text(one.subtitle, look.most) if one.title.strip() else ""
    return look.style.below(words) if words else ""


def _body(one: Observation, look: Look) -> Iterator[str]:
    """The narrative or the facts, whichever is wanted, else the other; then the files."""
    style = look.style
    narrative = [one.narrative] if one.narrative else []
    wanted = list(one.facts) if look.settings.full_field == "facts" else narrative
    for raw in wanted or narrative or one.facts:
        words = style.text(raw, look.most)
        if words:
            yield style.below(words)
    files = list(dict.fromkeys((*one.files_modified, *one.files_read)))
    if files:
        shown = files if look.most is None else files[:MOST_FILES]
        more = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
        names = ", ".join(style.text(name, look.most) for name in shown)
        yield style.below(f"files: {names}{more}")


def _comes_first(summary: Summary, one: Observation) -> bool:
    if one.created_at_epoch is None:
        return True
    return summary.created_at_epoch is not None and summary.created_at_epoch >= one.created_at_epoch
