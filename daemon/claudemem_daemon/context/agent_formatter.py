"""The context as a model reads it: a row is a line that begins with its id. Pure.

No text of a store begins a line, and its markup is escaped: `# [`, `## `, `- `, `[origin]` and an id
at the start of a line are ours alone.
"""

from __future__ import annotations

from claudemem_daemon.context import sanitize
from claudemem_daemon.context.formatter import RowWords


class AgentFormatter:
    same_origin = '["]'

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
        return f" · {words}"

    def field(self, label: str, words: str) -> str:
        return f"- {label}: {words}"

    def origin(self, name: str) -> str:
        label = f"[{name}]"
        # A project may be called like our sign; escaped it reads as its name.
        return f"[\\{name}]" if label == self.same_origin else label

    def command(self, words: str) -> str:
        return f"`{words}`"
