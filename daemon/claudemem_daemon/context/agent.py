"""The context as a model reads it: Markdown, each entry one list item. Pure.

Store text never stands at the start of a line and its brackets are escaped: `# [`, `## `, `- ` and
`[place]` are ours alone.
"""

from __future__ import annotations

from claudemem_daemon.context import safe
from claudemem_daemon.context.style import RowWords


class AgentStyle:
    def text(self, raw: str, most: int | None = None) -> str:
        return safe.inert(raw, most)

    def title(self, words: str) -> str:
        return f"# {words}"

    def aside(self, words: str) -> str:
        return words

    def warning(self, words: str) -> str:
        return f"Warning: {words}"

    def heading(self, words: str) -> str:
        return f"## {words}"

    def row(self, words: RowWords) -> str:
        parts = (words.number, words.time, words.mark, words.place, words.title, words.figures)
        return "- " + " ".join(part for part in parts if part)

    def below(self, words: str) -> str:
        return f"  · {words}"

    def field(self, label: str, words: str) -> str:
        return f"- {label}: {words}"

    def place(self, name: str) -> str:
        return f"[{name}]"

    def command(self, words: str) -> str:
        return f"`{words}`"
