"""Stores as claude-mem's releases make them, and helpers that fill them.

Three generations, named by the release whose tables they equal: 7.4.5 (`sdk_session_id`, six
allowed types), 9.1.1 (`memory_session_id`) and 13.25.3 (merged projects, platforms, sync). Only
what the daemon reads is made, with every column, constraint and index of it, and the queue table
that makes stores big; the full-text tables are left out.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal

Generation = Literal["7.4.5", "9.1.1", "13.25.3"]

GENERATIONS: Final[tuple[Generation, ...]] = ("7.4.5", "9.1.1", "13.25.3")

BASE_EPOCH: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z in milliseconds; row N of a store is N minutes later unless told."""

_VERSIONS: Final[Mapping[Generation, tuple[int, ...]]] = {
    "7.4.5": (*range(4, 12), 16),
    "9.1.1": (*range(4, 12), 16, 17, 19, 20, 21),
    "13.25.3": (
        *range(4, 12), 16, 17, *range(20, 25), *range(26, 36), 39, 41, 42, *range(44, 53),
    ),
}  # fmt: skip

_TYPES_7: Final = (
    "CHECK(type IN ('decision', 'bugfix', 'feature', 'refactor', 'discovery', 'change'))"
)

_SYNC: Final = (
    "synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT,"
    " sync_rev TEXT NOT NULL DEFAULT '1'"
)


