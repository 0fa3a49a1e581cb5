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

from claudemem_daemon.stores.counting import MAX_VALUES
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, SUMMARY_CELLS
from claudemem_daemon.stores.sql import Table, Wanted
from claudemem_daemon.stores.words import MAX_MATCHES

Parameter = str | int | tuple[str, ...]
Position = tuple[int, str]
"""microseconds since 1970, id"""

PROJECT: Final = "metadata->>'project'"
MICROSECONDS: Final = "(extract(epoch FROM o.created_at) * 1000000)::bigint"
FROM_MICROSECONDS: Final = "timestamptz 'epoch' + %s * interval '1 microsecond'"
CONCEPTS: Final = (
    "jsonb_array_elements_text(CASE jsonb_typeof(o.metadata->'concepts')"
    " WHEN 'array' THEN o.metadata->'concepts' ELSE '[]' END)"
)
_SESSION: Final = "FROM server_sessions AS s WHERE s.id = o.server_session_id)"
PLATFORM: Final = f"(SELECT platform_source {_SESSION}"
CONTENT_SESSION: Final = f"(SELECT content_session_id {_SESSION}"
LISTS: Final = ("facts", "concepts", "files_read", "files_modified")
LATE_MICROSECONDS: Final = 2_000_000
"""A row is dated when its transaction began. So long may one have run before it was committed."""


@dataclass(frozen=True, slots=True)
class Query:
    """`parameters` are hashable; a tuple is an array to the server."""

    text: str
    parameters: tuple[Parameter, ...] = ()


COLUMNS: Final = Query(
    "SELECT attname FROM pg_attribute"
    " WHERE attrelid = to_regclass('observations') AND attnum > 0 AND NOT attisdropped"
)
INDEXED: Final = Query(
    "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = to_regclass('observations')"
    " AND indisvalid AND indpred IS NULL"
    " AND pg_get_indexdef(indexrelid, 1, true) LIKE '%metadata ->> ''project''%'),"
    " (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass('observations'))"
)
NOW: Final = Query(
    "SELECT (extract(epoch FROM now()) * 1000000)::bigint,"
    " pg_snapshot_xmin(pg_current_snapshot()) <> pg_snapshot_xmax(pg_current_snapshot())"
)
"""The server's clock, and whether a transaction that may write was running."""
NAMES: Final = Query(f"SELECT DISTINCT {PROJECT} FROM observations WHERE {PROJECT} IS NOT NULL")
NAMES_BY_INDEX: Final = Query(
    "WITH RECURSIVE names AS ("
    f"(SELECT {PROJECT} AS name FROM observations WHERE {PROJECT} IS NOT NULL"
    f" ORDER BY {PROJECT} LIMIT 1)"
    f" UNION ALL SELECT (SELECT {PROJECT} FROM observations WHERE {PROJECT} > names.name"
    f" ORDER BY {PROJECT} LIMIT 1) FROM names WHERE names.name IS NOT NULL)"
    " SELECT name FROM names WHERE name IS NOT NULL"
)
"""One index step a name."""


def names_below(prefix: str) -> Query:
    """The projects that begin with `prefix`, and perhaps others: what lies between in the order of
    letters that the database has. One index step a name."""
    # The last letter in the order of bytes, and the one in the order of ICU.
    end = "greatest(%s || chr(1114111), %s || chr(65535))"
    between = f"{PROJECT} < {end} ORDER BY {PROJECT} LIMIT 1"
    return Query(
        f"WITH RECURSIVE names AS ((SELECT {PROJECT} AS name FROM observations"
        f" WHERE {PROJECT} >= %s AND {between})"
        f" UNION ALL SELECT (SELECT {PROJECT} FROM observations"
        f" WHERE {PROJECT} > names.name AND {between}) FROM names WHERE names.name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL",
        (prefix,) * 5,
    )


def row_number(identity: str, microseconds: int) -> int:
    """A number for a row that grows with its time and tells rows of one time apart."""
    return microseconds << 32 | crc32(identity.encode())


