"""Letter case alike in SQL and in Python: SQLite's `lower` knows ASCII letters alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FINAL_SIGMA: Final = "\u03c2"
_SIGMA: Final = "\u03c3"
_DOTTED: Final = "\u0130"  # lower() makes two characters of this one alone


def lower(text: str) -> str:
    """As `lowered` has it: independent of the place in the word, unlike `str.lower`."""
    return text.lower().replace(_FINAL_SIGMA, _SIGMA)


def lowered(expression: str, names: Iterable[str]) -> str:
    """SQL that is equal to one of `names`, which come from `lower`, where the text of `expression`
    is but for letter case."""
    found = f"lower({expression})"
    letters = {letter for name in names for letter in name if not letter.isascii()}
    for small in sorted(letters):
        for capital in sorted({small.upper(), small.title(), *_MORE.get(small, ())} - {small}):
            if len(capital) == 1:
                found = f"replace({found}, '{capital}', '{_DOTS.get(capital, small)}')"
    return found


_DOTS: Final = {_DOTTED: _DOTTED.lower()}
_MORE: Final = {
    _SIGMA: (_FINAL_SIGMA,),
    "\u0307": (_DOTTED,),
    "\u00e5": ("\u212b",),
    "\u03b8": ("\u03f4",),
    "\u00df": ("\u1e9e",),
    "\u03c9": ("\u2126",),
}
"""Capitals that `upper` does not give."""
