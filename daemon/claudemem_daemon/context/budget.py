"""How long a text is for the assistant that gets it, and how much fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

Unit = Literal["utf16", "bytes"]


class Budget(NamedTuple):
    """At most `limit` units; None for no limit."""

    limit: int | None
    unit: Unit = "utf16"

    def size(self, lines: Iterable[str]) -> int:
        """Of lines with a line break each; 0 where there is no limit."""
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
    """The largest count up to `upper` that fits, if smaller counts fit where larger ones do; 0 where
    none fits."""
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