def newest(table: Table, wanted: Wanted, limit: int, before: Position | None) -> Query:
    """The next `limit` matching rows after `before`, newest first: id, microseconds, project.
    Rows at the very bounds of `wanted.above` and `wanted.upto` are among them."""
    where, parameters = conditions(table, wanted)
    if before is not None:
        where.append(f"(o.created_at, o.id) < ({FROM_MICROSECONDS}, %s)")
        parameters += before
    return Query(
        "SELECT o.id, o.microseconds, o.project FROM unnest(%s::text[]) AS wanted(project),"
        f" LATERAL (SELECT o.id, o.created_at, {MICROSECONDS} AS microseconds,"
        f" {PROJECT} AS project FROM observations AS o"
        f" WHERE {PROJECT} = wanted.project AND {' AND '.join(where)}"
        " ORDER BY o.created_at DESC, o.id DESC LIMIT %s) AS o"
        " ORDER BY o.created_at DESC, o.id DESC LIMIT %s",
        (wanted.projects, *parameters, limit, limit),
    )


def conditions(table: Table, wanted: Wanted) -> tuple[list[str], list[Parameter]]:
    """All but the project, for `observations AS o`."""
    # An infinite time is no time, and nothing that claude-mem writes.
    where = [_of(table), "isfinite(o.created_at)"]
    parameters: list[Parameter] = []
    for bound, compared in ((wanted.above, ">="), (wanted.upto, "<=")):
        if bound is not None:
            where.append(f"o.created_at {compared} {FROM_MICROSECONDS}")
            parameters.append(bound >> 32)
    for term, given in filters(table, wanted).values():
        where.append(term)
        parameters += given
    return where, parameters


def filters(table: Table, wanted: Wanted) -> dict[str, tuple[str, tuple[Parameter, ...]]]:
    """Each filter that restricts something: its condition and parameters."""
    found: dict[str, tuple[str, tuple[Parameter, ...]]] = {}
    if table == "observations" and wanted.types is not None:
        found["types"] = "replace(lower(o.kind), '\u03c2', '\u03c3') = ANY(%s)", (wanted.types,)
    if table == "observations" and wanted.concepts is not None:
        found["concepts"] = (
            f"EXISTS (SELECT 1 FROM {CONCEPTS} AS concept WHERE replace(lower(concept), '\u03c2', '\u03c3') = ANY(%s))",
            (wanted.concepts,),
        )
    if wanted.platform is not None:
        found["platform"] = (f"lower(coalesce({PLATFORM}, 'claude')) = %s", (wanted.platform,))
    if wanted.not_of is not None:
        found["session"] = (f"{CONTENT_SESSION} IS DISTINCT FROM %s", (wanted.not_of,))
    return found


def whole(table: Table, ids: Sequence[str]) -> Query:
    """Whole rows by id, in no order: id, microseconds, project, session, platform, then the cells
    of `OBSERVATION_CELLS` or `SUMMARY_CELLS`, lists as JSON text."""
    special = {
        "type": "o.kind",
        "title": "coalesce(o.metadata->>'title', left(o.content, 200))",
        # The server makes `content` of the fields that a row has; by hand it may be all there is.
        "text": "CASE WHEN o.metadata ? 'title' OR o.metadata ? 'narrative' THEN NULL"
        " ELSE o.content END",
        "created_at": "to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
    }
    names = OBSERVATION_CELLS if table == "observations" else SUMMARY_CELLS
    cells = [special.get(name, f"o.metadata->>'{name}'") for name in names]
    return Query(
        f"SELECT o.id, {MICROSECONDS}, coalesce(o.{PROJECT}, ''),"
        f" coalesce(s.content_session_id, ''), s.platform_source, {', '.join(cells)}"
        " FROM observations AS o LEFT JOIN server_sessions AS s ON s.id = o.server_session_id"
        " WHERE o.id = ANY(%s)",
        (tuple(ids),),
    )


