"""The same words in a form for a model and in one for a person. Pure.

For a model a row is a line that begins with its id. No text from a store begins a line, and markup in
it is escaped, so that only we write `# [`, `## `, `- `, `[origin]` or an id at the start of a line. In
a terminal no colour comes from a store.
"""

from __future__ import annotations

from claudemem_daemon.context import sanitize


class Formatter:
    """For a model. `text` sanitizes a stranger's words; the other methods take safe words."""

    same_origin = '["]'
    """Stands for the origin of the row above; empty where the origin is repeated."""

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

    def row(self, ref: str, time: str, mark: str, origin: str, title: str) -> str:
        """`time` and `origin` may be empty."""
        return " ".join(filter(None, (ref, time, mark, origin, title)))

    def figures(self, words: str) -> str:
        return words

    def below(self, words: str) -> str:
        """A line that belongs to the row above it."""
        return f" · {words}"

    def field(self, label: str, words: str) -> str:
        return f"- {label}: {words}"

    def origin(self, name: str) -> str:
        label = f"[{name}]"
        # Of a project with the name of our sign.
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

    def row(self, ref: str, time: str, mark: str, origin: str, title: str) -> str:
        where = _coloured("35", origin) if origin else ""
        return super().row(_coloured("2", f"{ref:>6}"), f"{time:5}", mark, where, title)

    def figures(self, words: str) -> str:
        return _coloured("2", words)

    def below(self, words: str) -> str:
        return f"         {words}"

    def field(self, label: str, words: str) -> str:
        return f"  {_coloured('1', label)}: {words}"


def _coloured(code: str, words: str) -> str:
    return f"\x1b[{code}m{words}\x1b[0m"