def make_store(
    path: str | os.PathLike[str],
    generation: Generation = "13.25.3",
    *,
    journal: str = "wal",
    indexes: bool = True,
) -> str:
    """Make an empty store (and the folders above it); returns its path as text."""
    name = os.fsdecode(path)
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    with closing(sqlite3.connect(name)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.executescript(";\n".join(schema_sql(generation, indexes=indexes)))
        db.executemany(
            "INSERT INTO schema_versions (version, applied_at) VALUES (?, ?)",
            [(version, iso(BASE_EPOCH)) for version in _VERSIONS[generation]],
        )
        db.commit()
    return name


def schema_sql(generation: Generation = "13.25.3", *, indexes: bool = True) -> tuple[str, ...]:
    """The CREATE statements of one generation."""
    session = session_column(generation)
    content = "claude_session_id" if generation == "7.4.5" else "content_session_id"
    new = generation == "13.25.3"
    platform = " platform_source TEXT NOT NULL DEFAULT 'claude'," if new else ""
    cascade = "ON DELETE CASCADE" + ("" if generation == "7.4.5" else " ON UPDATE CASCADE")
    tables = (
        (
            "CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL,"
            " applied_at TEXT NOT NULL)"
        ),
        (
            f"CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,"
            f" {content} TEXT {'' if new else 'UNIQUE '}NOT NULL, {session} TEXT UNIQUE,"
            " project TEXT NOT NULL,"
            f"{platform}"
            " user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL,"
            " completed_at TEXT, completed_at_epoch INTEGER,"
            " status TEXT CHECK(status IN ('active', 'completed', 'failed')) NOT NULL DEFAULT 'active',"
            " worker_port INTEGER, prompt_counter INTEGER DEFAULT 0"
            f"{', custom_title TEXT, observed_model TEXT, observed_billing TEXT' if new else ''})"
        ),
        f"CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT,"
        f" {session} TEXT NOT NULL, project TEXT NOT NULL, text TEXT,"
        f" type TEXT NOT NULL {_TYPES_7 if generation == '7.4.5' else ''},"
        " title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,"
        " files_modified TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,"
        " created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0"
        + (
            ", content_hash TEXT, generated_by_model TEXT, relevance_count INTEGER DEFAULT 0,"
            f" merged_into_project TEXT, agent_type TEXT, agent_id TEXT, metadata TEXT, {_SYNC}"
            if new
            else ""
        )
        + f", FOREIGN KEY({session}) REFERENCES sdk_sessions({session}) {cascade})",
        f"CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT,"
        f" {session} TEXT NOT NULL, project TEXT NOT NULL, request TEXT, investigated TEXT,"
        " learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT,"
        " notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,"
        " created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0"
        + (f", merged_into_project TEXT, {_SYNC}" if new else "")
        + f", FOREIGN KEY({session}) REFERENCES sdk_sessions({session}) {cascade})",
        (
            f"CREATE TABLE pending_messages (id INTEGER PRIMARY KEY AUTOINCREMENT,"
            f" session_db_id INTEGER NOT NULL, {content} TEXT NOT NULL, message_type TEXT NOT NULL,"
            " tool_name TEXT, tool_input TEXT, tool_response TEXT, cwd TEXT,"
            " status TEXT NOT NULL DEFAULT 'pending', created_at_epoch INTEGER NOT NULL)"
        ),
    )
    return (*tables, *(_index_sql(generation) if indexes else ()))


def _index_sql(generation: Generation) -> tuple[str, ...]:
    session = session_column(generation)
    content = "claude_session_id" if generation == "7.4.5" else "content_session_id"
    common = (
        f"CREATE INDEX idx_sdk_sessions_claude_id ON sdk_sessions({content})",
        f"CREATE INDEX idx_sdk_sessions_sdk_id ON sdk_sessions({session})",
        "CREATE INDEX idx_sdk_sessions_project ON sdk_sessions(project)",
        "CREATE INDEX idx_sdk_sessions_status ON sdk_sessions(status)",
        "CREATE INDEX idx_sdk_sessions_started ON sdk_sessions(started_at_epoch DESC)",
        f"CREATE INDEX idx_session_summaries_sdk_session ON session_summaries({session})",
        "CREATE INDEX idx_session_summaries_project ON session_summaries(project)",
        "CREATE INDEX idx_session_summaries_created ON session_summaries(created_at_epoch DESC)",
        f"CREATE INDEX idx_observations_sdk_session ON observations({session})",
        "CREATE INDEX idx_observations_project ON observations(project)",
        "CREATE INDEX idx_observations_type ON observations(type)",
        "CREATE INDEX idx_observations_created ON observations(created_at_epoch DESC)",
    )
    if generation != "13.25.3":
        return common
    origin = "(origin_device_id, origin_local_id) WHERE origin_device_id IS NOT NULL"
    return (
        *common,
        "CREATE INDEX idx_observations_content_hash ON observations(content_hash, created_at_epoch)",
        "CREATE INDEX idx_sdk_sessions_platform_source ON sdk_sessions(platform_source)",
        "CREATE INDEX idx_observations_merged_into ON observations(merged_into_project)",
        "CREATE INDEX idx_summaries_merged_into ON session_summaries(merged_into_project)",
        "CREATE INDEX idx_observations_agent_type ON observations(agent_type)",
        "CREATE INDEX idx_observations_agent_id ON observations(agent_id)",
        (
            "CREATE UNIQUE INDEX ux_observations_session_hash"
            " ON observations(memory_session_id, content_hash)"
        ),
        (
            "CREATE UNIQUE INDEX ux_sdk_sessions_platform_content"
            " ON sdk_sessions(platform_source, content_session_id)"
        ),
        "CREATE INDEX idx_observations_unsynced ON observations(id) WHERE synced_at IS NULL",
        (
            "CREATE INDEX idx_session_summaries_unsynced ON session_summaries(id)"
            " WHERE synced_at IS NULL"
        ),
        f"CREATE UNIQUE INDEX ux_observations_origin ON observations{origin}",
        f"CREATE UNIQUE INDEX ux_session_summaries_origin ON session_summaries{origin}",
    )


def session_column(generation: Generation) -> str:
    return "sdk_session_id" if generation == "7.4.5" else "memory_session_id"


def iso(epoch_ms: int) -> str:
    """The text claude-mem writes beside an epoch."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{epoch_ms % 1000:03d}Z"


def add_observations(
    path: str | os.PathLike[str],
    rows: Iterable[Mapping[str, Any]],
    *,
    connection: sqlite3.Connection | None = None,
) -> list[int]:
    """Insert rows given by column; returns their ids.

    What a row leaves out: project `app`, type `discovery`, concepts `["how-it-works"]`, a title
    and narrative that name the row's id (so that no two rows are copies), a session `session-1`,
    a time `BASE_EPOCH` plus id minutes. Lists become JSON; `session` stands for the session column
    of either name; a given `created_at_epoch` in milliseconds decides `created_at`.
    """
    return _insert(os.fsdecode(path), "observations", rows, connection)


def add_observation(path: str | os.PathLike[str], **values: Any) -> int:
    """Insert one row; see `add_observations`."""
    return add_observations(path, [values])[0]


def add_summary(path: str | os.PathLike[str], **values: Any) -> int:
    """Insert one session summary; defaults as for `add_observations`."""
    return _insert(os.fsdecode(path), "session_summaries", [values], None)[0]


def add_session(
    path: str | os.PathLike[str],
    session: str = "session-1",
    *,
    content_session: str | None = None,
    project: str = "app",
    platform_source: str | None = None,
) -> int:
    """Insert a session: `session` is the one rows name, `content_session` the assistant's own
    (default: `content-` and the session)."""
    with closing(sqlite3.connect(os.fsdecode(path))) as db:
        columns = _columns(db, "sdk_sessions")
        values: dict[str, Any] = {
            _pick(columns, "memory_session_id", "sdk_session_id"): session,
            _pick(columns, "content_session_id", "claude_session_id"): content_session
            or f"content-{session}",
            "project": project,
            "started_at": iso(BASE_EPOCH),
            "started_at_epoch": BASE_EPOCH,
        }
        if platform_source is not None:
            values["platform_source"] = platform_source
        identity = _insert_row(db, "sdk_sessions", values)
        db.commit()
        return identity


def run_sql(
    path: str | os.PathLike[str], sql: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """One statement by a writer of its own, committed."""
    with closing(sqlite3.connect(os.fsdecode(path))) as db:
        rows = db.execute(sql, parameters).fetchall()
        db.commit()
        return rows


def _insert(
    path: str, table: str, rows: Iterable[Mapping[str, Any]], connection: sqlite3.Connection | None
) -> list[int]:
    with closing(sqlite3.connect(path)) if connection is None else _Keep(connection) as db:
        columns = _columns(db, table)
        last = db.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]
        ids = []
        for given in rows:
            identity = given.get("id", last + 1)
            values = _defaults(table, identity, given)
            session = values.pop("session")
            values.setdefault(_pick(columns, "memory_session_id", "sdk_session_id"), session)
            ids.append(_insert_row(db, table, {"id": identity, **values}))
            last = max(last, identity)
        db.commit()
        return ids


def _defaults(table: str, identity: int, given: Mapping[str, Any]) -> dict[str, Any]:
    epoch = given.get("created_at_epoch", BASE_EPOCH + identity * 60_000)
    usable = isinstance(epoch, int) and 0 < epoch < 10**13
    values: dict[str, Any] = {
        "session": "session-1",
        "project": "app",
        "created_at": iso(epoch if usable else BASE_EPOCH),
        "created_at_epoch": epoch,
    }
    if table == "observations":
        values |= {
            "type": "discovery",
            "title": f"Observation {identity}",
            "narrative": f"What happened in {identity}.",
            "concepts": '["how-it-works"]',
        }
    else:
        values |= {"request": f"Request {identity}", "completed": f"Done {identity}"}
    return values | {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in given.items()
    }


def _insert_row(db: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> int:
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    cursor = db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
    return int(cursor.lastrowid or 0)


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _pick(columns: set[str], *names: str) -> str:
    return next(name for name in names if name in columns)


class _Keep:
    """A connection of someone else: used, not closed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> sqlite3.Connection:
        return self.connection

    def __exit__(self, *exc: object) -> None:
        return None


_WRITER: Final = """
import json, os, sqlite3, sys
db = sqlite3.connect(os.fsencode(sys.argv[1]), isolation_level=None, timeout=5)
for line in sys.stdin:
    sql, parameters = json.loads(line)
    try:
        answer = [list(row) for row in db.execute(sql, parameters)]
    except sqlite3.Error as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
db.close()
"""


class OtherProcess:
    """A writer in a process of its own that keeps the store open, as claude-mem's worker does.

        with OtherProcess(path) as writer:
            writer.run("BEGIN IMMEDIATE")
            ...

    Statements run one at a time in autocommit; leaving the block closes the connection.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _WRITER, os.fsdecode(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[list[Any]]:
        """One statement; returns its rows. An SQLite error is raised as `AssertionError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([sql, list(parameters)]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict):
            raise AssertionError(f"writer: {answer['error']}")
        rows: list[list[Any]] = answer
        return rows

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        self._process.kill()
        self._process.wait(10)

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()
