"""Rows that were read a moment ago: after a write nearly all are read again as they were."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from claudemem_daemon.stores.rows import Cell, Row
from claudemem_daemon.stores.sql import Table

MOST_ROWS: Final = 512
MOST_TEXT: Final = 512 * 1024
"""Characters of all rows together."""
LARGE_ROW: Final = 16 * 1024
"""Characters; a row with more is made anew each time."""


class RecentRows:
    """The same `Row` for the same cells, so that what was made of it can be found by it. Rows are
    always read, and compared cell by cell: none is ever out of date. Safe from several threads."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, Table, int], tuple[tuple[Cell, ...], Row, int]]
        self._rows = OrderedDict()
        self._text = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def text(self) -> int:
        """Characters kept."""
        return self._text

    def row(
        self,
        place: tuple[str, Table, int],
        cells: tuple[Cell, ...],
        epoch: int | None,
        make: Callable[[tuple[Cell, ...], int | None], Row],
    ) -> Row:
        """The row at `place` (store, table, id) that has these cells and this time."""
        with self._lock:
            known = self._rows.get(place)
            if known is not None and known[1].epoch == epoch and _same(known[0], cells):
                self._rows.move_to_end(place)
                return known[1]
        row = make(cells, epoch)
        size = sum([len(cell) for cell in cells if isinstance(cell, str | bytes)])
        with self._lock:
            self._forget(place)
            if size <= LARGE_ROW:
                self._rows[place] = (cells, row, size)
                self._text += size
            while len(self._rows) > MOST_ROWS or self._text > MOST_TEXT:
                self._forget(next(iter(self._rows)))
        return row

    def _forget(self, place: tuple[str, Table, int]) -> None:
        known = self._rows.pop(place, None)
        if known is not None:
            self._text -= known[2]


def _same(known: tuple[Cell, ...], cells: tuple[Cell, ...]) -> bool:
    """Equal as text too: 1.0 is 1, and -0.0 is 0.0, but they read otherwise."""
    return known == cells and float not in map(type, known) and float not in map(type, cells)
