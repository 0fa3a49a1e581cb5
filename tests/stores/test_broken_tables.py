"""A table, an index or an entry of the schema that cannot be read costs what is in it alone, and one
line says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.search import search_rows
from tests.selection.asking import (
    QUESTION,
    ask,
    located,
    make_keys,
    make_settings,
    open_pool,
    resolve,
)
from tests.stores.test_damaged_pages import PAGE, leaves, root
from tests.support.stores import add_observations, add_session, add_summary, make_store, run_sql

Change = Callable[[Path], None]

ROWS: Final = 40
SUMMARIES: Final = 5
QUESTIONS: Final = {
    "all": QUESTION,
    "one assistant's": Question(cwd=None, projects=("app",), platform_source="claude"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "s.db"
    make_store(path, journal="delete")
    add_observations(path, [{"session": f"session-{n % 20}"} for n in range(ROWS)])
    for number in range(SUMMARIES):
        add_summary(path, session=f"session-{number}")
    for number in range(20):
        add_session(path, f"session-{number}", content_session="c" * 300 + str(number))
    return path.read_bytes()


@pytest.fixture
def store(tmp_path: Path, whole: bytes) -> Path:
    path = tmp_path / "s.db"
    path.write_bytes(whole)
    return path


def sql(*statements: str) -> Change:
    """Changes of the store, and of its schema in ways that SQLite would refuse."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.create_collation("unknown", lambda a, b: (a > b) - (a < b))
            db.execute("PRAGMA writable_schema = 1")
            for statement in statements:
                db.execute(statement)
            db.commit()

    return change


def entry(kind: str, name: str, page: int, definition: str) -> str:
    return (
        "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)"
        f" VALUES ('{kind}', '{name}', '{name}', {page}, '{definition}')"
    )


def definition(name: str, text: str) -> Change:
    return sql(f"UPDATE sqlite_schema SET sql = '{text}' WHERE name = '{name}'")


def remade(table: str, columns: str) -> Change:
    """The table with these columns and without indexes, empty."""
    return sql(f"DROP TABLE {table}", f"CREATE TABLE {table} ({columns})")


def viewed(table: str) -> Change:
    return sql(
        f"ALTER TABLE {table} RENAME TO moved", f"CREATE VIEW {table} AS SELECT * FROM moved"
    )


def copied(table: str, project: str) -> Change:
    """The table with another declaration of its column `project`, and without indexes."""
    columns = "id, memory_session_id, created_at, created_at_epoch"
    text = "title, narrative, type, concepts" if table == "observations" else "request"
    return sql(
        f"ALTER TABLE {table} RENAME TO moved",
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {columns[4:]}, {text}, {project})",
        f"INSERT INTO {table} ({columns}, {text}, project)"
        f" SELECT {columns}, {text}, project FROM moved",
        "DROP TABLE moved",
    )


def damaged(name: str) -> Change:
    """Overwrite the head of the first page of a table or index."""

    def change(path: Path) -> None:
        overwrite(path, root(path, name))

    return change


def overwrite(path: Path, page: int) -> None:
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : (page - 1) * PAGE + 8] = b"\xff" * 8
    path.write_bytes(data)


