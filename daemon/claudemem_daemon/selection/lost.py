"""Rows, and parts of rows, that are left out because they cannot be read or shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.source import Source
from claudemem_daemon.stores.bounds import most_bytes
from claudemem_daemon.stores.failures import log_fault
from claudemem_daemon.warning import AnswerWarning

T = TypeVar("T")


class LostRows(Counter[str]):
    """Store -> number of rows that could not be read, judged or written. The empty path stands for the
    prior message."""

    def attempt(self, store: str, make: Callable[[], T]) -> list[T]:
        """A list of what `make` returns; empty where it raises."""
        try:
            return [make()]
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.lose(store, error)
            return []

    def lose(self, store: str, error: Exception) -> None:
        log_fault(error, store or "prior message")
        self[store] += 1

    def warnings(self, what: str = "shown") -> tuple[AnswerWarning, ...]:
        """`what` could not be done with the rows."""
        return tuple(_warning(store, rows, what) for store, rows in self.items() if rows)


def _warning(store: str, rows: int, what: str) -> AnswerWarning:
    if not store:
        return AnswerWarning("prior_message", "the last message cannot be shown: left out")
    which = "1 row has an id or a value" if rows == 1 else f"{rows:,} rows have ids or values"
    message = f"{store}: {which} that cannot be {what}: left out"
    return AnswerWarning("store_rows", message, path=store)


def large_cells(rows: Iterable[Chosen[Source]]) -> tuple[AnswerWarning, ...]:
    """For each store and column of which cells were left out."""
    found = Counter(
        (chosen.origin.ref.path, name) for chosen in rows for name, _ in chosen.row.large
    )
    return tuple(
        AnswerWarning(
            "cell_too_large",
            f"{path}: {column} of {count} {'row' if count == 1 else 'rows'} larger than"
            f" {most_bytes(column) // 1024} KiB: left out",
            path=path,
            key=column,
        )
        for (path, column), count in found.items()
    )
