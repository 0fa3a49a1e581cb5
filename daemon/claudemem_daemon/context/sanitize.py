"""A stranger's text made inert. Pure.

What a store holds was once tool output, a web page, somebody's file name. In front of a prompt it
stays one line of somebody else's words: no heading, list, table, quote, tag, link or code opens in
it, and no escape sequence reaches a terminal. Read as Markdown it gives back the same words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ELLIPSIS: Final = "…"

_TERMINAL: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links; only where they end
)
_UNSEEN: Final = re.compile(
    # Not letters, digits or anything of printable ASCII: what is left is looked at one by one.
    r"[^\w\s!-~]"
)
_HIDDEN: Final = re.compile(
    # Letters and marks by their category, yet unseen: fillers, the grapheme joiner, and selectors
    # that can spell out a hidden text. (The two selectors that emoji use are no harm.)
    r"[\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
_KEPT_FORMAT: Final = "\ufe0e\ufe0f"
_JOINER: Final = "\u200d"
_SKIN_TONES: Final = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_MARKUP: Final = re.compile(
    r"[`|\[\]<]"
    r"|\\(?=[!-/:-@\[-`{-~]|$)"  # a backslash that Markdown would take for an escape
    r"|&(?=#?[0-9A-Za-z]{1,32};)"  # an entity that a reader would decode
)
_MARKUP_SIGNS: Final = "`|[]<\\&"
"""What markup begins with; to look for each is much faster than to search for the pattern."""
_LEADING: Final = re.compile(r"[#>+=~*_-]|[0-9]{1,9}(?=[.)])")
_ENTITIES: Final = {"<": "&lt;", "&": "&amp;"}


def one_line(raw: str, max_chars: int | None = None) -> str:
    """`raw` as one line of visible characters: line breaks, tabs and runs of blanks become one
    blank; control, zero-width and direction characters and terminal sequences are gone; lone
    surrogates are U+FFFD. At most `max_chars` characters, the cut marked by an ellipsis.
    """
    # A megabyte need not be cleaned to show the first line of it.
    looked_at = len(raw) if max_chars is None else 8 * max_chars + 1024
    text = raw[:looked_at]
    if not text.isprintable():
        # Breaks first: they are not printable either, and are all that most texts have.
        text = " ".join(text.split())
        if not text.isprintable():
            text = _UNSEEN.sub(_visible, _TERMINAL.sub("", text))
    if not text.isascii():
        text = _HIDDEN.sub("", text)
    # Of all blanks only the plain one can be left.
    untidy = "  " in text or text.startswith(" ") or text.endswith(" ")
    line = " ".join(text.split()) if untidy else text
    if max_chars is None or (len(line) <= max_chars and len(raw) <= looked_at):
        return line
    return clipped(line, max_chars)


def inert(raw: str, max_chars: int | None = None) -> str:
    """`one_line`, with what Markdown or a tag reader would act on escaped, also at its start."""
    line = one_line(raw, max_chars)
    if any(sign in line for sign in _MARKUP_SIGNS):
        line = _MARKUP.sub(_escape, line)
    first = _LEADING.match(line)
    if first is None:
        return line
    digits = first.end() if first.group().isdigit() else 0
    return f"{line[:digits]}\\{line[digits:]}"


def clipped(line: str, max_chars: int) -> str:
    """At most `max_chars` characters of `line`, at a blank where one is near, never between a character
    and its accent, with an ellipsis."""
    end = max(0, max_chars - 1)
    if end < len(line):
        blank = line.rfind(" ", max(0, end - 40), end + 1)
        end = blank if blank > 0 else end
    while end > 0 and _clings(line[end : end + 1]):
        end -= 1
    return line[:end].rstrip() + ELLIPSIS


def _clings(sign: str) -> bool:
    return sign != "" and (unicodedata.combining(sign) != 0 or sign in _KEPT_FORMAT)


def _visible(found: re.Match[str]) -> str:
    sign = found.group()
    if sign in _KEPT_FORMAT:
        return sign
    if sign == _JOINER and _joins_emojis(found):
        return sign
    kind = unicodedata.category(sign)
    if kind == "Cs":
        return "\ufffd"
    # Unassigned ones stay: they are next year's emoji.
    return "" if kind in ("Cc", "Cf") else sign


def _joins_emojis(found: re.Match[str]) -> bool:
    """Whether a joiner stands where an emoji sequence has one; anywhere else it could hide."""
    before = found.string[max(0, found.start() - 2) : found.start()].removesuffix("\ufe0f")[-1:]
    after = found.string[found.end() : found.end() + 1]
    return all(
        sign != "" and (unicodedata.category(sign) == "So" or sign in _SKIN_TONES)
        for sign in (before, after)
    )


def _escape(found: re.Match[str]) -> str:
    sign = found.group()
    return _ENTITIES.get(sign) or "\\" + sign
