"""What a renderer is: one way to say the same things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of one timeline line, all made safe; empty ones are not said."""

    number: str
    time: str
    mark: str
    place: str
    """Where it was written, when that is not where we are."""
    title: str
    figures: str


class Style(Protocol):
    """`text` makes a stranger's words safe for its medium; all others dress words that are safe."""

    def text(self, raw: str, most: int | None = None) -> str: ...

    def title(self, words: str) -> str: ...

    def aside(self, words: str) -> str: ...

    def warning(self, words: str) -> str: ...

    def heading(self, words: str) -> str: ...

    def row(self, words: RowWords) -> str: ...

    def below(self, words: str) -> str:
        """A line that belongs to the row above it."""
        ...

    def field(self, label: str, words: str) -> str: ...

    def place(self, name: str) -> str:
        """How a row says where it was written."""
        ...

    def command(self, words: str) -> str: ...
