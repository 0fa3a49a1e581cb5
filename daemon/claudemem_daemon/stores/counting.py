"""The SQL that counts rows, for people and not for answers. Pure: text and parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.stores.bounds import MAX_LIST, MAX_NAME, bounded
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.sql import (
    CONCEPTS,
    LIST,
    Parameter,
    Statement,
    Wanted,
    as_list,
    filter_terms,
)

MAX_VALUES: Final = 500
"""Different concepts that are counted, the most frequent ones."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one project that fare alike at every filter. readable: their concepts are a list, or
    none; merged: the project they were merged into."""

    project: str
    merged: str | None
    type: str
    right_type: bool
    right_concept: bool
    readable: bool
    right_platform: bool
    rows: int


def groups(
    schema: Schema,
    wanted: Wanted,
    ids: Sequence[int] | None = None,
    without: Collection[int] = (),
) -> Statement:
    """For explain: the rows of the projects (of `ids` alone, where given; all but the ids `without`)
    by what each filter says of them, as the cells of a `RowGroup`."""
    has = schema.observations
    kind, concept, platform = filter_terms(schema, "observations", wanted)
    parts: list[str] = []
    parameters: list[Parameter] = []
    for column, names in wanted.branches:
        source = schema.by_index("observations", column)
        parts.append(f"SELECT id FROM {source} WHERE {column} IN {LIST}")
        parameters.append(as_list(names))
    chosen = f"id IN ({' UNION '.join(parts) or 'SELECT NULL'})"
    if ids is not None:
        chosen += f" AND id IN {LIST}"
        parameters.append(as_list(ids))
    if without:
        chosen += f" AND id NOT IN {LIST}"
        parameters.append(as_list(sorted(without)))
    concepts = "concepts" if "concepts" in has else "NULL"
    kinds = bounded("type", MAX_NAME) if "type" in has else "NULL"
    merged = bounded("merged_into_project", MAX_NAME) if "merged_into_project" in has else "NULL"
    return Statement(
        # Without its LIMIT the sorter would hold whole columns instead of what is made of them.
        f"SELECT *, count(*) FROM (SELECT {bounded('project', MAX_NAME)}, {merged}, {kinds}, {kind.text},"
        f" {concept.text}, {readable(concepts)}, {platform.text}"
        f" FROM observations NOT INDEXED WHERE {chosen} LIMIT -1)"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7",
        (*kind.parameters, *concept.parameters, *platform.parameters, *parameters),
    )


def readable(concepts: str) -> str:
    return (
        f"CASE WHEN octet_length({concepts}) > {MAX_LIST} OR coalesce({concepts}, '') IN ('', x'')"
        " THEN 1"
        f" WHEN typeof({concepts}) = 'text' THEN json_valid({concepts}) ELSE 0 END"
    )


def lost_concepts(
    schema: Schema, wanted: Wanted, without: Collection[int] = ()
) -> Statement | None:
    """Each concept of the rows that only the list of concepts keeps out, with how many have it."""
    if wanted.concepts is None or "concepts" not in schema.observations or not wanted.branches:
        return None
    kind, concept, platform = filter_terms(schema, "observations", wanted)
    ours = " OR ".join(f"{column} IN {LIST}" for column, _ in wanted.branches)
    # `json_each` has columns named id and type of its own.
    rows = (
        f"SELECT id AS number, concepts FROM observations WHERE ({ours}) AND {kind.text}"
        f" AND {platform.text} AND NOT {concept.text} AND id NOT IN {LIST}"
    )
    return Statement(
        f"SELECT one.value, count(DISTINCT number) FROM ({rows}), json_each({CONCEPTS}) AS one"
        f" WHERE one.type = 'text' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}",
        (
            *(as_list(names) for _, names in wanted.branches),
            *kind.parameters,
            *platform.parameters,
            *concept.parameters,
            as_list(sorted(without)),
        ),
    )


ALL_ROWS: Final = Statement("SELECT count(*) FROM observations")


def rows_of(schema: Schema, wanted: Wanted) -> Statement:
    """How many rows the projects have, filters apart; those merged into one and written under
    another once. Reads no row where the indexes are."""
    parts: list[str] = []
    parameters: list[Parameter] = []
    for column, names in wanted.branches:
        source = schema.by_index("observations", column)
        part = f"SELECT count(*) AS n FROM {source} WHERE {column} IN {LIST}"
        parameters.append(as_list(names))
        if column != "project":
            part += f" AND coalesce(project, '') NOT IN {LIST}"
            parameters.append(as_list(wanted.projects))
        parts.append(part)
    return Statement(f"SELECT sum(n) FROM ({' UNION ALL '.join(parts)})", (*parameters,))
