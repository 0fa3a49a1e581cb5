"""The SQL for a claude-mem server's database. Pure: text and parameters.

A row of `observations` is a session summary where its kind is `summary`, else an observation of
that type; what it says is in `metadata`. The index on `(metadata->>'project', created_at DESC)` is
not the server's own: with it each query reads a few rows, without it the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from claudemem_daemon.stores.bounds import (
    LISTS,
    MAX_LIST,
    MAX_NAME,
    MAX_TEXT,
    bounded,
    most_bytes,
)
from claudemem_daemon.stores.counting import MAX_VALUES
from claudemem_daemon.stores.rows import CELLS
from claudemem_daemon.stores.sql import Table, Wanted
from claudemem_daemon.stores.words import MAX_MATCHES, escaped

Parameter = str | int | tuple[str, ...]
Position = tuple[int, str]
"""microseconds since 1970, id"""

PROJECT: Final = "metadata->>'project'"
MICROSECONDS: Final = "(extract(epoch FROM o.created_at) * 1000000)::bigint"
FROM_MICROSECONDS: Final = "timestamptz 'epoch' + %s * interval '1 microsecond'"
LARGE: Final = f"pg_column_size(o.metadata) > {MAX_LIST}"
"""Bytes as they are stored, compressed; to look into it, the server would have to unpack it."""
_DATED: Final = "isfinite(o.created_at)"
"""An infinite time is no time, and nothing that claude-mem writes."""
METADATA: Final = f"CASE WHEN {LARGE} THEN '{{}}' ELSE o.metadata END"
CONCEPTS: Final = (
    "jsonb_array_elements_text(CASE WHEN jsonb_typeof(o.metadata->'concepts') = 'array'"
    f" AND pg_column_size(o.metadata->'concepts') <= {MAX_LIST}"
    " THEN o.metadata->'concepts' ELSE '[]' END)"
)
_SESSION: Final = "FROM server_sessions AS s WHERE s.id = o.server_session_id)"
PLATFORM: Final = f"(SELECT {bounded('s.platform_source', MAX_NAME)} {_SESSION}"
CONTENT_SESSION: Final = f"(SELECT {bounded('s.content_session_id', MAX_NAME)} {_SESSION}"


@dataclass(frozen=True, slots=True)
class Query:
    """`parameters` are hashable; a tuple is an array to the server."""

    text: str
    parameters: tuple[Parameter, ...] = ()


INDEXED: Final = Query(
    "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = to_regclass('observations')"
    " AND indisvalid AND indpred IS NULL"
    " AND pg_get_indexdef(indexrelid, 1, true) LIKE '%metadata ->> ''project''%'),"
    " coalesce((SELECT reltuples FROM pg_class WHERE oid = to_regclass('observations')), 0)"
)
NAMES: Final = Query(
    f"SELECT {PROJECT}, bool_or(kind <> 'summary') FROM observations"
    f" WHERE octet_length({PROJECT}) <= {MAX_NAME} GROUP BY 1"
)
"""Each with whether it has an observation."""


def present(names: Sequence[str], prefixes: Sequence[str]) -> Query:
    """`names` and the projects that begin with a prefix, and perhaps others, each with whether it
    has an observation; an index step or two a name."""
    # The last letter in the order of bytes, and the one in the order of ICU.
    end = "greatest(prefix || chr(1114111), prefix || chr(65535))"
    step = (
        f"LATERAL (SELECT {PROJECT} AS name, kind FROM observations WHERE {PROJECT} {{}}"
        f" AND {PROJECT} < {end} ORDER BY {PROJECT} LIMIT 1) AS next"
    )
    return Query(
        "WITH RECURSIVE found(prefix, name, kind) AS ("
        f"SELECT prefix, next.* FROM unnest(%s::text[]) AS prefix, {step.format('>= prefix')}"
        f" UNION ALL SELECT prefix, next.* FROM found, {step.format('> found.name')})"
        " SELECT name, kind <> 'summary' OR EXISTS (SELECT 1 FROM observations AS o"
        f" WHERE {PROJECT} = name AND {_of('observations')}) FROM (SELECT name, kind FROM found"
        " UNION ALL SELECT name, 'summary' FROM unnest(%s::text[]) AS name) AS every",
        (tuple(prefixes), tuple(names)),
    )


def row_number(identity: str, microseconds: int) -> int:
    """A number for a row that grows with its time and tells rows of one time apart."""
    return microseconds << 32 | crc32(identity.encode())


@dataclass(frozen=True, slots=True)
class Page:
    """The next `size` matching rows after `before`, newest first."""

    table: Table
    wanted: Wanted
    size: int
    before: Position | None = None


def newest(page: Page, since: int | None, *, indexed: bool) -> Query:
    """Of a page, what is not older than `since` (microseconds): id, microseconds, project. Rows at
    the very bounds of `wanted.above` and `wanted.upto` are among them."""
    where, parameters = conditions(page.table, page.wanted)
    if since is not None:
        where.append(f"o.created_at >= {FROM_MICROSECONDS}")
        parameters.append(since)
    if page.before is not None:
        where.append(f"(o.created_at, o.id) < ({FROM_MICROSECONDS}, %s)")
        parameters += page.before
    rows = f"observations AS o WHERE {PROJECT} = wanted.project AND {' AND '.join(where)}"
    order = "ORDER BY o.created_at DESC, o.id DESC LIMIT %s"
    if indexed:  # a few rows of each project; otherwise the table is read, once
        rows = f"LATERAL (SELECT o.id, o.created_at FROM {rows} {order}) AS o"
        parameters.append(page.size)
    return Query(
        f"SELECT o.id, {MICROSECONDS}, wanted.project FROM unnest(%s::text[]) AS wanted(project),"
        f" {rows} {order}",
        (page.wanted.projects, *parameters, page.size),
    )


def conditions(table: Table, wanted: Wanted) -> tuple[list[str], list[Parameter]]:
    """All but the project, for `observations AS o`."""
    where = [_of(table)]
    parameters: list[Parameter] = []
    for bound, compared in ((wanted.above, ">="), (wanted.upto, "<=")):
        if bound is not None:
            where.append(f"o.created_at {compared} {FROM_MICROSECONDS}")
            parameters.append(bound >> 32)
    for term, given in filters(table, wanted).values():
        where.append(term)
        parameters += given
    return where, parameters


_TYPE: Final = bounded("o.kind", MAX_NAME)
_KNOWN_TYPE: Final = "o.kind = ANY(%s)"
_KNOWN_CONCEPT: Final = (
    "(jsonb_typeof(o.metadata->'concepts') = 'array' AND o.metadata->'concepts' ?| %s)"
)
"""Nearly always; what letter case hides costs a function call a concept."""
_TOO_MANY_CONCEPTS: Final = f"pg_column_size(o.metadata->'concepts') > {MAX_LIST}"
"""Such a row is shown without them, as is one whose metadata is `LARGE`."""


def _lowered(text: str) -> str:
    return f"replace(lower({text}), '\u03c2', '\u03c3') = ANY(%s)"


def filters(table: Table, wanted: Wanted) -> dict[str, tuple[str, tuple[Parameter, ...]]]:
    """Each filter that restricts something: its condition and parameters."""
    found: dict[str, tuple[str, tuple[Parameter, ...]]] = {}
    if table == "observations" and wanted.types is not None:
        found["types"] = f"({_KNOWN_TYPE} OR {_lowered(_TYPE)})", (wanted.types,) * 2
    if table == "observations" and wanted.concepts is not None:
        another = f"EXISTS (SELECT 1 FROM {CONCEPTS} AS concept WHERE {_lowered('concept')})"
        term = f"({LARGE} OR {_KNOWN_CONCEPT} OR {another} OR {_TOO_MANY_CONCEPTS})"
        found["concepts"] = term, (wanted.concepts,) * 2
    if wanted.platform is not None:
        found["platform"] = (f"lower(coalesce({PLATFORM}, 'claude')) = %s", (wanted.platform,))
    if wanted.not_of is not None:
        found["session"] = (f"{CONTENT_SESSION} IS DISTINCT FROM %s", (wanted.not_of,))
    return found


def whole(table: Table, ids: Sequence[str]) -> Query:
    """Whole rows by id, in no order: id, microseconds, project, session, platform; the bytes of the
    metadata, where too large to be read, and of each cell, or NULL where none is too large; then
    the cells of `CELLS`: texts up to `MAX_TEXT` characters, lists as
    JSON text or NULL."""
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
        (LARGE, *(f"octet_length({cell}) > {most_bytes(name)}" for name, cell in cells.items()))
    )
    sizes = ", ".join(f"octet_length({cell})" for cell in cells.values())
    shown = (
        bounded(cell, MAX_LIST) if name in LISTS else f"left({cell}, {MAX_TEXT})"
        for name, cell in cells.items()
    )
    return Query(
        f"SELECT o.id, {MICROSECONDS}, coalesce({bounded('m.project', MAX_NAME)}, ''),"
        f" coalesce({bounded('s.content_session_id', MAX_NAME)}, ''),"
        f" {bounded('s.platform_source', MAX_NAME)},"
        f" CASE WHEN {large} THEN ARRAY[CASE WHEN {LARGE} THEN pg_column_size(o.metadata) END, {sizes}] END,"
        f" {', '.join(shown)} FROM observations AS o"
        " LEFT JOIN server_sessions AS s ON s.id = o.server_session_id, jsonb_to_record("
        f"CASE WHEN {LARGE} OR jsonb_typeof(o.metadata) <> 'object' THEN '{{}}' ELSE o.metadata END"
        f") AS m({fields}) WHERE o.id = ANY(%s)",
        (tuple(ids),),
    )


def by_name(names: Sequence[str]) -> Query:
    """Rows whose ids begin with one of `names`: id, microseconds."""
    return Query(
        f"SELECT DISTINCT o.id, {MICROSECONDS} FROM unnest(%s::text[]) AS name,"
        f" observations AS o WHERE o.id >= name AND starts_with(o.id, name) AND {_DATED} LIMIT 100",
        (tuple(names),),
    )


def matching(table: Table, wanted: Wanted, ids: Sequence[str]) -> Query:
    """Those of `ids` that match: id, microseconds, project."""
    where, parameters = conditions(table, wanted)
    return Query(
        f"SELECT o.id, {MICROSECONDS}, o.{PROJECT} FROM observations AS o"
        f" WHERE o.id = ANY(%s) AND o.{PROJECT} = ANY(%s) AND {' AND '.join(where)}",
        (tuple(ids), wanted.projects, *parameters),
    )


def with_words(words: Sequence[str]) -> Query:
    """Observations that hold words beginning so, by the server's own index: id, microseconds."""
    parts = [part for word in words for part in re.findall(r"\w+", word)]
    return Query(
        f"SELECT o.id, {MICROSECONDS} FROM observations AS o"
        f" WHERE o.content_search @@ to_tsquery('english', %s) AND {_of('observations')}"
        " ORDER BY o.created_at DESC LIMIT %s",
        (" & ".join(f"{part}:*" for part in parts), MAX_MATCHES + 1),
    )


