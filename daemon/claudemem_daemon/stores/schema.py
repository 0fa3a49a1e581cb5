"""What a store's tables look like: read from the columns, never from a version number."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import apsw

from claudemem_daemon.stores.failures import detail_of, store_error
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.odd_text import text_rows
from claudemem_daemon.stores.rows import Cell, text

NEEDED: Final = frozenset({"id", "project", "created_at", "created_at_epoch"})
"""An observations table without these is not claude-mem's."""

_TABLES: Final = ("observations", "session_summaries", "sdk_sessions")
_KINDS: Final = """
    SELECT name, CASE WHEN sql LIKE 'CREATE VIRTUAL%' THEN 'virtual table' ELSE type END
    FROM sqlite_schema WHERE type IN ('table', 'view')
"""


def probe(db: apsw.Connection, path: str, damage: str | None) -> Schema:
    """Read the schema of an open store. `damage`: why SQLite knows a part of it alone.

    Raises `StoreError` "foreign" for a SQLite file that is something else, `apsw.Error` for what
    SQLite cannot read.
    """
    kinds = {str(name): str(kind) for name, kind in _once(db, _KINDS)}
    # A view or virtual table of that name could do anything when it is read.
    tables = sorted(name for name, kind in kinds.items() if kind == "table")
    columns = {name: _columns(db, name) if name in tables else frozenset() for name in _TABLES}
    observations = columns["observations"]
    session = next(
        (name for name in ("memory_session_id", "sdk_session_id") if name in observations), None
    )
    if not observations >= NEEDED or session is None:
        if damage is not None:
            raise store_error(path, "corrupt", f"damaged ({damage})".translate(_PLAIN))
        what = f"tables: {', '.join(tables[:5])}" if tables else "an empty SQLite file"
        raise store_error(path, "foreign", f"no claude-mem store ({what})".translate(_PLAIN))
    left_out = [f"a part cannot be read: {damage}"] if damage else []
    for table, needed in (("session_summaries", NEEDED), ("sdk_sessions", frozenset[str]())):
        trouble = _trouble(db, table, {*needed, session} - columns[table], session)
        if table in kinds and trouble is not None:
            what = trouble if kinds[table] == "table" else f"a {kinds[table]} in its place"
            left_out.append(f"{table} cannot be read: {what}")
        if trouble is not None:
            columns[table] = frozenset()
    return Schema(
        version=_version(db) if "schema_versions" in tables else None,
        observations=observations,
        summaries=columns["session_summaries"],
        sessions=columns["sdk_sessions"],
        session_column=session,
        indexes=_indexes(db, [table for table in _TABLES[:2] if columns[table]]),
        loose_ids=frozenset(
            name for name in _TABLES[:2] if columns[name] and not _has_row_ids(db, name)
        ),
        left_out="; ".join(left_out).translate(_PLAIN),
    )


_PLAIN: Final = dict.fromkeys((*range(32), *range(127, 160)), " ")


def _once(db: apsw.Connection, statement: str, *parameters: str) -> list[tuple[Cell, ...]]:
    """All rows of a statement that is not asked again: prepared ones take several KB each."""
    rows = text_rows(db, statement, parameters, can_cache=False)
    return [tuple(text(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]


def _trouble(db: apsw.Connection, table: str, missing: Set[str], session: str) -> str | None:
    """Why nothing can be looked up in the table. `missing`: columns that it needs."""
    if missing:
        return f"no column {min(missing)}"
    # Damage of a page costs the summaries on it, and no others.
    rows = int(table == "sdk_sessions")
    lookup = f"SELECT 1 FROM {table} WHERE {session} = ''"  # noqa: S608 - our own names
    try:
        _once(db, f"SELECT ({lookup}) FROM {table} NOT INDEXED LIMIT {rows}")  # noqa: S608 - our own names
    except (apsw.SQLError, apsw.CorruptError) as error:
        return detail_of(error)
    return None


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
    except (apsw.SQLError, apsw.CorruptError):
        return None
    version = rows[0][0]
    return version if isinstance(version, int) else None


def _indexes(db: apsw.Connection, tables: Sequence[str]) -> dict[tuple[str, str], str]:
    """Whole indexes in the tables' own order of comparing; a partial one may lack our rows, one
    with another collation has them in another order."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for table in tables:
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
