"""The SQL for project names: which there are, without reading a row. Pure: text and parameters.

Through an index on the column the cost is that of the names asked for, whatever the number of rows:
SQLite hops from one name to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from claudemem_daemon.stores.bounds import MAX_NAME
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.sql import EACH, LIST, Column, Parameter, Statement, Table, as_list


def present(
    schema: Schema,
    table: Table,
    columns: Sequence[Column],
    names: Sequence[str],
    prefixes: Sequence[str],
) -> Statement:
    """Of each column (beside its number) the values that start with one of `prefixes`, then those
    of `names` that have a row."""
    parts: list[str] = []
    parameters: list[Parameter] = []
    for number, column in enumerate(columns):
        for prefix in prefixes:
            found = distinct(schema, table, column, prefix)
            parts.append(f"SELECT {number}, name FROM ({found.text})")
            parameters += found.parameters
        if names:
            if schema.index_on(table, column) is None:
                name = f"{column} COLLATE BINARY"
                having = f"SELECT DISTINCT {name} AS value FROM {table} WHERE {name} IN {LIST}"
            else:
                rows = f"SELECT 1 FROM {schema.by_index(table, column)} WHERE {column} = value"
                having = f"SELECT value FROM {EACH} WHERE EXISTS ({rows})"
            parts.append(f"SELECT {number}, value FROM ({having})")
            parameters.append(as_list(names))
    return Statement(" UNION ALL ".join(parts), (*parameters,))


def without_indexes(table: Table, columns: Sequence[Column]) -> Iterator[Statement]:
    """Each name of each row, after the number of its column, from one end and from the other."""
    for number, column in enumerate(columns):
        for order in ("ASC", "DESC"):
            yield Statement(
                f"SELECT {number}, {column} FROM {table} NOT INDEXED WHERE {_is_name(column)}"
                f" ORDER BY id {order}"
            )


def distinct(schema: Schema, table: Table, column: Column, prefix: str = "") -> Statement:
    """Every value of the column that starts with `prefix`, once."""
    index = schema.index_on(table, column)
    high = _after(prefix)
    # An index that is used has this order.
    name = column if index is not None else f"{column} COLLATE BINARY"
    below, bound = ("", ()) if high is None else (f" AND {name} < ?", (high,))
    if index is not None:
        text = _hops({table: index}, column, "?", "hop.name", below)
        return Statement(text, (prefix, *bound, *bound))
    return Statement(
        f"SELECT DISTINCT {name} AS name FROM {table}"
        f" WHERE {_is_name(column)} AND {name} >= ?{below}",
        (prefix, *bound),
    )


def distinct_at_once(schema: Schema, table: Table, column: Column) -> Statement:
    """How many values `distinct` would give, and these in one text, NUL between them."""
    found = distinct(schema, table, column)
    return Statement(
        f"SELECT count(*), group_concat(name, char(0)) FROM ({found.text})", found.parameters
    )


def first_of_each(indexes: Mapping[Table, str]) -> Statement:
    """Of all projects of the tables that have a slash one for each different part before it. Only
    the indexes make this cheaper than all of them."""
    # After a name `X/...` comes what is above all such names: `0` follows `/`. SQLite's `substr`
    # ends at a NUL; such a name is followed by the next one, whatever it is.
    slash = "instr(hop.name, '/')"
    skipping = (
        f"CASE WHEN {slash} BETWEEN 1 AND length(hop.name)"
        f" THEN substr(hop.name, 1, {slash} - 1) || '0' ELSE hop.name END"
    )
    hops = _hops(indexes, "project", "''", skipping, "")
    return Statement(f"{hops} AND instr(name, '/') > 0")


def joined(indexes: Mapping[Table, str], heads: Sequence[str], leaves: Sequence[str]) -> Statement:
    """Which projects `head/leaf` have a row in one of the tables."""
    having = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} INDEXED BY {index} WHERE project = name)"
        for table, index in indexes.items()
    )
    return Statement(
        f"SELECT name FROM (SELECT head.value || '/' || leaf.value AS name"
        f" FROM {EACH} AS head CROSS JOIN {EACH} AS leaf) WHERE {having}",
        (as_list(heads), as_list(leaves)),
    )


def _hops(indexes: Mapping[Table, str], column: Column, lowest: str, over: str, below: str) -> str:
    """From `lowest` on, and from each name to the first above `over`, whichever table has it."""

    def first(where: str) -> str:
        names = [
            f"(SELECT {column} FROM {table} INDEXED BY {index} WHERE {column} {where}{below}"
            f" AND octet_length({column}) <= {MAX_NAME} ORDER BY {column} LIMIT 1)"
            for table, index in indexes.items()
        ]
        every = ", ".join(names)
        return every if len(names) == 1 else f"coalesce(min({every}), {every})"

    return (
        f"WITH RECURSIVE hop(name) AS (SELECT {first(f'>= {lowest}')}"
        f" UNION ALL SELECT {first(f'> {over}')} FROM hop WHERE hop.name IS NOT NULL)"
        f" SELECT name FROM hop WHERE typeof(name) = 'text'"
    )


def _is_name(column: Column) -> str:
    return f"typeof({column}) = 'text' AND octet_length({column}) <= {MAX_NAME}"


def _after(prefix: str) -> str | None:
    """The first text above all that start with `prefix`; None where there is no such bound."""
    if not prefix or ord(prefix[-1]) >= 0x10FFFF:
        return None
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
