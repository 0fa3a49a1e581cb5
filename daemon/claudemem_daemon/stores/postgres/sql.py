"""The SQL for a claude-mem server's database: one text a statement, so that the server plans each once.

A row of `observations` is a session summary where its kind is `summary`, else an observation of
that type; what it says is in `metadata`. The index on `(metadata->>'project', created_at DESC)` is
not the server's own: with it each query reads a few rows, without it the table.

Statements about what is wanted begin with the same parameters: $1 projects, $2 types, $3 concepts,
$4 platform. NULL restricts nothing. Times are microseconds since 1970.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from claudemem_daemon.stores.bounds import (
    MAX_LIST,
    MAX_NAME,
    MAX_TEXT,
    bounded,
    most_bytes,
)
from claudemem_daemon.stores.counting import MAX_VALUES
from claudemem_daemon.stores.rows import CELLS
from claudemem_daemon.stores.sql import TABLES, Table
from claudemem_daemon.stores.words import MAX_MATCHES

Parameter = str | int | tuple[str, ...] | None


class Query(NamedTuple):
    """A tuple among the parameters is an array to the server."""

    text: str
    parameters: tuple[Parameter, ...] = ()


def row_number(identity: str, microseconds: int) -> int:
    """A number for a row that grows with its time and tells rows of one time apart."""
    return microseconds << 32 | crc32(identity.encode())


def microseconds_of(number: int) -> int:
    return number >> 32


_PROJECT: Final = "metadata->>'project'"
_MICROSECONDS: Final = "(extract(epoch FROM o.created_at) * 1000000)::bigint"
_LARGE: Final = f"pg_column_size(o.metadata) > {MAX_LIST}"
"""Bytes as they are stored, compressed; to look into it, the server would have to unpack it."""
_METADATA: Final = f"CASE WHEN {_LARGE} THEN '{{}}' ELSE o.metadata END"
_LARGE_CONCEPTS: Final = f"pg_column_size(o.metadata->'concepts') > {MAX_LIST}"
_LISTED: Final = "jsonb_typeof(o.metadata->'concepts') = 'array'"
_CONCEPTS: Final = (
    f"jsonb_array_elements_text(CASE WHEN {_LISTED} AND NOT {_LARGE_CONCEPTS}"
    " THEN o.metadata->'concepts' ELSE '[]' END)"
)
_SESSION: Final = "FROM server_sessions AS s WHERE s.id = o.server_session_id)"
_DATED: Final = "date_part('epoch', o.created_at) BETWEEN -2e11 AND 9.1e12"
"""Whether its microseconds are a bigint; an infinite time is no time, and nothing of claude-mem's. In
terms that no index can use: the server would go down a bad one for it."""
_OF: Final = {
    table: f"o.kind {'<>' if table == 'observations' else '='} 'summary' AND {_DATED}"
    for table in TABLES
}
_OBSERVED: Final = _OF["observations"]


def _lowered(text: str, names: str) -> str:
    return f"replace(lower({text}), '\u03c2', '\u03c3') = ANY({names})"


_TYPE: Final = bounded("o.kind", MAX_NAME)
# Nearly always the first comparison is enough; what letter case hides costs a function call each.
_RIGHT_TYPE: Final = f"($2::text[] IS NULL OR o.kind = ANY($2) OR {_lowered(_TYPE, '$2')})"
# A row with too much to look into is shown, without its concepts.
_RIGHT_CONCEPT: Final = (
    f"($3::text[] IS NULL OR {_LARGE} OR ({_LISTED} AND o.metadata->'concepts' ?| $3)"
    f" OR EXISTS (SELECT 1 FROM {_CONCEPTS} AS concept WHERE {_lowered('concept', '$3')})"
    f" OR {_LARGE_CONCEPTS})"
)
_RIGHT_PLATFORM: Final = (
    "($4::text IS NULL OR"
    f" lower(coalesce((SELECT {bounded('s.platform_source', MAX_NAME)} {_SESSION}, 'claude')) = $4)"
)
_OTHER_SESSION: Final = (
    "($5::text IS NULL OR"
    f" (SELECT {bounded('s.content_session_id', MAX_NAME)} {_SESSION} IS DISTINCT FROM $5)"
)
_FROM: Final = "timestamptz 'epoch' + $6 * interval '1 microsecond'"
_TO: Final = "timestamptz 'epoch' + $7 * interval '1 microsecond'"
_SINCE: Final = f"($6::float8 IS NULL OR o.created_at >= {_FROM})"
_BEFORE: Final = f"($7::float8 IS NULL OR (o.created_at, o.id) < ({_TO}, $8::text))"
# The same for an index. Where there is no good one the server would go down a bad one for these.
_INDEXED_SINCE: Final = f"o.created_at >= coalesce({_FROM}, '-infinity')"
_INDEXED_BEFORE: Final = f"(o.created_at, o.id) < (coalesce({_TO}, 'infinity'), $8::text)"


def _matching(table: Table, since: str = _SINCE, before: str = _BEFORE) -> str:
    filters = (_RIGHT_TYPE, _RIGHT_CONCEPT, _RIGHT_PLATFORM, _OTHER_SESSION)
    return " AND ".join((_OF[table], since, before, *filters))


INDEXED: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = to_regclass('observations')"
    " AND indisvalid AND indpred IS NULL"
    " AND pg_get_indexdef(indexrelid, 1, true) LIKE '%metadata ->> ''project''%'),"
    " coalesce((SELECT reltuples FROM pg_class WHERE oid = to_regclass('observations')), 0)"
)
"""Whether the index is there; about how many rows."""
NAMES: Final = (
    f"SELECT {_PROJECT}, bool_or(kind <> 'summary') FROM observations"
    f" WHERE octet_length({_PROJECT}) <= {MAX_NAME} GROUP BY 1"
)
"""Each with whether it has an observation."""


def _present() -> str:
    # The last letter in the order of bytes, and the one in the order of ICU.
    end = "greatest(prefix || chr(1114111), prefix || chr(65535))"
    step = (
        f"LATERAL (SELECT {_PROJECT} AS name, kind FROM observations WHERE {_PROJECT} {{}}"
        f" AND {_PROJECT} < {end} ORDER BY {_PROJECT} LIMIT 1) AS next"
    )
    return (
        "WITH RECURSIVE found(prefix, name, kind) AS ("
        f"SELECT prefix, next.* FROM unnest($1::text[]) AS prefix, {step.format('>= prefix')}"
        f" UNION ALL SELECT prefix, next.* FROM found, {step.format('> found.name')})"
        " SELECT name, kind <> 'summary' OR EXISTS (SELECT 1 FROM observations AS o"
        f" WHERE {_PROJECT} = name AND {_OBSERVED}) FROM (SELECT name, kind FROM found"
        " UNION ALL SELECT name, 'summary' FROM unnest($2::text[]) AS name) AS every"
    )


PRESENT: Final = _present()
"""The projects that begin with one of the prefixes $1, those of the names $2, and perhaps others,
each with whether it has an observation; an index step or two a name."""


def _newest(table: Table, *, indexed: bool, since: bool) -> str:
    # In terms that an index can use, a given start spares most of the table even without our index.
    matching = _matching(
        table,
        _INDEXED_SINCE if indexed or since else _SINCE,
        _INDEXED_BEFORE if indexed else _BEFORE,
    )
    order = "ORDER BY o.created_at DESC, o.id DESC LIMIT $9"
    if not indexed:  # the table is read, once
        return (
            f"SELECT o.id, {_MICROSECONDS}, o.{_PROJECT} FROM observations AS o"
            f" WHERE o.{_PROJECT} = ANY($1) AND {matching} {order}"
        )
    return (  # a few rows of each project
        f"SELECT o.id, {_MICROSECONDS}, wanted.project FROM unnest($1::text[]) AS wanted(project),"
        " LATERAL (SELECT o.id, o.created_at FROM observations AS o"
        f" WHERE {_PROJECT} = wanted.project AND {matching} {order}) AS o {order}"
    )


NEWEST: Final = {
    (table, indexed, since): _newest(table, indexed=indexed, since=since)
    for table in TABLES
    for indexed in (True, False)
    for since in (True, False)
}
"""By table, by whether the index is there and by whether $6 is given: id, microseconds and project of
the $9 newest rows that are not of the session $5, not older than $6 and before the position ($7, $8):
microseconds, id."""

MATCHING: Final = {
    table: f"SELECT o.id, {_MICROSECONDS}, o.{_PROJECT} FROM observations AS o WHERE o.id = ANY($9)"
    f" AND o.{_PROJECT} = ANY($1) AND {_matching(table)}"
    for table in TABLES
}
"""The same of all those among the ids $9, in no order."""


def _whole(table: Table) -> str:
    names = CELLS[table]
    special = {
        "type": "o.kind",
        "title": "coalesce(m.title, split_part(left(o.content, 200), E'\\n', 1))",
        # The server makes `content` of the fields that a row has; by hand it may be all there is.
        "text": "CASE WHEN num_nonnulls(m.title, m.narrative) = 0 THEN o.content END",
        "created_at": "to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
    }
    cells = {name: special.get(name, f"m.{name}") for name in names}
    # One look into the metadata, which the server has to unpack each time, for all of its fields.
    fields = ", ".join(f"{name} text" for name in dict.fromkeys(("title", "project", *names)))
    large = " OR ".join(
        (_LARGE, *(f"octet_length({cell}) > {most_bytes(name)}" for name, cell in cells.items()))
    )
    sizes = ", ".join(f"octet_length({cell})" for cell in cells.values())
    shown = (bounded(cell, most_bytes(name)) for name, cell in cells.items())
    return (
        f"SELECT o.id, {_MICROSECONDS}, coalesce({bounded('m.project', MAX_NAME)}, ''),"
        f" coalesce({bounded('s.content_session_id', MAX_NAME)}, ''),"
        f" {bounded('s.platform_source', MAX_NAME)},"
        f" CASE WHEN {large} THEN ARRAY[CASE WHEN {_LARGE} THEN pg_column_size(o.metadata) END, {sizes}] END,"
        f" {', '.join(shown)} FROM observations AS o"
        " LEFT JOIN server_sessions AS s ON s.id = o.server_session_id, jsonb_to_record("
        f"CASE WHEN {_LARGE} OR jsonb_typeof(o.metadata) <> 'object' THEN '{{}}' ELSE o.metadata END"
        f") AS m({fields}) WHERE o.id = ANY($1)"
    )


WHOLE: Final = {table: _whole(table) for table in TABLES}
"""Rows with the ids $1, in no order: id, microseconds, project, session, platform; the bytes of the
metadata, where too large to be read, and of each cell, or NULL where none is too large; then the cells
of `CELLS`: lists as JSON text; NULL for one that is too large."""

BY_NAME: Final = (
    f"SELECT DISTINCT o.id, {_MICROSECONDS} FROM unnest($1::text[]) AS name, observations AS o"
    f" WHERE o.id >= name AND starts_with(o.id, name) AND {_DATED} LIMIT 100"
)
"""Rows whose ids begin with one of $1: id, microseconds."""

WITH_WORDS: Final = (
    f"SELECT o.id::text, {_MICROSECONDS} FROM observations AS o"
    f" WHERE o.content_search @@ to_tsquery('english', $1) AND {_OBSERVED}"
    f" ORDER BY o.created_at DESC LIMIT {MAX_MATCHES + 1}"
)
"""Observations that the server's own index finds: id, microseconds."""