def containing(words: Sequence[str], ids: Sequence[str]) -> Query:
    """Those of `ids` that hold every word somewhere: id, microseconds."""
    names = ("title", "subtitle", "narrative", "facts", "concepts")
    cells = [bounded("o.content", MAX_TEXT)]
    cells += [bounded(f"({METADATA})->>'{name}'", most_bytes(name)) for name in names]
    return Query(
        f"SELECT o.id, {MICROSECONDS} FROM observations AS o,"
        f" LATERAL (SELECT lower(concat_ws(' ', {', '.join(cells)})) AS held OFFSET 0) AS texts"
        " WHERE o.id = ANY(%s)"
        " AND (SELECT bool_and(strpos(held, lower(word)) > 0 OR strpos(held, lower(in_list)) > 0)"
        " FROM unnest(%s::text[], %s::text[]) AS forms(word, in_list))",
        (tuple(ids), tuple(words), tuple(map(escaped, words))),
    )


def how_many(projects: Sequence[str]) -> Query:
    """Observations of the projects, whatever the filters."""
    return Query(
        f"SELECT count(*) FROM observations AS o"
        f" WHERE {PROJECT} = ANY(%s) AND {_of('observations')}",
        (tuple(projects),),
    )


ALL_ROWS: Final = Query("SELECT count(*) FROM observations WHERE kind <> 'summary'")


