"""The SQL of one store, built from what its schema has. Pure: text and parameters.

Rows are chosen narrow (id, time, `created_at`, project); only winners are read wide. Four plans find
the newest matching rows of a set of projects, and each is best somewhere:

    project  all rows of the projects through the project index: few rows, and news
    walk     the newest by id down the project index, then the time index tells the rows that
             are newer in time than those and older by id: many rows of few projects
    both     newest first down the time index, and of its rows only those are read whose ids the
             project index gave: middling many rows of many projects
    time     newest first down the time index: many rows of many projects
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from claudemem_daemon.stores.bounds import MAX_LIST, MAX_NAME, bounded, large
from claudemem_daemon.stores.letters import lowered
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.odd_text import raw
from claudemem_daemon.stores.rows import CELLS

Table = Literal["observations", "session_summaries"]
TABLES: Final[tuple[Table, ...]] = ("observations", "session_summaries")
Plan = Literal["project", "walk", "both", "time"]
Column = Literal["project", "merged_into_project"]
Parameter = str | bytes | int | float | None
Parameters = tuple[Parameter, ...]

TIMED: Final = "created_at_epoch >= 100000000 AND created_at_epoch < 100000000000000000"
"""Times of a unit that can be told: text and blobs sort above all numbers, NULL below."""


class Statement(NamedTuple):
    text: str
    parameters: Parameters = ()


class Wanted(NamedTuple):
    """What rows of one store pass. None for a list means that it restricts nothing.

    projects  values of the project column; merged: values of merged_into_project
    types, concepts, platform
              in lower case
    above, upto
              only rows with a greater id, and with one that is not greater
    not_of    the assistant's own session id, whose rows are left out
    """

    projects: tuple[str, ...]
    merged: tuple[str, ...] = ()
    types: tuple[str, ...] | None = None
    concepts: tuple[str, ...] | None = None
    platform: str | None = None
    above: int | None = None
    upto: int | None = None
    not_of: str | None = None

    @property
    def branches(self) -> tuple[tuple[Column, tuple[str, ...]], ...]:
        """The two ways in which a project can have a row, each with an index of its own."""
        both: tuple[tuple[Column, tuple[str, ...]], ...] = (
            ("project", self.projects),
            ("merged_into_project", self.merged),
        )
        return tuple((column, names) for column, names in both if names)


def both(*terms: Statement) -> Statement:
    """All of the terms."""
    text = " AND ".join([term.text for term in terms])
    return Statement(text or "1", tuple([value for term in terms for value in term.parameters]))


EVERY: Final = Statement("1")
NO_ROW: Final = Statement("0")
UNTIMED: Final = Statement(f"NOT ifnull({TIMED}, 0)")
MAX_MARKS: Final = 100
"""More values are given as one list."""
EACH: Final = "json_each(CAST(? AS TEXT))"
LIST: Final = f"(SELECT value FROM {EACH})"
"""Of a parameter that `as_list` makes; of bytes where a name is no UTF-8."""

NEWEST: Final = " ORDER BY created_at_epoch DESC"
NARROW: Final = ", ".join(
    ("id", *(bounded(name, MAX_NAME) for name in ("created_at_epoch", "created_at", "project")))
)


def among(expression: str, names: Sequence[str]) -> Statement:
    """Whether the expression is one of the names, byte for byte whatever collation the column has.
    The text is the same for any two or more: SQLite takes a statement apart once."""
    exactly = f"{expression} COLLATE BINARY"
    if len(names) != 1:
        return Statement(f"{exactly} IN {LIST}", (as_list(names),))
    name = raw(names[0])
    return Statement(f"{exactly} = {'?' if isinstance(name, str) else 'CAST(? AS TEXT)'}", (name,))


def among_listed(expression: str, values: Sequence[str]) -> Statement:
    """The same for a list of the settings: on each row several times faster."""
    given = tuple(map(raw, values))
    if len(given) > MAX_MARKS or not all(isinstance(value, str) for value in given):
        return among(expression, values)
    return Statement(f"{expression} IN ({', '.join('?' * len(given))})", given)


def ends(schema: Schema, table: Table) -> Statement | None:
    """The smallest and the greatest time of a tellable unit; None without a time index."""
    if schema.index_on(table, "created_at_epoch") is None:
        return None
    source = schema.by_index(table, "created_at_epoch")
    first, last = (
        f"(SELECT created_at_epoch FROM {source} WHERE {TIMED}"
        f" ORDER BY created_at_epoch {order} LIMIT 1)"
        for order in ("ASC", "DESC")
    )
    return Statement(f"SELECT {first}, {last}")


def highest_id(table: Table) -> Statement:
    # Text and infinities are greater than all numbers.
    return Statement(f"SELECT max(id) FROM {table} WHERE id <= {2**63 - 1}")


def has_indexes(schema: Schema, table: Table, wanted: Wanted) -> bool:
    return all(schema.index_on(table, column) is not None for column, _ in wanted.branches)


def ids_of(schema: Schema, table: Table, wanted: Wanted) -> Statement:
    """The ids of all rows of the projects, by their indexes alone where there are any; one that was
    merged can come twice."""
    parts: list[str] = []
    parameters: Parameters = ()
    for column, names in wanted.branches:
        ours = among(column, names)
        parts.append(f"SELECT id FROM {schema.by_index(table, column)} WHERE {ours.text}")
        parameters += ours.parameters
    return Statement(" UNION ALL ".join(parts) or "SELECT NULL", parameters)


def how_many(schema: Schema, table: Table, wanted: Wanted, most: int = -1) -> Statement:
    """How many rows the projects have, filters apart; with `most` about how many, counted up to it.
    Reads no row where the indexes are."""
    ids = ids_of(schema, table, wanted)
    # Those merged into one project and written under another come by both indexes.
    distinct = "DISTINCT " if len(wanted.branches) > 1 and most < 0 else ""
    text = f"SELECT count({distinct}id) FROM ({ids.text} LIMIT ?)"
    return Statement(text, (*ids.parameters, most))


def _narrow(
    schema: Schema,
    table: Table,
    wanted: Wanted,
    source: str,
    *terms: Statement,
    order: str = "",
) -> Statement:
    """Matching rows of `source`; the terms have the projects' condition."""
    bounds = [("id > ?", wanted.above), ("id <= ?", wanted.upto)]
    kind, concept, session = filter_terms(schema, table, wanted)
    where = both(
        *terms,
        *(Statement(text, (value,)) for text, value in bounds if value is not None),
        *(term for term in (kind, session, concept) if term is not EVERY),  # the cheap ones first
    )
    text = f"SELECT {NARROW} FROM {source} WHERE {where.text}{order}"
    return Statement(text, where.parameters)