_SEARCHED: Final = ", ".join(
    (
        bounded("o.content", MAX_TEXT),
        *(
            bounded(f"({_METADATA})->>'{name}'", most_bytes(name))
            for name in ("title", "subtitle", "narrative", "facts", "concepts")
        ),
    )
)
CONTAINING: Final = (
    f"SELECT o.id, {_MICROSECONDS} FROM observations AS o,"
    f" LATERAL (SELECT lower(concat_ws(' ', {_SEARCHED})) AS text OFFSET 0) AS searched"
    " WHERE o.id = ANY($1)"
    " AND (SELECT bool_and(strpos(text, lower(word)) > 0 OR strpos(text, lower(in_list)) > 0)"
    " FROM unnest($2::text[], $3::text[]) AS forms(word, in_list))"
)
"""Those of the ids $1 that hold every word of $2 somewhere, or as $3 has it: id, microseconds."""

HOW_MANY: Final = (
    f"SELECT count(*) FROM observations AS o WHERE {_PROJECT} = ANY($1) AND {_OBSERVED}"
)
ALL_ROWS: Final = "SELECT count(*) FROM observations WHERE kind <> 'summary'"

GROUPS: Final = (
    f"SELECT wanted.project, NULL, coalesce({_TYPE}, ''), coalesce({_RIGHT_TYPE}, false),"
    f" coalesce({_RIGHT_CONCEPT}, false), true, {_RIGHT_PLATFORM}, count(*)"
    f" FROM unnest($1::text[]) AS wanted(project)"
    f" JOIN observations AS o ON {_PROJECT} = wanted.project WHERE {_OBSERVED}"
    " AND o.id <> ALL($5) AND ($6::text[] IS NULL OR o.id = ANY($6)) GROUP BY 1, 2, 3, 4, 5, 6, 7"
)
"""The observations but $5, of $6 alone where given, as the cells of a `RowGroup`."""

