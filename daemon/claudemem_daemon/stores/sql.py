"""The SQL of one store, built from what its schema has. Pure: text and parameters.

Rows are chosen narrow (id, time, project); only winners are read wide. Three plans find the newest
matching rows of a set of projects, and each is best somewhere:

    project  all rows of the projects through the project index, then a sort: few rows
    time     newest first through the time index until the limit is full: many rows
    recent   only rows above an id, by rowid: news since the last answer
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, SUMMARY_CELLS
from claudemem_daemon.stores.schema import index_on

Table = Literal["observations", "session_summaries"]
Plan = Literal["project", "time", "recent"]
Parameters = tuple[str | int | float | None, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rows of one store pass. None for a list means that it restricts nothing.

    projects  values of the project column; merged: values of merged_into_project
    above     only rows with a greater id
    not_of    the assistant's own session id, whose rows are left out
    """

    projects: tuple[str, ...]
    merged: tuple[str, ...] = ()
    types: tuple[str, ...] | None = None
    concepts: tuple[str, ...] | None = None
    platform: str | None = None
    above: int | None = None
    not_of: str | None = None


@dataclass(frozen=True, slots=True)
class Epochs:
    """How a table's times read. `scale` is the factor to milliseconds where all of them have one
    unit, which the smallest and the greatest tell; None where units are mixed or the times are no
    numbers, so that every row must be judged on its own."""

    scale: float | None


@dataclass(frozen=True, slots=True)
class After:
    """The last row of the page before, in the order of the answer."""

    epoch: int | float
    project: str
    id: int


@dataclass(slots=True)
class _Builder:
    terms: list[str] = field(default_factory=list)
    parameters: list[str | int | float | None] = field(default_factory=list)

    def add(self, term: str, *parameters: str | int | float | None) -> None:
        self.terms.append(term)
        self.parameters += parameters


_LIST: Final = "(SELECT value FROM json_each(?))"

_NUMBER: Final = (
    "CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'real' THEN {0} WHEN 'text' THEN"
    " CASE WHEN {0} <> '' AND {0} NOT GLOB '*[^0-9.]*' THEN CAST({0} AS NUMERIC) END END"
)


def milliseconds(column: str) -> str:
    """An expression for a time of any unit in milliseconds, NULL where it is none: seconds,
    microseconds and nanoseconds are told by their magnitude."""
    number = _NUMBER.format(column)
    return (
        f"(SELECT CASE WHEN n > 0 AND n < 1e8 OR n >= 1e11 AND n < 1e14 THEN CAST(n AS INTEGER)"
        f" WHEN n >= 1e8 AND n < 1e11 THEN CAST(n * 1000 AS INTEGER)"
        f" WHEN n >= 1e14 AND n < 1e17 THEN CAST(n / 1000 AS INTEGER)"
        f" WHEN n >= 1e17 AND n < 1e20 THEN CAST(n / 1000000 AS INTEGER) END"
        f" FROM (SELECT {number} AS n))"
    )


def distinct_projects(schema: Schema, table: Table, column: str) -> Statement:
    """Every value of the column once: hops from one to the next through its index, so the cost is
    that of the values and not of the rows."""
    index = index_on(schema, table, column)
    if index is None:
        return Statement(
            f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text'", ()
        )
    return Statement(
        f"WITH RECURSIVE hop(name) AS ("
        f"SELECT min({column}) FROM {table} INDEXED BY {index} WHERE {column} >= ''"
        f" UNION ALL SELECT (SELECT min({column}) FROM {table} INDEXED BY {index}"
        f" WHERE {column} > hop.name) FROM hop WHERE hop.name IS NOT NULL)"
        f" SELECT name FROM hop WHERE typeof(name) = 'text'",
        (),
    )


def ends(schema: Schema, table: Table) -> tuple[Statement, Statement] | None:
    """The smallest and the greatest time; None without an index that has them at hand."""
    index = index_on(schema, table, "created_at_epoch")
    if index is None:
        return None
    both = (
        f"SELECT created_at_epoch FROM {table} INDEXED BY {index}"
        f" ORDER BY created_at_epoch {order} LIMIT 1"
        for order in ("ASC", "DESC")
    )
    first, last = (Statement(text, ()) for text in both)
    return first, last


def highest_id(table: Table) -> Statement:
    return Statement(f"SELECT max(id) FROM {table}", ())


def how_many(schema: Schema, table: Table, wanted: Wanted, most: int) -> Statement | None:
    """How many rows the projects have, counted up to `most`; None without a project index."""
    index = index_on(schema, table, "project")
    if index is None:
        return None
    return Statement(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} INDEXED BY {index}"
        f" WHERE project IN {_LIST} LIMIT ?)",
        (_json(wanted.projects), most),
    )


def candidates(
    schema: Schema,
    table: Table,
    wanted: Wanted,
    *,
    plan: Plan,
    epochs: Epochs,
    limit: int,
    after: After | None = None,
    offset: int = 0,
) -> Statement:
    """(id, time, project) of the newest matching rows, in the order of the answer: time, project,
    id, all descending. Times are raw where the unit is uniform, else milliseconds or NULL.

    Pages follow by `after`, or by `offset` where times are mixed.
    """
    where = _Builder()
    uniform = epochs.scale is not None
    time = "created_at_epoch" if uniform else milliseconds("created_at_epoch")
    source = _source(schema, table, wanted, plan, where, timed=uniform)
    if after is not None:
        where.add("created_at_epoch <= ?", after.epoch)
        where.add(
            "(created_at_epoch, project, id) < (?, ?, ?)", after.epoch, after.project, after.id
        )
    _filters(schema, wanted, where, observations=table == "observations")
    order = "created_at_epoch DESC" if uniform else "at DESC NULLS LAST"
    return Statement(
        f"SELECT id, {time} AS at, project FROM {source}"
        f" WHERE {' AND '.join(where.terms) or '1'}"
        f" ORDER BY {order}, project DESC, id DESC LIMIT ? OFFSET ?",
        (*where.parameters, limit, offset),
    )


