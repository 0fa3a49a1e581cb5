"""What can still be read where a page of a store is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from claudemem_daemon.errors import StoreError

T = TypeVar("T")

DAMAGED: Final = ("corrupt", "io")
"""Reasons of STORE_REASONS that may be of one page."""


def until_damage(rows: Iterable[T], damage: list[StoreError]) -> Iterator[T]:
    """The rows before a damaged page. Raises `StoreError` for any other reason."""
    try:
        yield from rows
    except StoreError as error:
        if error.reason not in DAMAGED:
            raise
        damage.append(error)


def by_halves(
    ids: Sequence[int], read: Callable[[Sequence[int]], Iterator[T]], damage: list[StoreError]
) -> Iterator[T]:
    """The rows that `read` gives of `ids`; where it meets a damaged page, those of each half by
    itself, so that a row may come again. `damage` gets what stopped it."""
    try:
        yield from read(ids)
    except StoreError as error:
        if error.reason not in DAMAGED:
            raise
        damage.append(error)
        middle = len(ids) // 2
        if middle:
            yield from by_halves(ids[:middle], read, damage)
            yield from by_halves(ids[middle:], read, damage)
