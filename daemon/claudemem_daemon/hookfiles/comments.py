"""Comments in JSON, as some assistants take them. Pure."""

from __future__ import annotations

import re
from typing import Final

_STRING_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_NO_BREAK: Final = re.compile(r"[^\r\n]")


def blanked(text: str) -> str:
    """`text` with spaces for its comments, so that every value stays where it is."""
    return _STRING_OR_COMMENT.sub(
        lambda found: found[0] if found[0][0] == '"' else _NO_BREAK.sub(" ", found[0]), text
    )


def comments(text: str) -> list[str]:
    return [found[0] for found in _STRING_OR_COMMENT.finditer(text) if found[0][0] == "/"]


def without_comma(gap: str) -> str:
    """The text between two members of a container, without the comma."""
    at = blanked(gap).find(",")
    return gap if at < 0 else gap[:at] + gap[at + 1 :]
