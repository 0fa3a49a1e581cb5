"""Everything a context could say, before it is known how much of it fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from claudemem_daemon.context.entries import Timeline
from claudemem_daemon.context.formatter import Formatter

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A section after the timeline, from its whole text to its shortest; each has all its lines.
    No version: there is no such section."""

    versions: tuple[Lines, ...] = ()

    def at(self, shortness: int) -> Lines:
        return self.versions[min(shortness, len(self.versions) - 1)] if self.versions else ()


@dataclass(frozen=True, slots=True)
class Draft:
    """`lean_head` is the least that may be above rows: it still says what they are. `footer` gets
    the number of shown rows, tokens to read and tokens of work. `advice` follows the words on what
    was left out: how to see it."""

    formatter: Formatter
    head: Lines
    lean_head: Lines
    timeline: Timeline
    summary: Section
    prior: Section
    footer: Callable[[int, int, int], Lines]
    advice: str

    @property
    def rows(self) -> int:
        """All observations, also those that no budget could hold."""
        return self.timeline.rows_beyond + sum(one.observation for one in self.timeline.entries)


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a draft is shown: the newest `rows` and `sessions`; of the rows that have them,
    the newest `bodies`; the sections at a grade of shortness; `lean` is without legend, sections
    and footer."""

    rows: int
    sessions: int
    bodies: int
    figures: bool = True
    shortness: int = 0
    summary: bool = True
    prior: bool = True
    lean: bool = False


@dataclass(frozen=True, slots=True)
class Losses:
    """What a cut keeps from the reader."""

    rows: int
    details: int
    sessions: int
    figures: bool
    texts: bool

    def sentence(self) -> str:
        """Empty when nothing is lost."""
        return ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.rows:
            yield f"{_counted(self.rows, 'older observation')} left out"
        if self.details:
            yield f"{_counted(self.details, 'observation')} without all detail"
        if self.sessions:
            yield f"{_counted(self.sessions, 'session line')} left out"
        if self.figures:
            yield "token figures left out"
        if self.texts:
            yield "last session shortened"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