LOST_CONCEPTS: Final = (
    f"SELECT {bounded('concept', MAX_NAME)}, count(DISTINCT o.id)"
    f" FROM observations AS o, {_CONCEPTS} AS concept WHERE {_PROJECT} = ANY($1) AND {_OBSERVED}"
    f" AND o.id <> ALL($5) AND {_RIGHT_TYPE} AND {_RIGHT_PLATFORM} AND NOT {_RIGHT_CONCEPT}"
    f" GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}"
)
"""Each concept of the rows but $5 that only the list of concepts keeps out: how many have it."""

_FILES: Final = ", ".join(
    bounded(f"({_METADATA})->>'{name}'", MAX_LIST) for name in ("files_read", "files_modified")
)
FILES_OF_SESSION: Final = (
    f"SELECT {_FILES} FROM observations AS o"
    " JOIN server_sessions AS s ON s.id = o.server_session_id"
    f" WHERE s.content_session_id = $1 AND {_OBSERVED} LIMIT 1000"
)
"""The lists of files of a session's observations."""
FILES_OUTSIDE: Final = (
    f"SELECT o.id::text, {_MICROSECONDS}, o.{_PROJECT}, {_FILES} FROM observations AS o"
    f" WHERE o.{_PROJECT} = ANY($1) AND {_OBSERVED} AND NOT {_LARGE}"
    """ AND concat(o.metadata->'files_read', o.metadata->'files_modified') LIKE '%"/%'"""
)
"""Id, microseconds, project and the lists of files of the observations that name an absolute path."""