def _source(
    schema: Schema, table: Table, wanted: Wanted, plan: Plan, where: _Builder, *, timed: bool
) -> str:
    """The table with the index the plan wants, and the projects' condition."""
    by_project = index_on(schema, table, "project")
    by_time = index_on(schema, table, "created_at_epoch")
    if wanted.above is not None:
        where.add("id > ?", wanted.above)
    if plan == "project" and by_project is not None:
        parts = [f"SELECT id FROM {table} INDEXED BY {by_project} WHERE project IN {_LIST}"]
        parameters: list[str | int | float | None] = [_json(wanted.projects)]
        if wanted.merged:
            parts.append(f"SELECT id FROM {table} WHERE merged_into_project IN {_LIST}")
            parameters.append(_json(wanted.merged))
        where.add(f"id IN ({' UNION '.join(parts)})", *parameters)
        return f"{table} NOT INDEXED"
    if wanted.merged:
        where.add(
            f"(project IN {_LIST} OR merged_into_project IN {_LIST})",
            _json(wanted.projects),
            _json(wanted.merged),
        )
    else:
        where.add(f"+project IN {_LIST}", _json(wanted.projects))
    if plan == "time" and by_time is not None and timed:
        return f"{table} INDEXED BY {by_time}"
    return f"{table} NOT INDEXED"


def _filters(schema: Schema, wanted: Wanted, where: _Builder, *, observations: bool) -> None:
    """Type, concept and session conditions, the cheap ones first."""
    if observations and wanted.types is not None:
        if "type" in schema.observations:
            where.add(f"lower(type) IN {_LIST}", _json(wanted.types))
        else:
            where.add("0")
    _session_filters(schema, wanted, where, "observations" if observations else "session_summaries")
    if observations and wanted.concepts is not None:
        where.add(*concept_term(schema, wanted.concepts))


def concept_term(schema: Schema, concepts: Sequence[str]) -> tuple[str, str]:
    """At least one of `concepts`. The CASE guards json_each, whatever order SQLite evaluates in:
    one malformed row would end the whole query."""
    if "concepts" not in schema.observations:
        return "? IS NULL", ""
    guarded = (
        "CASE WHEN typeof(concepts) = 'text' AND json_valid(concepts)"
        " AND json_type(concepts) IN ('array', 'text') THEN concepts ELSE '[]' END"
    )
    term = (
        f"EXISTS (SELECT 1 FROM json_each({guarded}) AS one WHERE one.type = 'text'"
        f" AND lower(one.value) IN {_LIST})"
    )
    return term, _json(concepts)


def platform_expression(schema: Schema, table: Table) -> str:
    """The assistant that wrote a row; claude-mem before sessions had a platform was Claude's."""
    if "platform_source" not in schema.sessions:
        return "'claude'"
    session = schema.session_column
    return (
        f"coalesce((SELECT s.platform_source FROM sdk_sessions AS s"
        f" WHERE s.{session} = {table}.{session}), 'claude')"
    )


def _session_filters(schema: Schema, wanted: Wanted, where: _Builder, table: Table) -> None:
    session = schema.session_column
    if wanted.platform is not None:
        if "platform_source" in schema.sessions:
            where.add(f"lower({platform_expression(schema, table)}) = ?", wanted.platform)
        elif wanted.platform != "claude":
            where.add("0")
    if wanted.not_of is not None:
        where.add(f"{session} IS NOT ?", wanted.not_of)
        own = next(
            (c for c in ("content_session_id", "claude_session_id") if c in schema.sessions), None
        )
        if own is not None:
            where.add(
                f"{session} NOT IN (SELECT {session} FROM sdk_sessions"
                f" WHERE {own} = ? AND {session} IS NOT NULL)",
                wanted.not_of,
            )


def wide(schema: Schema, table: Table, ids: Sequence[int]) -> Statement:
    """Whole rows by id, in no order: id, project, merged, session, platform, origin, cells."""
    has = schema.observations if table == "observations" else schema.summaries
    cells = OBSERVATION_CELLS if table == "observations" else SUMMARY_CELLS

    def column(name: str) -> str:
        return name if name in has else "NULL"

    columns = (
        "id",
        "project",
        column("merged_into_project"),
        schema.session_column,
        platform_expression(schema, table),
        column("origin_device_id"),
        column("origin_local_id"),
        *(column(name) for name in cells),
    )
    return Statement(f"SELECT {', '.join(columns)} FROM {table} WHERE id IN {_LIST}", (_json(ids),))


def counts(schema: Schema, wanted: Wanted) -> Statement:
    """For explain: rows of the projects, of those the right type, of those a right concept."""
    where = _Builder()
    source = _source(schema, "observations", wanted, "project", where, timed=False)
    kind = _Builder()
    if wanted.types is not None:
        kind.add(f"lower(type) IN {_LIST}", _json(wanted.types))
    concept = _Builder()
    if wanted.concepts is not None:
        concept.add(*concept_term(schema, wanted.concepts))
    typed = " AND ".join(kind.terms) or "1"
    both = f"({typed}) AND ({' AND '.join(concept.terms) or '1'})"
    return Statement(
        f"SELECT count(*), coalesce(sum({typed}), 0), coalesce(sum({both}), 0)"
        f" FROM {source} WHERE {' AND '.join(where.terms)}",
        (*kind.parameters, *kind.parameters, *concept.parameters, *where.parameters),
    )


def _json(values: Sequence[str] | Sequence[int]) -> str:
    return json.dumps(list(values))