def by_name(names: Sequence[str]) -> Query:
    """Rows whose ids begin with one of `names`: id, microseconds."""
    terms = " OR ".join("(o.id >= %s AND starts_with(o.id, %s))" for _ in names)
    return Query(
        f"SELECT o.id, {MICROSECONDS} FROM observations AS o WHERE {terms or 'false'} LIMIT 100",
        tuple(name for name in names for _ in range(2)),
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
    texts = ", ".join(f"o.metadata->>'{name}'" for name in ("title", "subtitle", "narrative"))
    lists = ", ".join(f"o.metadata->>'{name}'" for name in ("facts", "concepts"))
    row = f"lower(concat_ws(' ', o.content, {texts}, {lists}))"
    terms = "".join(f" AND strpos({row}, lower(%s)) > 0" for _ in words)
    return Query(
        f"SELECT o.id, {MICROSECONDS} FROM observations AS o WHERE o.id = ANY(%s){terms}",
        (tuple(ids), *words),
    )


def with_rows(table: Table, names: Sequence[str]) -> Query:
    """Those of `names` that have a row of this table."""
    return Query(
        "SELECT wanted.project FROM unnest(%s::text[]) AS wanted(project) WHERE EXISTS"
        f" (SELECT 1 FROM observations AS o WHERE {PROJECT} = wanted.project AND {_of(table)})",
        (tuple(names),),
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
    where, parameters = _chosen(wanted, ids, without)
    kinds = [terms.get(name, ("true", ())) for name in ("types", "concepts", "platform")]
    (kind, _), (concept, _), (platform, _) = kinds
    given = [parameter for _, parameters in kinds for parameter in parameters]
    return Query(
        f"SELECT o.{PROJECT}, NULL, o.kind, {kind}, {concept}, true, {platform}, count(*)"
        f" FROM observations AS o WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6, 7",
        (*given, *parameters),
    )


def lost_concepts(wanted: Wanted, without: Sequence[str]) -> Query:
    """Each concept of the rows that only the list of concepts keeps out, with how many have it."""
    terms = filters("observations", wanted)
    where, parameters = _chosen(wanted, None, without)
    for name in ("types", "platform", "concepts"):
        if name in terms:
            term, given = terms[name]
            where += f" AND {'NOT ' if name == 'concepts' else ''}{term}"
            parameters += given
    return Query(
        f"SELECT concept, count(DISTINCT o.id) FROM observations AS o, {CONCEPTS} AS concept"
        f" WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}",
        (*parameters,),
    )


def _chosen(
    wanted: Wanted, ids: Sequence[str] | None, without: Sequence[str]
) -> tuple[str, list[Parameter]]:
    where = f"o.{PROJECT} = ANY(%s) AND {_of('observations')} AND o.id <> ALL(%s)"
    parameters: list[Parameter] = [wanted.projects, tuple(without)]
    if ids is not None:
        where += " AND o.id = ANY(%s)"
        parameters.append(tuple(ids))
    return where, parameters


def files_of_session(session: str) -> Query:
    """The lists of files of a session's observations."""
    return Query(
        "SELECT o.metadata->>'files_read', o.metadata->>'files_modified' FROM observations AS o"
        " JOIN server_sessions AS s ON s.id = o.server_session_id"
        f" WHERE s.content_session_id = %s AND {_of('observations')} LIMIT 1000",
        (session,),
    )


def files_outside(wanted: Wanted) -> Query:
    """Id, microseconds, project and the lists of files of the projects' observations that name an
    absolute path."""
    return Query(
        f"SELECT o.id, {MICROSECONDS}, o.{PROJECT}, o.metadata->>'files_read',"
        f" o.metadata->>'files_modified' FROM observations AS o"
        f" WHERE o.{PROJECT} = ANY(%s) AND {_of('observations')}"
        """ AND (o.metadata->>'files_read' LIKE '%%"/%%'"""
        """ OR o.metadata->>'files_modified' LIKE '%%"/%%')""",
        (wanted.projects,),
    )


def _of(table: Table) -> str:
    return f"o.kind {'<>' if table == 'observations' else '='} 'summary'"
