"""What a store's tables look like: read from the columns, never from a version number."""

from __future__ import annotations

from typing import Final

import apsw

from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.model import Schema

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
        raise StoreError(
            f"{path}: no claude-mem store ({what})".translate(_PLAIN),
            path=path,
            reason="foreign",
        )
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
    )


_PLAIN: Final = dict.fromkeys((*range(32), *range(127, 160)), " ")


def _once(db: apsw.Connection, statement: str) -> list[tuple[apsw.SQLiteValue, ...]]:
    """All rows of a statement that is not asked again: prepared ones take several KB each."""
    return db.execute(statement, can_cache=False).fetchall()


def _columns(db: apsw.Connection, table: str) -> frozenset[str]:
    return frozenset(str(row[1]).lower() for row in _once(db, f"PRAGMA table_info({table})"))


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
        for row in _once(db, f"PRAGMA index_list({table})"):
            name, partial = str(row[1]), bool(row[4])
            quoted = '"' + name.replace('"', '""') + '"'
            parts = [part for part in _once(db, f"PRAGMA index_xinfo({quoted})") if part[5]]
            plain = all(part[2] is not None and part[4] == "BINARY" for part in parts)
            if not partial and plain and parts:
                key = table, str(parts[0][2]).lower()
                one = len(parts), quoted
                found[key] = min(found.get(key, one), one)
    return {key: name for key, (_, name) in found.items()}


def index_on(schema: Schema, table: str, column: str) -> str | None:
    """Name, quoted for SQL, of an index of `table` that starts with `column`: the narrowest one.
    None where there is no such index."""
    return schema.indexes.get((table, column))
