"""What a store's tables look like: read from the columns, never from a version number."""

from __future__ import annotations

from typing import Final

import apsw

from claudemem_daemon.stores.failures import store_error
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.odd_text import text_rows
from claudemem_daemon.stores.rows import Cell, text

NEEDED: Final = frozenset({"id", "project", "created_at_epoch"})
"""An observations table without these is not claude-mem's."""

_TABLES: Final = ("observations", "session_summaries", "sdk_sessions")


def probe(db: apsw.Connection, path: str) -> Schema:
    """Read the schema of an open store.

    Raises `StoreError` "foreign" for a SQLite file that is something else, `apsw.Error` for what
    SQLite cannot read.
    """
    # A view or virtual table of that name could do anything when it is read.
    tables = {
        str(name)
        for (name,) in _once(
            db,
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
            " AND sql NOT LIKE 'CREATE VIRTUAL%'",
        )
    }
    columns = {name: _columns(db, name) if name in tables else frozenset() for name in _TABLES}
    observations = columns["observations"]
    session = next(
        (name for name in ("memory_session_id", "sdk_session_id") if name in observations), None
    )
    if not observations >= NEEDED or session is None:
        what = f"tables: {', '.join(sorted(tables)[:5])}" if tables else "an empty SQLite file"
        raise store_error(path, "foreign", f"no claude-mem store ({what})".translate(_PLAIN))
    summaries = columns["session_summaries"]
    if not summaries >= NEEDED | {session}:
        summaries = frozenset()
    sessions = columns["sdk_sessions"]
    if session not in sessions:
        sessions = frozenset()
    return Schema(
        version=_version(db) if "schema_versions" in tables else None,
        observations=observations,
        summaries=summaries,
        sessions=sessions,
        session_column=session,
        indexes=_indexes(db),
        loose_ids=frozenset(name for name in _TABLES[:2] if not _has_row_ids(db, name)),
    )


_PLAIN: Final = dict.fromkeys((*range(32), *range(127, 160)), " ")


def _once(db: apsw.Connection, statement: str, *parameters: str) -> list[tuple[Cell, ...]]:
    """All rows of a statement that is not asked again: prepared ones take several KB each."""
    rows = text_rows(db, statement, parameters, can_cache=False)
    return [tuple(text(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]


def _columns(db: apsw.Connection, table: str) -> frozenset[str]:
    names = _once(db, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden IN (0, 3)", table)
    return frozenset(str(name).lower() for (name,) in names)


def _has_row_ids(db: apsw.Connection, table: str) -> bool:
    """Whether `id` is SQLite's row id: an INTEGER PRIMARY KEY that needs no index of its own."""
    keys = _once(db, "SELECT lower(name), upper(type) FROM pragma_table_xinfo(?) WHERE pk", table)
    own = _once(db, "SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk'", table)
    return keys == [("id", "INTEGER")] and not own


def _version(db: apsw.Connection) -> int | None:
    try:
        rows = _once(db, "SELECT max(version) FROM schema_versions")
    except apsw.SQLError:
        return None
    version = rows[0][0]
    return version if isinstance(version, int) else None


def _indexes(db: apsw.Connection) -> dict[tuple[str, str], str]:
    """Whole indexes in the tables' own order of comparing; a partial one may lack our rows, one
    with another collation has them in another order."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for table in ("observations", "session_summaries"):
        for name, partial in _once(db, "SELECT name, partial FROM pragma_index_list(?)", table):
            if "\ufffd" in str(name):  # it cannot be named to SQLite
                continue
            quoted = '"' + str(name).replace('"', '""') + '"'
            parts = _once(db, "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", str(name))
            plain = all(part[0] is not None and part[1] == "BINARY" for part in parts)
            if not partial and plain and parts:
                key = table, str(parts[0][0]).lower()
                index = len(parts), quoted
                found[key] = min(found.get(key, index), index)
    return {key: name for key, (_, name) in found.items()}
