"""Makes a stranger's text inert. Pure.

Text in a store was once the output of a tool, a web page or a file name. In front of a prompt it is
one line of quoted words: it opens no heading, list, table, quote, tag, link or code, and no escape
sequence reaches a terminal. Read as Markdown it has the same words.
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
    # Neither a letter, a digit nor printable ASCII: these are decided one by one.
    r"[^\w\s!-~]"
)
_HIDDEN: Final = re.compile(
    # Invisible, so that they could spell out a hidden text: Unicode's Default_Ignorable_Code_Point
    # without the joiner and what `_UNSEEN` finds; and the blank Braille cell, the null notehead and
    # Khitan's filler.
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    r"\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
_MARKS: Final = re.compile(r"[^\w\s!-~]{5,}")
"""Where combining marks could be piled up: `re` does not count them as letters."""
MAX_MARKS: Final = 4
"""Combining marks on one letter: no script has more, and a pile of them covers other lines."""
_SELECTORS: Final = "\ufe0e\ufe0f"
"""The variation selectors for text and for emoji, which have a use after a sign that can be both."""
_TWO_FACED: Final = "\u203c\u2049\u2139\u3030"
"""Such signs that are not in Unicode's symbol categories."""
_KEYCAP: Final = "\u20e3"
_JOINER: Final = "\u200d"
_SKIN_TONES: Final = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_MARKUP: Final = re.compile(
    r"[`|\[\]<]"
    r"|\\(?=[!-/:-@\[-`{-~]|$)"  # a backslash that Markdown would take for an escape
    r"|&(?=#?[0-9A-Za-z]{1,32};)"  # an entity that a reader would decode
)
TAG: Final = re.compile(r"<(?![\s=<\d-])")
_HEADING: Final = re.compile(r"#{1,6}(?: |$)")
_MARKUP_SIGNS: Final = "`|[]<\\&"
"""What markup begins with: `in` is much faster than the pattern."""
_LEADING: Final = re.compile(r"[#>+=~*_-]|[0-9]{1,9}(?=[.)])")
_ENTITIES: Final = {"<": "&lt;", "&": "&amp;"}


def one_line(raw: str, max_chars: int | None = None) -> str:
    """`raw` as one line of visible characters: line breaks, tabs and runs of blanks become one blank;
    control, zero-width and direction characters and terminal sequences are removed; lone surrogates
    become U+FFFD. At most `max_chars` characters; a cut ends in an ellipsis.
    """
    # To show the beginning of a megabyte, the rest need not be cleaned.
    looked_at = len(raw) if max_chars is None else 8 * max_chars + 1024
    text = raw[:looked_at]
    if not text.isascii():
        text = _HIDDEN.sub(_selector, text)
    if not text.isprintable():
        # Line breaks first: most texts have no other unprintable characters.
        text = " ".join(text.split())
        if not text.isprintable():
            text = _UNSEEN.sub(_visible, _TERMINAL.sub("", text))
    if not text.isascii():
        text = _MARKS.sub(_few_marks, text)
    untidy = "  " in text or text.startswith(" ") or text.endswith(" ")
    line = " ".join(text.split()) if untidy else text
    if max_chars is None or (len(line) <= max_chars and len(raw) <= looked_at):
        return line
    return clipped(line, max_chars)


def inert(raw: str, max_chars: int | None = None) -> str:
    """`one_line`, with escapes for what Markdown or a reader of tags would act on."""
    line = one_line(raw, max_chars)
    if any(sign in line for sign in _MARKUP_SIGNS):
        line = _MARKUP.sub(_escape, line)
    first = _LEADING.match(line)
    if first is None:
        return line
    digits = first.end() if first.group().isdigit() else 0
    return f"{line[:digits]}\\{line[digits:]}"


def tagless(text: str) -> str:
    """`text`, in which `<` begins no tag; comparisons and arrows stay. Nor is it a heading."""
    shown = TAG.sub("&lt;", text)
    return "\\" + shown if _HEADING.match(shown) else shown


def clipped(line: str, max_chars: int) -> str:
    """At most `max_chars` characters of `line`, with an ellipsis; cut at a blank where one is near, and
    never between a character and its accent."""
    end = max(0, max_chars - 1)
    if end < len(line):
        blank = line.rfind(" ", max(0, end - 40), end + 1)
        end = blank if blank > 0 else end
    while end > 0 and _clings(line[end : end + 1]):
        end -= 1
    return line[:end].rstrip() + ELLIPSIS


def _clings(sign: str) -> bool:
    return sign != "" and (unicodedata.category(sign)[0] == "M" or sign in _SELECTORS)


def _visible(found: re.Match[str]) -> str:
    sign = found.group()
    if sign == _JOINER and _joins_emojis(found):
        return sign
    kind = unicodedata.category(sign)
    # Characters of private use have no meaning of their own.
    if kind in ("Cs", "Co"):
        return "\ufffd"
    # Unassigned ones stay: they may be next year's emoji.
    return "" if kind in ("Cc", "Cf") else sign


def _selector(found: re.Match[str]) -> str:
    """A selector after a sign that can be text or emoji; empty for all other hidden characters."""
    sign, at = found.group(), found.start()
    base = found.string[at - 1 : at]
    if sign not in _SELECTORS or base == "" or _HIDDEN.match(base):
        return ""
    two_faced = base in _TWO_FACED or unicodedata.category(base) in ("So", "Sm")
    keycap = base in "#*0123456789" and found.string[at + 1 : at + 2] == _KEYCAP
    return sign if (two_faced and not base.isascii()) or keycap else ""


def _few_marks(found: re.Match[str]) -> str:
    signs: list[str] = []
    marks = 0
    for sign in found.group():
        marks = marks + 1 if unicodedata.category(sign) in ("Mn", "Me") else 0
        if marks <= MAX_MARKS:
            signs.append(sign)
    return "".join(signs)


def _joins_emojis(found: re.Match[str]) -> bool:
    """Whether a joiner is part of an emoji sequence."""
    before = found.string[max(0, found.start() - 2) : found.start()].removesuffix("\ufe0f")[-1:]
    after = found.string[found.end() : found.end() + 1]
    return all(
        sign != "" and (unicodedata.category(sign) == "So" or sign in _SKIN_TONES)
        for sign in (before, after)
    )


def _escape(found: re.Match[str]) -> str:
    sign = found.group()
    return _ENTITIES.get(sign) or "\\" + sign
