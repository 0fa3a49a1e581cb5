"""What the lists of types and concepts leave out, and what each value may be meant to be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import LISTS, deciding, paste

SIMILAR: Final = 0.75
"""Share of letters in common, as difflib counts it, from which on a word is taken for a slip."""
MAX_NAMED: Final = 6


class Near(NamedTuple):
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
    for close in difflib.get_close_matches(plain, filter(None, allowed), 1, SIMILAR):
        if not modes.get(close):
            return Near(f"did you mean {plain}? the list has {close}", close)
        if not modes.get(plain):
            return Near(f"did you mean {close}? the rows have it misspelt")
    if modes.get(plain):
        return Near(f"in the mode {', '.join(modes[plain])}, but not in the list")
    return None


def dropped(shape: Mapping[str, Any], kind: str) -> list[tuple[str, int, Near | None]]:
    """Values that a list leaves out, the most frequent first, with what each may be meant to be."""
    allowed, modes = shape["filters"][kind], shape["modes"][kind]
    values = sorted(shape["dropped"][kind].items(), key=lambda pair: (-pair[1], pair[0]))
    return [(value, rows, near(value, allowed, modes)) for value, rows in values]


def near_misses(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Values that a list leaves out only by the way they are written."""
    for kind, key in LISTS.items():
        allowed = list(shape["filters"][kind])
        wanted, named = list(allowed), dict[str, list[str]]()
        for value, rows, meant in dropped(shape, kind):
            if meant is None:
                continue
            named.setdefault(meant.words, []).append(f"{value!r} ({counted(rows, 'row')})")
            listed = value.strip().lower()
            if meant.misspelt and meant.misspelt in wanted:
                wanted[wanted.index(meant.misspelt)] = listed
            elif listed not in wanted:
                wanted.append(listed)
        if named:
            # Blanks around a value are in the rows; what is written in a list has none.
            wanted = ["*"] if wanted == allowed else wanted
            commas = any("," in entry for entry in wanted)
            guesses = [
                f"{', '.join(values[:MAX_NAMED])}: {words}" for words, values in named.items()
            ]
            sentence = (
                f"{kind} left out by {deciding(shape, key)}: {'; '.join(guesses[:MAX_NAMED])}"
            )
            yield Finding(
                f"{kind}_near_miss",
                sentence + _of_another_mode(shape, kind),
                paste(shape, key, wanted if commas else ",".join(wanted)),
            )


def _of_another_mode(shape: Mapping[str, Any], kind: str) -> str:
    """What the list has that only other modes know."""
    modes, mode = shape["modes"][kind], shape["settings"]["CLAUDE_MEM_MODE"]["value"]
    found = [value for value in shape["filters"][kind] if mode not in modes.get(value, [mode])]
    if not found:
        return ""
    return f"; the list has {', '.join(found[:MAX_NAMED])} of the mode {modes[found[0]][0]}"
