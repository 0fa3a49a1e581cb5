"""How long a text is for the assistant that gets it, and what fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

Unit = Literal["utf16", "bytes"]

UNLIMITED: Final = 1 << 62


def size(text: str, unit: Unit = "utf16") -> int:
    """Length in UTF-16 code units, as JavaScript counts, or in bytes of UTF-8."""
    if text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(1 for sign in text if sign > "\uffff")


def most_items(
    items: Sequence[str], around: Callable[[int], int], budget: int, unit: Unit
) -> int | None:
    """How many of `items`, from the first on, fit beside what `around(count)` units of other text
    go with that many; each item ends in a line break. None when not even none fit."""
    total = 0
    sums = [0]
    for item in items:
        total += size(item, unit) + 1
        sums.append(total)
    for count in range(len(items), -1, -1):
        if sums[count] <= budget and sums[count] + around(count) <= budget:
            return count
    return None