SUMMARIES_LOST: Final[dict[str, tuple[Change, str]]] = {
    "a view over a missing table": (
        sql(
            "DROP TABLE session_summaries",
            "CREATE VIEW session_summaries AS SELECT * FROM nowhere",
        ),
        "session_summaries cannot be read: a view in its place",
    ),
    "a view": (viewed("session_summaries"), "a view in its place"),
    "a virtual table": (
        sql(
            "DROP TABLE session_summaries",
            entry(
                "table",
                "session_summaries",
                0,
                "CREATE VIRTUAL TABLE session_summaries USING unknown(a)",
            ),
        ),
        "a virtual table in its place",
    ),
    "columns are missing": (
        remade("session_summaries", "id INTEGER PRIMARY KEY, project, created_at_epoch"),
        "no column created_at",
    ),
    "a column is worked out": (
        remade(
            "session_summaries",
            "id INTEGER PRIMARY KEY, memory_session_id, created_at, created_at_epoch, raw,"
            " project AS (lower(raw))",
        ),
        "no column project",
    ),
    "a collation is unknown": (
        remade(
            "session_summaries",
            "id INTEGER PRIMARY KEY, memory_session_id COLLATE unknown, project, created_at,"
            " created_at_epoch",
        ),
        "no such collation sequence: unknown",
    ),
    "its definition is cut off": (
        definition("session_summaries", "CREATE TABLE session_summaries (id"),
        "a part cannot be read: malformed database schema (session_summaries)",
    ),
}
NOTHING_LOST: Final[dict[str, tuple[Change, str]]] = {
    "sessions: a view": (viewed("sdk_sessions"), "sdk_sessions cannot be read: a view"),
    "sessions: columns": (remade("sdk_sessions", "a"), "no column memory_session_id"),
    "sessions: damaged": (damaged("sdk_sessions"), "sdk_sessions cannot be read: database disk"),
    "sessions: index damaged": (
        damaged("sqlite_autoindex_sdk_sessions_1"),
        "sdk_sessions cannot be read: database disk",
    ),
    "sessions: definition": (
        definition("sdk_sessions", "CREATE TABLE sdk_sessions ("),
        "malformed database schema (sdk_sessions)",
    ),
    "another table's definition": (
        sql(entry("table", "other", 9999, "CREATE TABLE other (a)")),
        "malformed database schema (other)",
    ),
    "a trigger's definition": (
        sql(entry("trigger", "other", 0, "CREATE TRIGGER other AFTER")),
        "malformed database schema (other)",
    ),
    "an index of no table": (
        sql(entry("index", "other", 7, "CREATE INDEX other ON nowhere(project)")),
        "malformed database schema (other)",
    ),
    "an index of no column": (
        definition("idx_observations_project", "CREATE INDEX i ON observations(nowhere)"),
        "malformed database schema (idx_observations_project)",
    ),
    "a virtual table of an unknown module": (
        sql(entry("table", "other", 0, "CREATE VIRTUAL TABLE other USING unknown(a)")),
        "",
    ),
    "observations: unknown collation": (
        copied("observations", "project TEXT COLLATE unknown"),
        "",
    ),
    "summaries: unknown collation": (
        copied("session_summaries", "project TEXT COLLATE unknown"),
        "",
    ),
    "versions damaged": (damaged("sqlite_autoindex_schema_versions_1"), ""),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("broken", [*SUMMARIES_LOST, *NOTHING_LOST])
def test_a_broken_part_costs_what_is_in_it_alone(store: Path, broken: str, question: str) -> None:
    lost = broken in SUMMARIES_LOST
    change, told = (SUMMARIES_LOST if lost else NOTHING_LOST)[broken]
    change(store)
    selection = ask(str(store), question=QUESTIONS[question], limit=100)
    summaries = 0 if lost else SUMMARIES
    assert (len(selection.observations), len(selection.summaries)) == (ROWS, summaries)
    warned = [(warning.code, warning.path) for warning in selection.warnings]
    assert warned == [("store_tables", str(store))] * (lost or bool(told))
    for warning in selection.warnings:
        assert told in warning.message
        assert warning.message.isprintable()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_damaged_page_of_sessions_costs_no_row(store: Path, question: str) -> None:
    pages = leaves(store.read_bytes(), root(store, "sdk_sessions"))
    assert len(pages) > 1
    overwrite(store, pages[-1])
    selection = ask(str(store), question=QUESTIONS[question], limit=100)
    assert (len(selection.observations), len(selection.summaries)) == (ROWS, SUMMARIES)
    assert [warning.code for warning in selection.warnings] == ["store_corrupt"]


def test_a_broken_part_is_read_again_once_it_is_mended(store: Path, whole: bytes) -> None:
    damaged("sdk_sessions")(store)
    with open_pool() as pool:
        assert ask(str(store), pool=pool).warnings
        store.write_bytes(whole)
        assert not ask(str(store), pool=pool).warnings


@pytest.mark.parametrize("indexed", [True, False])
def test_a_project_of_another_letter_case_is_another_one_whatever_the_collation(
    store: Path, *, indexed: bool
) -> None:
    copied("observations", "project TEXT COLLATE NOCASE")(store)
    add_observations(store, [{"project": "App"}, {"project": "APP"}])
    if indexed:
        run_sql(store, "CREATE INDEX of_project ON observations (project)")
    assert len(ask(str(store), limit=100).observations) == ROWS
    assert len(ask(str(store), keys=make_keys("App"), limit=100).observations) == 1


def test_a_damaged_index_costs_no_row_of_a_search(store: Path) -> None:
    damaged("idx_observations_project")(store)
    resolved = resolve(QUESTION, make_settings(), make_keys("app"), located(str(store)))
    with open_pool() as pool:
        found = search_rows("happened", 100, None, resolved, pool, Deadline.after(20))
    assert len(found.observations) == ROWS
    assert [warning.code for warning in found.warnings] == ["store_corrupt"]
