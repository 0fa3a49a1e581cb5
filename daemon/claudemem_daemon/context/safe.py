"""A stranger's text made inert. Pure.

What is in a store was once tool output, a web page, somebody's file. In front of a prompt it must
stay what it is: one line of somebody else's words, that opens no heading, no list, no tag, no link,
no code, and no escape sequence.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

MOST_CHARS: Final = 20_000
"""Of one text. A row with a megabyte in it is shown up to here; the rest is in the store."""

_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MARKUP: Final = str.maketrans(
    {
        "\\": "\\\\",
        "|": "\\|",
        "`": "\\`",
        "[": "\\[",
        "]": "\\]",
        "*": "\\*",
        "~": "\\~",
        "<": "&lt;",
        ">": "&gt;",
    }
)
_ENTITY: Final = re.compile(r"&(?=[A-Za-z#][A-Za-z0-9]{0,31};)")


def one_line(text: str, most: int = MOST_CHARS) -> str:
    """Control characters and line breaks collapsed to blanks, invisible and direction-changing
    characters removed, nothing that the terminal or UTF-8 could choke on."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    if text.isascii():
        return _SPACE.sub(" ", text).strip() if _SPACE.search(text) else text
    kept = "".join(filter(_visible, text.translate(_BREAKS)))
    return _SPACE.sub(" ", kept).strip()


def markdown(text: str, most: int = MOST_CHARS) -> str:
    """One line in which no Markdown and no tag can open; reads as the text after unescaping.

    It must not begin a line: `#`, `-`, `>` and numbers are left as they are.
    """
    return _ENTITY.sub("&amp;", one_line(text, most)).translate(_MARKUP)


_BREAKS: Final = {0x85: " ", 0x2028: " ", 0x2029: " "}


@lru_cache(maxsize=4096)
def _visible(sign: str) -> bool:
    """Not: formatting (zero width, bidirectional overrides, tags), surrogates, private use and
    unassigned characters. The joiner inside an emoji is worth keeping."""
    if sign in ("\u200d", " "):
        return True
    kind = unicodedata.category(sign)
    return kind not in ("Cf", "Cs", "Co", "Cn") or sign.isspace()
