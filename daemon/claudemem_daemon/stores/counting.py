"""The SQL that counts rows, for people and not for answers. Pure: text and parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from claudemem_daemon.stores.bounds import MAX_LIST, MAX_NAME, bounded
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.sql import (
    CONCEPTS,
    LIST,
    Statement,
    Wanted,
    as_list,
    both,
    filter_terms,
    ids_of,
)

MAX_VALUES: Final = 500
"""Different concepts that are counted, the most frequent ones."""


class RowGroup(NamedTuple):
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

    def column(name: str) -> str:
        return bounded(name, MAX_NAME) if name in schema.observations else "NULL"

    filters = filter_terms(schema, "observations", wanted)
    kind, concept, platform = filters
    ours = ids_of(schema, "observations", wanted)
    chosen = [Statement(f"id IN ({ours.text})", ours.parameters), _all_but(without)]
    if ids is not None:
        chosen.append(Statement(f"id IN {LIST}", (as_list(ids),)))
    where = both(*chosen)
    concepts = "concepts" if "concepts" in schema.observations else "NULL"
    return Statement(
        # Without its LIMIT the sorter would hold whole columns instead of what is made of them.
        f"SELECT *, count(*) FROM (SELECT {bounded('project', MAX_NAME)},"
        f" {column('merged_into_project')}, {column('type')}, {kind.text}, {concept.text},"
        f" {readable(concepts)}, {platform.text}"
        f" FROM observations NOT INDEXED WHERE {where.text} LIMIT -1)"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7",
        both(*filters, where).parameters,
    )


def _all_but(ids: Collection[int]) -> Statement:
    return Statement(f"id NOT IN {LIST}", (as_list(sorted(ids)),))


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
    ids = ids_of(schema, "observations", wanted)
    ours = Statement(f"id IN ({ids.text})", ids.parameters)
    lost = Statement(f"NOT {concept.text}", concept.parameters)
    where = both(ours, kind, platform, lost, _all_but(without))
    # `json_each` has columns named id and type of its own.
    rows = f"SELECT id AS number, concepts FROM observations NOT INDEXED WHERE {where.text}"
    return Statement(
        f"SELECT item.value, count(DISTINCT number) FROM ({rows}), json_each({CONCEPTS}) AS item"
        f" WHERE item.type = 'text' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}",
        where.parameters,
    )


ALL_ROWS: Final = Statement("SELECT count(*) FROM observations")
