"""The SQL for the files that observations name, by which rows of two repositories of one name are
told apart. Pure: text and parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from claudemem_daemon.stores.bounds import MAX_NAME, bounded
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.odd_text import raw
from claudemem_daemon.stores.sql import Statement, Wanted, both, ids_of

MAX_ROWS: Final = 2_000
"""Rows of one session that are read."""
MAX_ROOTS: Final = 8
"""Folders that SQL compares with; the rest is compared by whoever asked."""


def of_session(schema: Schema, session: str) -> Statement:
    """The rows, each two lists of files, that may name an absolute path."""
    cells = _cells(schema)
    absolute = " OR ".join(map(_may_be_absolute, cells))
    return Statement(
        f"SELECT {', '.join(cells)} FROM observations WHERE {schema.session_column} = ?"
        f" AND ({absolute}) LIMIT {MAX_ROWS}",
        (session,),
    )


def outside(schema: Schema, wanted: Wanted, roots: Sequence[str]) -> Statement:
    """Id, project and both lists of files of the projects' rows that may name an absolute path and
    none that begins with one of the first few `roots`."""
    cells = _cells(schema)
    ids = ids_of(schema, "observations", wanted)
    below = [
        Statement(
            f"ifnull(instr({cell}, ?) > 0 AND instr({cell}, '/..') = 0, 0) = 0",
            (raw(json.dumps(root, ensure_ascii=False)[:-1]),),
        )
        for root in roots[:MAX_ROOTS]
        for cell in cells
    ]
    absolute = Statement(f"({' OR '.join(map(_may_be_absolute, cells))})")
    where = both(Statement(f"id IN ({ids.text})", ids.parameters), absolute, *below)
    return Statement(
        f"SELECT id, {bounded('project', MAX_NAME)}, {', '.join(cells)} FROM observations"
        f" WHERE {where.text}",
        where.parameters,
    )


def _cells(schema: Schema) -> list[str]:
    return [
        bounded(name) if name in schema.observations else "NULL"
        for name in ("files_read", "files_modified")
    ]


def _may_be_absolute(cell: str) -> str:
    return f"instr({cell}, '\"/') > 0 OR instr({cell}, '\"\\') > 0 OR {cell} GLOB '/*'"
