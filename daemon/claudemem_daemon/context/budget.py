"""How long a text is for the assistant that gets it, and how much fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

Unit = Literal["utf16", "bytes"]


class Budget(NamedTuple):
    """At most `limit` units; None = no limit."""

    limit: int | None
    unit: Unit = "utf16"

    def size(self, lines: Iterable[str]) -> int:
        """With a line break for each line; 0 where there is no limit to compare it with."""
        if self.limit is None:
            return 0
        return sum([size(line, self.unit) + 1 for line in lines])


def size(text: str, unit: Unit = "utf16") -> int:
    """Length in UTF-16 code units, as JavaScript's `.length`, or in bytes of UTF-8."""
    if text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def largest(upper: int, fits: Callable[[int], bool]) -> int:
    """The largest count from 0 to `upper` that fits, given that fewer fit where more do; 0 also
    where nothing fits. Only counts that were tried and fitted are returned."""
    if upper <= 0 or fits(upper):
        return max(0, upper)
    low, high = 0, upper
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