def groups(wanted: Wanted, ids: Sequence[str] | None, without: Sequence[str]) -> Query:
    """The observations of the projects by what each filter says of them, as the cells of a
    `RowGroup`."""
    terms = filters("observations", wanted)
    where, parameters = _chosen(ids, without)
    kinds = [terms.get(name, ("true", ())) for name in ("types", "concepts", "platform")]
    (kind, _), (concept, _), (platform, _) = kinds
    given = [parameter for _, parameters in kinds for parameter in parameters]
    return Query(
        f"SELECT wanted.project, NULL, coalesce({_TYPE}, ''), coalesce({kind}, false), coalesce({concept}, false),"
        f" true, {platform}, count(*) FROM unnest(%s::text[]) AS wanted(project)"
        f" JOIN observations AS o ON {PROJECT} = wanted.project"
        f" WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6, 7",
        (*given, wanted.projects, *parameters),
    )


def lost_concepts(wanted: Wanted, without: Sequence[str]) -> Query:
    """Each concept of the rows that only the list of concepts keeps out, with how many have it."""
    terms = filters("observations", wanted)
    where, parameters = _chosen(None, without)
    parameters.insert(0, wanted.projects)
    for name in ("types", "platform", "concepts"):
        if name in terms:
            term, given = terms[name]
            where += f" AND {'NOT ' if name == 'concepts' else ''}{term}"
            parameters += given
    return Query(
        f"SELECT {bounded('concept', MAX_NAME)}, count(DISTINCT o.id)"
        f" FROM observations AS o, {CONCEPTS} AS concept"
        f" WHERE {PROJECT} = ANY(%s) AND {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}",
        (*parameters,),
    )


