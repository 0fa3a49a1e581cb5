"""What a value may be meant to be: the nearest of the ids there are. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIMILAR = 0.75
"""Share of letters in common, as difflib counts it, from which on a word is taken for a slip."""


@dataclass(frozen=True, slots=True)
class Near:
    """words: the guess as a person reads it. misspelt: the entry of the list that is to be replaced;
    empty where the value is to be added."""

    words: str
    misspelt: str = ""


def near(value: str, allowed: Sequence[str], modes: Mapping[str, Sequence[str]]) -> Near | None:
    """`allowed` are the ids of the list, in lower case; `modes` says which modes have an id."""
    plain = value.strip().lower()
    if plain in allowed:
        return Near(f"did you mean {plain}? the rows have it in other case or with blanks")
    head = plain.partition(":")[0].strip()
    if head != plain and head in allowed:
        return Near(f"did you mean {head}? the rows have a suffix after the colon")
    found = difflib.get_close_matches(plain, [entry for entry in allowed if entry], 1, SIMILAR)
    if found:
        known = bool(modes.get(found[0]))
        if known and not modes.get(plain):
            return Near(f"did you mean {found[0]}? the rows have it misspelt")
        if not known:
            return Near(f"did you mean {plain}? the list has {found[0]}", found[0])
    others = modes.get(plain, ())
    if others:
        return Near(f"an id of the mode {', '.join(others)} that the list does not have")
    return None
