"""The SQL that keeps a cell of any size out of memory, and a row without such cells. Pure.

SQLite tells a cell's bytes from the head of its record: the pages that hold it are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from claudemem_daemon.stores.rows import Row

MAX_TEXT: Final = 1024 * 1024
"""Bytes; no honest row comes near."""
MAX_LIST: Final = 256 * 1024
"""Bytes of JSON."""
MAX_NAME: Final = 4096
"""Bytes of a name, an id or a time; a longer one is none."""
LISTS: Final = frozenset(
    {"facts", "concepts", "files_read", "files_modified", "files_edited", "metadata"}
)
"""`metadata` has all that a row on a server says."""


def most_bytes(column: str) -> int:
    return MAX_LIST if column in LISTS else MAX_TEXT


def bounded(column: str, most: int | None = None) -> str:
    """The cell, or NULL where it is larger. No index is used for it."""
    most = most_bytes(column) if most is None else most
    return f"CASE WHEN octet_length({column}) <= {most} THEN {column} END"


def without_large(row: Row, names: Sequence[str], sizes: Sequence[int | None]) -> Row:
    """The row without its cells over their bounds, a line in place of each text. sizes: bytes by
    name; the last of the names are those of the cells."""
    measured = zip(names, sizes, strict=True)
    large = tuple((name, size) for name, size in measured if size and size > most_bytes(name))
    lines = {name: f"[left out: {size:,} bytes]" for name, size in large if name not in LISTS}
    named = zip(names[-len(row.cells) :], row.cells, strict=True)
    return replace(row, cells=tuple(lines.get(name, cell) for name, cell in named), large=large)


def large(columns: Sequence[str]) -> str:
    """The bytes of each cell as a JSON array where any is over its bound, else NULL."""
    any_large = " OR ".join(f"octet_length({column}) > {most_bytes(column)}" for column in columns)
    sizes = ", ".join(f"octet_length({column})" for column in columns)
    return f"CASE WHEN {any_large} THEN json_array({sizes}) END"
