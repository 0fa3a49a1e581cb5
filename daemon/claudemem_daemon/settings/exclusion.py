"""Projects that are never read from or answered: globs over the paths of checkouts. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final


class Exclusions:
    """Globs, each made into a matcher once.

    `*` and `?` stay inside one folder name, `**` crosses folders. A pattern that starts with `/` is
    matched against the path from its beginning, any other from any folder on: `*-scratch` is a folder of such a name anywhere, `work/tmp` those two in a row. What
    matches takes everything below it along; `folder/**` means the folder as well. Unicode forms of
    one name are one name.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._matchers = [(pattern, _matcher(nfc(pattern))) for pattern in patterns]

    def excluding(self, path: str) -> str | None:
        """The first of the patterns that a checkout's path falls under."""
        text = nfc(path)
        found = (pattern for pattern, matcher in self._matchers if matcher.search(text))
        return next(found, None)


def excluding(path: str, patterns: Iterable[str]) -> str | None:
    """As `Exclusions.excluding`, for one path."""
    return Exclusions(patterns).excluding(path)


def nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


_START: Final = r"(?:\A|(?<=/))"
_END: Final = r"(?:/|\Z)"


def _matcher(pattern: str) -> re.Pattern[str]:
    if not pattern:
        return re.compile(r"(?!)")
    trimmed = pattern.rstrip("/")
    while trimmed.endswith("/**"):
        trimmed = trimmed.removesuffix("/**").rstrip("/")
    start = r"\A" if pattern.startswith("/") else _START
    return re.compile(start + _translate(trimmed), re.DOTALL)


def _translate(pattern: str) -> str:
    """The pattern as a regular expression that never tries a combination twice.

    Of the text after a star the first occurrence is taken and never given up (an atomic group): a
    later one would only leave less for the rest. A plain `.*` would try every way to divide a path
    among the stars, which takes years with twenty of them.
    """
    out = ""
    leaps = re.split(r"(\*\*+/*)", pattern)
    for number in range(0, len(leaps), 2):
        steps = [_literal(step) for step in leaps[number].split("*")]
        if number == len(leaps) - 1:
            steps[-1] += _END
        text = steps[0] + "".join(f"(?>[^/]*?{step})" for step in steps[1:])
        if number == 0:
            out = text
        else:
            folder = _START if leaps[number - 1].endswith("/") else ""
            out += f"(?>.*?{folder}{text})"
    return out


def _literal(text: str) -> str:
    return "".join("[^/]" if sign == "?" else re.escape(sign) for sign in text)
