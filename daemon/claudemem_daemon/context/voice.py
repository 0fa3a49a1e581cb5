"""Two ways to say the same: Markdown for a model, colours for a person. Pure.

A voice makes a stranger's text safe for its medium and dresses our own words; layout is `lines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.context.safe import markdown, one_line


@dataclass(frozen=True, slots=True)
class Voice:
    """`text` takes a stranger's words; the others take words that are already safe."""

    text: Callable[[str], str]
    title: Callable[[str], str]
    section: Callable[[str], str]
    day: Callable[[str], str]
    item: Callable[[str], str]
    below: Callable[[str], str]
    quiet: Callable[[str], str]


def _prefix(mark: str) -> Callable[[str], str]:
    return lambda words: f"{mark}{words}"


def _colour(code: str, mark: str = "") -> Callable[[str], str]:
    return lambda words: f"{mark}\x1b[{code}m{words}\x1b[0m"


AGENT: Final = Voice(
    text=markdown,
    title=_prefix("# "),
    section=_prefix("## "),
    day=_prefix("### "),
    item=_prefix("- "),
    below=_prefix("  "),
    quiet=_prefix(""),
)

HUMAN: Final = Voice(
    text=one_line,
    title=_colour("1;36"),
    section=_colour("1"),
    day=_colour("1;34"),
    item=_prefix("  "),
    below=_prefix("      "),
    quiet=_colour("2"),
)
