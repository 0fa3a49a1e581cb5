"""What was read or made a moment ago: after a write nearly all of it comes again as it was."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
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
MAX_AT_ONCE: Final = 200
"""Rows read at once that are remembered; more would push out all that others ask for."""
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
        self._rows: OrderedDict[tuple[str, Table, int], _RecentRow] = OrderedDict()
        self.text = 0
        """Characters of all rows."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, key: tuple[str, Table, int], number: int, epoch: int | None) -> Row | None:
        """The row of `key`, if it was read in the store's state of that number."""
        known = self._rows.get(key)
        if known is None or known.number != number or known.row.epoch != epoch:
            return None
        return known.row

    def row(
        self,
        key: tuple[str, Table, int],
        cells: tuple[Cell, ...],
        epoch: int | None,
        make: Callable[[tuple[Cell, ...], int | None], Row],
        number: int = 0,
    ) -> Row:
        """The row of `key` (store, table, id) that has these cells and this time, as it was read in
        the store's state of that number; 0 where states cannot be told apart."""
        with self._lock:
            known = self._rows.get(key)
            if known is not None and known.row.epoch == epoch and known.has(cells):
                self._rows.move_to_end(key)
                known.number = number
                return known.row
        row = make(cells, epoch)
        numbers = [index for index, cell in enumerate(cells) if isinstance(cell, int)]
        with self._lock:
            self._forget(key)
            if row.size <= LARGE_ROW and float not in map(type, cells):
                self._rows[key] = _RecentRow(cells, numbers, row, number)
                self.text += row.size
            while len(self._rows) > MAX_ROWS or self.text > MAX_TEXT:
                self._forget(next(iter(self._rows)))
        return row

    def _forget(self, key: tuple[str, Table, int]) -> None:
        known = self._rows.pop(key, None)
        if known is not None:
            self.text -= known.row.size


@dataclass(slots=True)
class _RecentRow:
    cells: tuple[Cell, ...]
    """None is a float."""
    numbers: list[int]
    """Which of the cells are numbers."""
    row: Row
    number: int
    """Of the latest state of the store that it was read in."""

    def has(self, cells: tuple[Cell, ...]) -> bool:
        """Whether these cells are the same. 1.0 is equal to 1, but reads otherwise."""
        return self.cells == cells and float not in [type(cells[index]) for index in self.numbers]
