"""What was worked out from one store, kept for as long as what it was worked out from is equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from claudemem_daemon.stores.plans import Learnt

T = TypeVar("T")

MOST_KEPT: Final = 16
"""Of each store: its names by table and column, and what was made of them for a few repositories."""

MOST_READ: Final = 8
"""Of each store in its present state: what two questions read."""

Things = tuple[tuple[tuple[object, ...], Any], ...]


class Kept:
    """The last few things that were made, each beside everything it depends on, so that none is
    ever out of date. Safe from several threads: they see one whole tuple or the other."""

    def __init__(self) -> None:
        self._known: Things = ()
        self._at: tuple[int | None, Things] = (None, ())
        self.learnt = Learnt()

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` made of something equal to `of`, or makes now. Things of different types
        must differ in `of`."""
        for known, value in self._known:
            if known == of:
                return value  # type: ignore[no-any-return]  # `of` says what it is, as agreed above
        value = make()
        self._known = ((of, value), *self._known[: MOST_KEPT - 1])
        return value

    def read(self, version: int | None, of: tuple[object, ...], read: Callable[[], T]) -> T:
        """What `read` gave at this version of the store, or reads now; None is a version that
        cannot be told, at which nothing is kept."""
        if version is None:
            return read()
        at, things = self._at
        if at != version:
            things = ()
        for known, value in things:
            if known == of:
                return value  # type: ignore[no-any-return]  # as above
        value = read()
        self._at = version, ((of, value), *things[: MOST_READ - 1])
        return value
