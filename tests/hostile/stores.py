"""Stores with one odd thing each, beside a row that is as claude-mem writes it.

Each maker takes a path and returns whether the good row can be read there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.support.stores import (
    BASE_EPOCH,
    add_observation,
    add_session,
    add_summary,
    make_store,
    schema_sql,
)

GOOD: Final = "the good row"
TABLES: Final = ("observations", "session_summaries", "sdk_sessions")
BAD_TEXT: Final = "CAST(x'6f6464ff80' AS TEXT)"

ODD_VALUES: Final[tuple[Any, ...]] = (
    0, -1, 1, 2**63 - 1, -(2**63), 1.5, -0.0, 1e19, 1e300, float("inf"), float("-inf"), None,
    "", "odd", "7", "9" * 400, "1e999", "nan", "\0", "\u2028", "\ufffe", b"", b"\xff\xfe", b"12",
    "[" * 2000, '{"a":{"b":[1e999]}}', "[1e400]", '["\\ud800"]', "null", "-9e9999", "9999-99-99",
)  # fmt: skip

Maker = Callable[[Path], bool]


def columns(table: str) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in schema_sql():
            db.execute(statement)
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def good_row(path: Path, **values: Any) -> None:
    add_observation(path, id=500, title=GOOD, session="good", **values)


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def filled(path: Path) -> None:
    """A store with the good row, and an odd row of each table, number 1."""
    make_store(path, journal="delete")
    for session in ("odd", "good"):
        add_session(path, session=session)
    add_observation(path, id=1, title="odd", session="odd", merged_into_project="app")
    add_summary(path, id=1, session="odd", request="odd")
    good_row(path)


def without_rules(path: Path, **pragmas: str) -> None:
    """The tables with every column and index, but no types, keys or other constraints."""
    with closing(sqlite3.connect(path)) as db:
        for name, value in pragmas.items():
            db.execute(f"PRAGMA {name} = {value}")
        for table in TABLES:
            db.execute(f"CREATE TABLE {table} ({', '.join(columns(table))})")
        for table in TABLES[:2]:
            for column in ("project", "created_at_epoch", "merged_into_project"):
                db.execute(f"CREATE INDEX idx_{table}_{column} ON {table}({column})")
        db.execute("CREATE TABLE schema_versions (id, version, applied_at)")
        db.commit()


def bad_text(table: str, column: str) -> Maker:
    def make(path: Path) -> bool:
        without_rules(path)
        good_row(path)
        add_summary(path, id=2, request="fine")
        add_observation(path, id=1, title="odd", session="odd")
        add_summary(path, id=1, request="odd", session="odd")
        run(
            path,
            "INSERT INTO sdk_sessions (id, memory_session_id, content_session_id) VALUES"
            " (1, 'odd', 'odd'), (500, 'good', 'good')",
            f"UPDATE {table} SET {column} = {BAD_TEXT} WHERE id = 1",
        )
        return True

    return make


def odd_values(table: str, column: str) -> Maker:
    """A row for each odd value of one column."""

    def make(path: Path) -> bool:
        without_rules(path)
        good_row(path)
        names = [one for one in columns(table) if one != "platform_source"]
        usual = {"memory_session_id": "good", "project": "app", "created_at_epoch": BASE_EPOCH}
        usual |= {"type": "discovery", "concepts": '["how-it-works"]'}
        with closing(sqlite3.connect(path)) as db:
            for number, value in enumerate(ODD_VALUES, 1):
                words = f"odd {number}"
                row = {**usual, "id": number, "title": words, "request": words, column: value}
                marks = ", ".join("?" for _ in names)
                db.execute(
                    f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
                    [row.get(name) for name in names],
                )
            db.commit()
        return True

    return make


def renamed(before: str, *, good: bool = True) -> Maker:
    """A name in the schema whose bytes are changed to some that are not UTF-8."""

    def make(path: Path) -> bool:
        filled(path)
        run(
            path,
            "CREATE TABLE oddtable (oddcolumn)",
            "ALTER TABLE observations ADD COLUMN oddcolumn",
            "CREATE INDEX oddindex ON observations(oddcolumn)",
            "VACUUM",
        )
        name = before.encode()
        data = path.read_bytes()
        assert name in data
        path.write_bytes(data.replace(name, b"\xff\xfe" + name[2:]))
        return good

    return make


def schema_with(*statements: str, good: bool = True) -> Maker:
    """The usual store, and after that these statements."""

    def make(path: Path) -> bool:
        filled(path)
        run(path, *statements)
        return good

    return make


def other_tables(kind: str) -> Maker:
    """Observations as a STRICT table, without row ids, or in an odd encoding."""
    first = ", ".join(f"{one} ANY" for one in columns("observations") if one != "id")

    def make(path: Path) -> bool:
        with closing(sqlite3.connect(path)) as db:
            if kind.startswith("UTF-16"):
                db.execute(f"PRAGMA encoding = '{kind}'")
            identity = {"descending": "id INTEGER PRIMARY KEY DESC", "text": "id TEXT PRIMARY KEY"}
            options = {"STRICT": "STRICT", "WITHOUT ROWID": "WITHOUT ROWID"}
            db.execute(
                f"CREATE TABLE observations ({identity.get(kind, 'id INTEGER PRIMARY KEY')},"
                f" {first}) {options.get(kind, '')}"
            )
            db.execute("CREATE INDEX by_project ON observations(project)")
            db.commit()
        good_row(path)
        if kind.startswith("UTF-16"):
            lone = "410000d8" if kind == "UTF-16le" else "0041d800"
            add_observation(path, id=1, title="odd")
            run(path, f"UPDATE observations SET subtitle = CAST(x'{lone}' AS TEXT) WHERE id = 1")
        return True

    return make


def many_columns(table: str, number: int) -> Maker:
    """`number` more of them; SQLite allows 2,000."""

    def make(path: Path) -> bool:
        filled(path)
        more = ", ".join(f"c{one}" for one in range(number))
        run(
            path,
            "CREATE TABLE wide (id)",
            f"ALTER TABLE {table} ADD COLUMN c0",
            "PRAGMA writable_schema = 1",
            f"UPDATE sqlite_schema SET sql = replace(sql, 'c0', '{more}') WHERE name = '{table}'",
        )
        return True

    return make


def makers() -> Iterator[tuple[str, Maker]]:
    for table in TABLES:
        for column in columns(table):
            yield f"bad text in {table}.{column}", bad_text(table, column)
            yield f"odd values in {table}.{column}", odd_values(table, column)
    for name in ("oddtable", "oddcolumn", "oddindex", "agent_type", "idx_observations_project"):
        yield f"bad name of {name}", renamed(name)
    yield "bad name of a trigger", renamed_trigger
    yield "a view beside", schema_with("CREATE VIEW odd AS SELECT * FROM nowhere")
    yield (
        "observations is a view",
        schema_with(
            "ALTER TABLE observations RENAME TO o", "CREATE VIEW observations AS SELECT * FROM o",
            good=False,
        ),
    )  # fmt: skip
    yield (
        "observations is virtual",
        schema_with(
            "DROP TABLE observations", "CREATE VIRTUAL TABLE observations USING fts5(project, id)",
            good=False,
        ),
    )  # fmt: skip
    yield (
        "a trigger",
        schema_with(
            "CREATE TRIGGER odd AFTER INSERT ON observations BEGIN SELECT raise(ABORT, 'no'); END"
        ),
    )
    yield (
        "generated columns",
        schema_with(
            "ALTER TABLE observations ADD COLUMN g AS (json_extract(title, '$.x'))",
            "ALTER TABLE session_summaries DROP COLUMN notes",
            "ALTER TABLE session_summaries ADD COLUMN notes AS (json_extract(request, '$.x'))",
        ),
    )
    for kind in ("STRICT", "WITHOUT ROWID", "UTF-16le", "UTF-16be", "descending", "text"):
        yield f"observations {kind}", other_tables(kind)
    yield "1,800 columns", many_columns("observations", 1_800)
    yield "5,000 columns", many_columns("wide", 5_000)


def renamed_trigger(path: Path) -> bool:
    filled(path)
    run(path, "CREATE TRIGGER oddtrigger AFTER INSERT ON observations BEGIN SELECT 1; END")
    path.write_bytes(path.read_bytes().replace(b"oddtrigger", b"\xff\xfedtrigger"))
    return True
