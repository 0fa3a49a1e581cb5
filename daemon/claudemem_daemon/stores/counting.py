"""The SQL that counts rows, for people and not for answers. Pure: text and parameters."""

from __future__ import annotations

from collections.abc import Collection

from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.schema import index_on
from claudemem_daemon.stores.sql import (
    LIST,
    Builder,
    Parameter,
    Statement,
    Wanted,
    as_list,
    concept_term,
)


def counts(schema: Schema, wanted: Wanted, without: Collection[int] = ()) -> Statement:
    """For explain: rows of the projects, of those the right type, of those a right concept; all
    but the ids `without`."""
    kind = Builder()
    if wanted.types is not None:
        kind.add(f"lower(type) IN {LIST}", as_list(wanted.types))
    concept = Builder()
    if wanted.concepts is not None:
        concept.add(*concept_term(schema, wanted.concepts))
    parts: list[str] = []
    parameters: list[Parameter] = []
    for column, names in wanted.branches:
        index = index_on(schema, "observations", column)
        by = f" INDEXED BY {index}" if index is not None else ""
        parts.append(f"SELECT id FROM observations{by} WHERE {column} IN {LIST}")
        parameters.append(as_list(names))
    both = f"({kind.text}) AND ({concept.text})"
    return Statement(
        f"SELECT count(*), coalesce(sum({kind.text}), 0), coalesce(sum({both}), 0)"
        f" FROM observations NOT INDEXED WHERE id IN ({' UNION '.join(parts)})"
        f" AND id NOT IN {LIST}",
        (
            *kind.parameters,
            *kind.parameters,
            *concept.parameters,
            *parameters,
            as_list(sorted(without)),
        ),
    )


def rows_of(schema: Schema, wanted: Wanted) -> Statement:
    """How many rows the projects have, filters apart; those merged into one and written under
    another once. Reads no row where the indexes are."""
    parts: list[str] = []
    parameters: list[Parameter] = []
    for column, names in wanted.branches:
        index = index_on(schema, "observations", column)
        by = f" INDEXED BY {index}" if index is not None else ""
        part = f"SELECT count(*) AS n FROM observations{by} WHERE {column} IN {LIST}"
        parameters.append(as_list(names))
        if column != "project":
            part += f" AND coalesce(project, '') NOT IN {LIST}"
            parameters.append(as_list(wanted.projects))
        parts.append(part)
    return Statement(f"SELECT sum(n) FROM ({' UNION ALL '.join(parts)})", (*parameters,))
