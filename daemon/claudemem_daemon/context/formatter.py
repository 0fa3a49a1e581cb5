"""What a formatter is: one way to write the same words, for a model or for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of one timeline line, sanitized; empty ones are left out."""

    ref: str
    time: str
    mark: str
    origin: str
    """Where it was written, when that is not the asking checkout."""
    title: str
    figures: str


class Formatter(Protocol):
    """`text` sanitizes a stranger's words for the medium; all others format words that are."""

    same_origin: str
    """Short for the origin of the row above; empty where it is always written out."""

    def text(self, raw: str, max_chars: int | None = None) -> str: ...

    def title(self, words: str) -> str: ...

    def aside(self, words: str) -> str: ...

    def warning(self, words: str) -> str: ...

    def heading(self, words: str) -> str: ...

    def row(self, words: RowWords) -> str: ...

    def below(self, words: str) -> str:
        """A line that belongs to the row above it."""
        ...

    def field(self, label: str, words: str) -> str: ...

    def origin(self, name: str) -> str: ...

    def command(self, words: str) -> str: ...
