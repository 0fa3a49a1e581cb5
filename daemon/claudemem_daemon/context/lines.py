"""The lines of a context: rows, sessions, days, sections. Pure; one entry is one or more lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from claudemem_daemon.context.voice import Voice
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.settings.model import Settings

SESSION_MARK = "▸"


@dataclass(frozen=True, slots=True)
class Look:
    """What decides how an entry looks; `own` is the name whose rows need no tag."""

    voice: Voice
    settings: Settings
    zone: tzinfo | None
    own: str
    emojis: dict[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the timeline. `day` is its local day; an observation counts as a row."""

    day: str
    text: str
    row: bool
    tagged: bool


def entry(one: Observation, look: Look, *, full: bool) -> Entry:
    """ID, clock, type, title, where it was written; with `full`, its narrative or facts below."""
    day, clock = moment(one.created_at_epoch, look.zone)
    settings = look.settings
    icon = look.emojis.get(one.type.lower()) or look.voice.text(one.type) or "·"
    words = [f"{one.id}", clock, icon, look.voice.text(one.title or one.subtitle or "untitled")]
    if settings.show_read_tokens:
        words.append(f"~{read_tokens(one)}t")
    if settings.show_work_tokens and one.discovery_tokens > 0:
        words.append(f"⚒{one.discovery_tokens}t")
    tag = where(one.key, look)
    lines = [look.voice.item(" ".join(word for word in words if word) + tag)]
    if full:
        lines += [look.voice.below(line) for line in detail(one, look)]
    return Entry(day, "\n".join(lines), True, bool(tag))


def detail(one: Observation, look: Look) -> list[str]:
    """The narrative, or the facts one a line; a label keeps their first words off a line's start."""
    text = look.voice.text
    if look.settings.full_field == "facts" and one.facts:
        return [f"fact: {text(fact)}" for fact in one.facts]
    lines = [f"about: {text(one.subtitle)}"] if one.subtitle and one.title else []
    if one.narrative:
        lines.append(f"story: {text(one.narrative)}")
    elif one.facts:
        lines += [f"fact: {text(fact)}" for fact in one.facts]
    return lines


def session(one: Summary, look: Look) -> Entry:
    day, clock = moment(one.created_at_epoch, look.zone)
    tag = where(one.project, look)
    request = look.voice.text(one.request or one.completed or "session")
    words = [f"S{one.id}", clock, SESSION_MARK, request]
    text = look.voice.item(" ".join(word for word in words if word) + tag)
    return Entry(day, text, False, bool(tag))


def last_summary(one: Summary, look: Look) -> list[str]:
    """What the newest session left behind, a line each."""
    fields = (
        ("asked", one.request),
        ("investigated", one.investigated),
        ("learned", one.learned),
        ("completed", one.completed),
        ("next", one.next_steps),
        ("notes", one.notes),
    )
    lines = [look.voice.item(f"{name}: {look.voice.text(text)}") for name, text in fields if text]
    return [look.voice.section("Last session" + where(one.project, look)), *lines] if lines else []


def with_days(entries: Sequence[Entry], look: Look) -> list[str]:
    """Each entry's text, a day's heading before the first of a day."""
    texts: list[str] = []
    day: str | None = None
    for one in entries:
        texts.append(one.text if one.day == day else f"{look.voice.day(one.day)}\n{one.text}")
        day = one.day
    return texts


def timeline(
    observations: Sequence[Observation],
    summaries: Iterable[Summary],
    look: Look,
    full_count: int,
) -> list[Entry]:
    """Rows in their order, each session before the first row that is not newer."""
    left = list(summaries)
    entries: list[Entry] = []
    for number, one in enumerate(observations):
        epoch = one.created_at_epoch
        while left and epoch is not None and (left[0].created_at_epoch or 0) >= epoch:
            entries.append(session(left.pop(0), look))
        entries.append(entry(one, look, full=number < full_count))
    if not observations:
        entries += [session(one, look) for one in left]
    return entries


def moment(epoch: int | None, zone: tzinfo | None) -> tuple[str, str]:
    """(local day, local clock) of a time in ms; ("undated", "") for one without or out of range."""
    if epoch is None:
        return "undated", ""
    try:
        local = datetime.fromtimestamp(epoch / 1000, zone)
    except (ValueError, OverflowError, OSError):
        return "undated", ""
    return f"{local:%Y-%m-%d}", f"{local:%H:%M}"


def where(key: str, look: Look) -> str:
    """` @name` for what was written in another checkout than the asking one."""
    name = key.rpartition("/")[2]
    return f" @{look.voice.text(name)}" if name and name != look.own else ""


def read_tokens(one: Observation) -> int:
    """About what reading the row in full costs: four characters a token."""
    length = len(one.title) + len(one.subtitle) + len(one.narrative) + sum(map(len, one.facts))
    return -(-length // 4)
