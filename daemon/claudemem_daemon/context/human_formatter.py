"""The context as a person reads it in a terminal: the colours are ours, never the store's. Pure."""

from __future__ import annotations

from claudemem_daemon.context import sanitize
from claudemem_daemon.context.formatter import RowWords


class HumanFormatter:
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

    def origin(self, name: str) -> str:
        return f"[{name}]"

    def command(self, words: str) -> str:
        return f"`{words}`"


def _coloured(code: str, words: str) -> str:
    return f"\x1b[{code}m{words}\x1b[0m"