def _of_projects(wanted: Wanted) -> Statement:
    """The projects' condition on any row; no index is used for it."""
    either = [among(bounded(column, MAX_NAME), names) for column, names in wanted.branches]
    text = " OR ".join([term.text for term in either])
    return Statement(f"({text or '0'})", both(*either).parameters)


def all_rows(
    schema: Schema, table: Table, wanted: Wanted, *terms: Statement
) -> tuple[Statement, ...]:
    """The project plan: matching rows, in no order; one statement a branch. Without an index the
    whole table is read."""
    return tuple(
        _narrow(schema, table, wanted, schema.by_index(table, column), among(column, names), *terms)
        for column, names in wanted.branches
    )


def without_indexes(schema: Schema, table: Table, wanted: Wanted) -> tuple[Statement, ...]:
    """All matching rows by the table alone, from its one end and from its other."""
    return tuple(
        _narrow(
            schema,
            table,
            wanted,
            f"{table} NOT INDEXED",
            _of_projects(wanted),
            order=f" ORDER BY id {order}",
        )
        for order in ("ASC", "DESC")
    )


def matching(schema: Schema, table: Table, wanted: Wanted, ids: Sequence[int]) -> Statement:
    """Those of `ids` that match."""
    listed = Statement(f"id IN {LIST}", (id_list(schema, table, ids),))
    return _narrow(schema, table, wanted, f"{table} NOT INDEXED", listed, _of_projects(wanted))


def newest_by_id(
    schema: Schema,
    table: Table,
    wanted: Wanted,
    branch: tuple[Column, str],
    limit: int,
    below: int | None = None,
) -> Statement:
    """The walk plan's first half: matching rows of one project, highest ids (`below` one that was
    reached before) first."""
    column, name = branch
    further = () if below is None else (Statement("id < ?", (below,)),)
    source = schema.by_index(table, column)
    found = _narrow(schema, table, wanted, source, among(column, (name,)), *further)
    return Statement(f"{found.text} ORDER BY id DESC LIMIT ?", (*found.parameters, limit))


