"""Everything a context could say, before it is known how much of it fits. Pure."""

from __future__ import annotations

from collections.abc import Callable
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
