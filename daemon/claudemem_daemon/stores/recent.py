"""What was read or made a moment ago: after a write nearly all of it comes again as it was."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from claudemem_daemon.stores.rows import Cell, Row
from claudemem_daemon.stores.sql import Table

T = TypeVar("T")

MAX_VALUES: Final = 24
"""Of each store: its names by table and column, what was made of them for a few repositories, and
what two questions read in its present state."""
MAX_ROWS: Final = 512
MAX_TEXT: Final = 512 * 1024
"""Characters of all rows together."""
LARGE_ROW: Final = 16 * 1024
"""Characters; a row with more is made anew each time."""


class RecentValues:
    """The last few values, each beside all that it was made from, so that none is ever out of date.
    Safe from several threads: they see one whole tuple or the other."""

    def __init__(self) -> None:
        self._values: tuple[tuple[tuple[object, ...], Any], ...] = ()

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` made of something equal to `of`, or makes now. Values of different types
        must differ in `of`."""
        values = self._values
        known = next((pair for pair in values if pair[0] == of), None)
        if known is None:
            known = of, make()
            values = self._values  # `make` may have put some there
        others = [pair for pair in values if pair is not known]
        self._values = (known, *others[: MAX_VALUES - 1])
        return known[1]


class RecentRows:
    """The same `Row` for the same cells, so that what was made of it can be found by it. Rows are
    always read, and compared cell by cell: none is ever out of date. Safe from several threads."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, Table, int], tuple[tuple[Cell, ...], Row, int]]
        self._rows = OrderedDict()
        self.text = 0
        """Characters of all rows."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def row(
        self,
        key: tuple[str, Table, int],
        cells: tuple[Cell, ...],
        epoch: int | None,
        make: Callable[[tuple[Cell, ...], int | None], Row],
    ) -> Row:
        """The row of `key` (store, table, id) that has these cells and this time."""
        with self._lock:
            known = self._rows.get(key)
            if known is not None and known[1].epoch == epoch and _same(known[0], cells):
                self._rows.move_to_end(key)
                return known[1]
        row = make(cells, epoch)
        size = sum([len(cell) for cell in cells if isinstance(cell, str | bytes)])
        with self._lock:
            self._forget(key)
            if size <= LARGE_ROW:
                self._rows[key] = (cells, row, size)
                self.text += size
            while len(self._rows) > MAX_ROWS or self.text > MAX_TEXT:
                self._forget(next(iter(self._rows)))
        return row

    def _forget(self, key: tuple[str, Table, int]) -> None:
        known = self._rows.pop(key, None)
        if known is not None:
            self.text -= known[2]


def _same(known: tuple[Cell, ...], cells: tuple[Cell, ...]) -> bool:
    """Equal as text too: 1.0 is 1, and -0.0 is 0.0, but they read otherwise."""
    return known == cells and float not in map(type, known) and float not in map(type, cells)
