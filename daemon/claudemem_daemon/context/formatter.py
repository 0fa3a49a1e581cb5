"""One way to write the same words, for a model or for a person. Pure.

For a model a row is a line that begins with its id. No text of a store begins a line, and its markup
is escaped: `# [`, `## `, `- `, `[origin]` and an id at the start of a line are ours alone. In a
person's terminal the colours are ours, never the store's.
"""

from __future__ import annotations

from dataclasses import dataclass

from claudemem_daemon.context import sanitize


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of one timeline line, sanitized; empty ones are left out. `origin` is where it was
    written, when that is not the asking checkout."""

    ref: str
    time: str
    mark: str
    origin: str
    title: str
    figures: str


class Formatter:
    """For a model. `text` sanitizes a stranger's words; all others format words that are."""

    same_origin = '["]'
    """Short for the origin of the row above; empty where it is always written out."""

    def text(self, raw: str, max_chars: int | None = None) -> str:
        return sanitize.inert(raw, max_chars)

    def title(self, words: str) -> str:
        return f"# {words}"

    def aside(self, words: str) -> str:
        return words

    def warning(self, words: str) -> str:
        return f"Warning: {words}"

    def heading(self, words: str) -> str:
        return f"## {words}"

    def row(self, words: RowWords) -> str:
        parts = (words.ref, words.time, words.mark, words.origin, words.title, words.figures)
        return " ".join(part for part in parts if part)

    def below(self, words: str) -> str:
        """A line that belongs to the row above it."""
        return f" · {words}"

    def field(self, label: str, words: str) -> str:
        return f"- {label}: {words}"

    def origin(self, name: str) -> str:
        label = f"[{name}]"
        # A project may be called like our sign; escaped it reads as its name.
        return f"[\\{name}]" if label == self.same_origin else label

    def command(self, words: str) -> str:
        return f"`{words}`"


class HumanFormatter(Formatter):
    same_origin = ""

    def text(self, raw: str, max_chars: int | None = None) -> str:
        return sanitize.one_line(raw, max_chars)

    def title(self, words: str) -> str:
        return _coloured("1;36", words)

    def aside(self, words: str) -> str:
        return _coloured("2", words)

    def warning(self, words: str) -> str:
        return _coloured("33", f"! {words}")

    def heading(self, words: str) -> str:
        return _coloured("1;34", words)

    def row(self, words: RowWords) -> str:
        ref = _coloured("2", f"{words.ref:>6}")
        origin = _coloured("35", words.origin) if words.origin else ""
        figures = _coloured("2", words.figures) if words.figures else ""
        parts = (ref, f"{words.time:5}", words.mark, origin, words.title, figures)
        return " ".join(part for part in parts if part)

    def below(self, words: str) -> str:
        return f"         {words}"

    def field(self, label: str, words: str) -> str:
        return f"  {_coloured('1', label)}: {words}"


def _coloured(code: str, words: str) -> str:
    return f"\x1b[{code}m{words}\x1b[0m"