def _chosen(ids: Sequence[str] | None, without: Sequence[str]) -> tuple[str, list[Parameter]]:
    where, parameters = f"{_of('observations')} AND o.id <> ALL(%s)", [tuple(without)]
    if ids is not None:
        where += " AND o.id = ANY(%s)"
        parameters.append(tuple(ids))
    return where, [*parameters]


_FILES: Final = ", ".join(
    bounded(f"({METADATA})->>'{name}'", MAX_LIST) for name in ("files_read", "files_modified")
)


def files_of_session(session: str) -> Query:
    """The lists of files of a session's observations."""
    return Query(
        f"SELECT {_FILES} FROM observations AS o"
        " JOIN server_sessions AS s ON s.id = o.server_session_id"
        f" WHERE s.content_session_id = %s AND {_of('observations')} LIMIT 1000",
        (session,),
    )


def files_outside(wanted: Wanted) -> Query:
    """Id, microseconds, project and the lists of files of the projects' observations that name an
    absolute path."""
    return Query(
        f"SELECT o.id, {MICROSECONDS}, o.{PROJECT}, {_FILES} FROM observations AS o"
        f" WHERE o.{PROJECT} = ANY(%s) AND {_of('observations')}"
        f" AND NOT {LARGE}"
        """ AND concat(o.metadata->'files_read', o.metadata->'files_modified') LIKE '%"/%'""",
        (wanted.projects,),
    )


def _of(table: Table) -> str:
    return f"o.kind {'<>' if table == 'observations' else '='} 'summary' AND {_DATED}"
