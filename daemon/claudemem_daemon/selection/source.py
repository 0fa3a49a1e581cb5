"""One open store, and the candidates of its tables as far as they are asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from claudemem_daemon.selection.admission import Admitted
from claudemem_daemon.stores.counting import RowGroup
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.plans import AT_ONCE, Candidate
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.sql import Table, Wanted

MAX_REMEMBERED: Final = 100
"""First candidates of one store, table and question; no longer list is remembered."""


class Flow:
    """The candidates of one store and table. The first ones are found by `begin`, or remembered from
    an earlier answer; the others are looked up as they are taken."""

    def __init__(self, reader: StoreReader, table: Table, wanted: Wanted, rows: int) -> None:
        self._reader = reader
        self._asked = table, wanted, rows
        self._number = min(rows, AT_ONCE)
        self._first: list[Candidate] = []
        self._rest: Generator[Candidate, None, None] | None = None
        self.unusable = 0
        """How many of the first rows have no id by which they could be read."""

    def begin(self) -> None:
        """Find the first ones. Raises `StoreError`; candidates found before it remain."""
        if self._number > MAX_REMEMBERED:
            self._find()
        else:
            of = ("first", *self._asked)
            self._first, self.unusable = self._reader.once(of, self._find)

    def _find(self) -> tuple[list[Candidate], int]:
        before = self._reader.unusable
        self._first = []
        self._rest = self._reader.flow(*self._asked)
        self._first.extend(islice(self._rest, self._number))
        self.unusable = self._reader.unusable - before
        if self._reader.damage is not None:
            raise self._reader.damage
        return self._first, self.unusable

    def candidates(self) -> Iterator[Candidate]:
        """All of them. Raises `StoreError` where they end too early."""
        yield from self._first
        if len(self._first) < self._number:
            return
        if self._rest is None:
            self._rest = self._reader.flow(*self._asked)
            for _ in islice(self._rest, self._number):
                pass
        yield from self._rest

    def close(self) -> None:
        """A cursor that is not at its end would keep the transaction open."""
        if self._rest is not None:
            self._rest.close()


@dataclass(eq=False, slots=True)
class Source:
    """One open store, and its projects that the question asks for. Compared by identity: the merge
    tells the rows of different stores by it."""

    ref: StoreRef
    reader: StoreReader
    admitted: Admitted
    summaries: Admitted

    def admits(self, table: Table) -> Admitted:
        return self.admitted if table == "observations" else self.summaries

    def key_of(self, row: Row | RowGroup) -> str:
        """The key that admitted observations: their own project's, or the one they were merged
        into."""
        return row.project if row.project in self.admitted.projects else row.merged or row.project
