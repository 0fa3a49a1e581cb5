"""Rows, and parts of rows, that are left out by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.source import Source
from claudemem_daemon.stores.bounds import LISTS, most_bytes
from claudemem_daemon.stores.failures import log_fault
from claudemem_daemon.warning import AnswerWarning

T = TypeVar("T")


class LostRows(Counter[str]):
    """Store -> rows that were found and could not be read, judged or written; without a store, the
    prior message."""

    def attempt(self, store: str, make: Callable[[], T]) -> list[T]:
        """What `make` makes of a row; empty where it raises."""
        try:
            return [make()]
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.lose(store, error)
            return []

    def lose(self, store: str, error: Exception) -> None:
        log_fault(error, store or "prior message")
        self[store] += 1

    def warnings(self, what: str = "shown") -> tuple[AnswerWarning, ...]:
        """what: could not be done. Equal warnings count as one, and those of reading and of showing
        count different rows."""
        return tuple(_warning(store, rows, what) for store, rows in self.items() if rows)


def _warning(store: str, rows: int, what: str) -> AnswerWarning:
    if not store:
        return AnswerWarning("prior_message", "the last message cannot be shown: left out")
    which = "1 row has an id or a value" if rows == 1 else f"{rows:,} rows have ids or values"
    message = f"{store}: {which} that cannot be {what}: left out"
    return AnswerWarning("store_rows", message, path=store)


def large_cells(rows: Iterable[Chosen[Source]]) -> tuple[AnswerWarning, ...]:
    """What of the rows is cut or left out, by store and column."""
    found = Counter(
        (chosen.origin.ref.path, name) for chosen in rows for name, _ in chosen.row.large
    )
    return tuple(
        AnswerWarning(
            "cell_too_large",
            f"{path}: {column} of {count} {'row' if count == 1 else 'rows'} larger than"
            f" {most_bytes(column) // 1024} KiB: {'left out' if column in LISTS else 'cut'}",
            path=path,
            key=column,
        )
        for (path, column), count in found.items()
    )