def out_of_order(
    schema: Schema, table: Table, since: int, below: int, above: int | None, most: int
) -> Statement:
    """The walk plan's second half: ids smaller than `below` whose time is `since` (milliseconds) or
    later, in whatever unit it is written. Reads the time index alone, no row."""
    source = schema.by_index(table, "created_at_epoch")
    ids, bound = ("id < ?", (below,)) if above is None else ("id < ? AND id > ?", (below, above))
    ranges = (
        (max(10**8, since // 1000), 10**11),
        (max(1, since), 10**8),
        (max(10**11, since), 10**14),
        (max(10**14, since * 1000), 10**17),
    )
    timed = "created_at_epoch >= ? AND created_at_epoch < ?"
    parts = [f"SELECT id FROM {source} WHERE {timed} AND {ids}" for _ in ranges]
    parts.append(f"SELECT id FROM {source} WHERE created_at_epoch >= '' AND {ids}")
    parameters = [value for low, high in ranges for value in (low, high, *bound)]
    return Statement(" UNION ALL ".join(parts) + " LIMIT ?", (*parameters, *bound, most))


def newest_by_time(schema: Schema, table: Table, wanted: Wanted) -> Statement:
    """The time plan: matching rows with a time, newest first; rows of equal time in no order."""
    source = schema.by_index(table, "created_at_epoch")
    terms = Statement(TIMED), _of_projects(wanted)
    return _narrow(schema, table, wanted, source, *terms, order=NEWEST)


def newest_by_both(schema: Schema, table: Table, wanted: Wanted) -> Statement:
    """The plan of both indexes: as `newest_by_time`, but the projects' ids come from their index
    first."""
    ids = ids_of(schema, table, wanted)
    source = schema.by_index(table, "created_at_epoch")
    # `+` keeps SQLite from going through the ids instead of through the times.
    terms = Statement(TIMED), Statement(f"+id IN ({ids.text})", ids.parameters)
    return _narrow(schema, table, wanted, source, *terms, order=NEWEST)


def filter_terms(
    schema: Schema, table: Table, wanted: Wanted
) -> tuple[Statement, Statement, Statement]:
    """The conditions on the type, on the concepts and on the session; `EVERY` for no condition."""
    kind = concept = EVERY
    if table == "observations" and wanted.types is not None:
        kind = NO_ROW
        if "type" in schema.observations:
            kind = among_listed(lowered(bounded("type", MAX_NAME), wanted.types), wanted.types)
    if table == "observations" and wanted.concepts is not None:
        concept = concept_term(schema, wanted.concepts)
    return kind, concept, _session_term(schema, wanted, table)


CONCEPTS: Final = (
    f"CASE WHEN typeof(concepts) = 'text' AND octet_length(concepts) <= {MAX_LIST}"
    " AND json_valid(concepts) THEN concepts ELSE '[]' END"
)
"""A row's concepts for `json_each`. The CASE guards it, whatever order SQLite evaluates in: one
malformed row would end the whole query."""


def concept_term(schema: Schema, concepts: Sequence[str]) -> Statement:
    """At least one of `concepts`, or too many to be read: such a row is shown without them."""
    if "concepts" not in schema.observations:
        return NO_ROW
    listed = among_listed(lowered("item.value", concepts), concepts)
    term = (
        f"(octet_length(concepts) > {MAX_LIST} OR EXISTS (SELECT 1 FROM json_each({CONCEPTS}) AS item"
        f" WHERE item.type = 'text' AND {listed.text}))"
    )
    return Statement(term, listed.parameters)


def platform_expression(schema: Schema, table: Table) -> str:
    """The assistant that wrote a row; claude-mem before sessions had a platform was Claude's."""
    if "platform_source" not in schema.sessions:
        return "'claude'"
    session = schema.session_column
    return (
        f"coalesce((SELECT {bounded('s.platform_source', MAX_NAME)} FROM sdk_sessions AS s"
        f" WHERE s.{session} = {bounded(f'{table}.{session}', MAX_NAME)}), 'claude')"
    )


def _session_term(schema: Schema, wanted: Wanted, table: Table) -> Statement:
    session = schema.session_column
    terms: list[Statement] = []
    if wanted.platform is not None:
        if "platform_source" in schema.sessions:
            platform = lowered(platform_expression(schema, table), [wanted.platform])
            terms.append(Statement(f"{platform} = ?", (raw(wanted.platform),)))
        elif wanted.platform != "claude":
            terms.append(NO_ROW)
    if wanted.not_of is not None:
        given = (wanted.not_of,)
        terms.append(Statement(f"{bounded(session, MAX_NAME)} IS NOT ?", given))
        for own in ("content_session_id", "claude_session_id"):
            if own in schema.sessions:
                ours = f"SELECT {session} FROM sdk_sessions WHERE {own} = ?"
                terms.append(
                    Statement(f"{session} NOT IN ({ours} AND {session} IS NOT NULL)", given)
                )
    return both(*terms) if terms else EVERY


def wide(schema: Schema, table: Table, ids: Sequence[int]) -> Statement:
    """Whole rows by id, in no order: id, project, merged, session, platform, origin, the bytes of the
    cells as `large` has them, and the cells without the large ones."""
    has, cells = schema.columns(table), CELLS[table]

    def column(name: str, most: int | None = MAX_NAME) -> str:
        return bounded(name, most) if name in has else "NULL"

    columns = (
        "id",
        column("project"),
        column("merged_into_project"),
        column(schema.session_column),
        platform_expression(schema, table),
        column("origin_device_id"),
        column("origin_local_id"),
        large([name if name in has else "NULL" for name in cells]),
        *(column(name, None) for name in cells),
    )
    return Statement(
        f"SELECT {', '.join(columns)} FROM {table} WHERE id IN {LIST}",
        (id_list(schema, table, ids),),
    )


def id_list(schema: Schema, table: Table, ids: Sequence[int]) -> str | bytes:
    """The parameter for `LIST` of ids, which a column of another type can hold as text."""
    if table in schema.loose_ids:
        return json.dumps([*ids, *map(str, ids)])
    return as_list(ids)


def as_list(values: Sequence[str] | Sequence[int]) -> str | bytes:
    """The parameter for `LIST`."""
    return raw(json.dumps(list(values), ensure_ascii=False))
