"""Rows of a statement, whatever bytes their texts are.

A byte that is no UTF-8 is a lone surrogate, as Python's `surrogateescape` has it: `rows.text` makes
U+FFFD of it, and `raw` the byte again, by which SQLite finds the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import apsw

from claudemem_daemon.stores.rows import Cell

_CODECS: Final = {
    "UTF-8": ("utf-8", "surrogateescape"),
    "UTF-16le": ("utf-16-le", "replace"),
    "UTF-16be": ("utf-16-be", "replace"),
}


def raw(value: str) -> str | bytes:
    """The text as a parameter of a statement: as bytes where it is no Unicode."""
    if value.isascii():
        return value
    with suppress(UnicodeEncodeError):
        value.encode()
        return value
    with suppress(UnicodeEncodeError):
        return value.encode("utf-8", "surrogateescape")
    return value.encode("utf-8", "surrogatepass")


def text_rows(
    db: apsw.Connection,
    statement: str,
    parameters: tuple[Cell, ...] = (),
    *,
    can_cache: bool = True,
) -> Iterator[tuple[Cell, ...]]:
    """Rows as SQLite finds them. apsw fails at the first text that is not UTF-8; then the statement
    runs again with its texts as bytes, from the row that failed. Raises `apsw.Error`.

    The cursor is closed whatever happens: one left in the middle would keep the transaction open.
    """
    cursor = db.cursor()
    given = 0
    try:
        for row in cursor.execute(statement, parameters, can_cache=can_cache):
            yield row
            given += 1
        return
    except UnicodeDecodeError:
        columns = len(cursor.get_description())
    finally:
        cursor.close(True)
    cursor = db.cursor()
    try:
        codec, errors = _CODECS[str(cursor.execute("PRAGMA encoding").fetchall()[0][0])]
        rows = cursor.execute(_as_bytes(statement, columns), parameters, can_cache=False)
        for row in islice(rows, given, None):
            yield tuple(
                cell.decode(codec, errors) if is_text and isinstance(cell, bytes) else cell
                for is_text, cell in zip(row[::2], row[1::2], strict=True)
            )
    finally:
        cursor.close(True)


def _as_bytes(statement: str, columns: int) -> str:
    """The same rows in the same order: of each column whether it is text, and its bytes if so."""
    names = [f"c{number}" for number in range(columns)]
    cells = (
        f"typeof({name}) = 'text', iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})"
        for name in names
    )
    return f"WITH odd({', '.join(names)}) AS ({statement}) SELECT {', '.join(cells)} FROM odd"  # noqa: S608 - of our own parts
