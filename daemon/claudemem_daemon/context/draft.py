"""Everything a context could say, before it is known how much of it fits. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from claudemem_daemon.context.entries import Timeline
from claudemem_daemon.context.formatter import Formatter

Lines = tuple[str, ...]


Section = Callable[[int], Lines]
"""All lines of a section after the timeline, from its whole text (0) to its shortest (2); none where
there is no such section."""


def no_section(_shortness: int) -> Lines:
    return ()


class Draft(NamedTuple):
    """`lean_head` is the least that may be above rows: it still says what they are, and on a second
    line that something is missing. `footer` gets
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
