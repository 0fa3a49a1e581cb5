"""The SQL that finds rows by words in them. Pure: text and parameters.

claude-mem keeps a full-text index beside its rows (`observations_fts`, an FTS5 table whose rowids
are the rows' ids). Where there is one it is used, else the rows themselves are compared by LIKE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from claudemem_daemon.stores.bounds import bounded
from claudemem_daemon.stores.model import Schema
from claudemem_daemon.stores.sql import LIST, Statement, both, id_list

COLUMNS: Final = ("title", "subtitle", "narrative", "text", "facts", "concepts")
"""What claude-mem's index holds of a row."""
LISTS: Final = ("facts", "concepts")
"""Those of them that are JSON."""
MAX_WORDS: Final = 32
MAX_WORD: Final = 200
MAX_MATCHES: Final = 20_000
"""Matches of the index that are looked up, the newest ids first."""
MAX_UNINDEXED: Final = 2_000
"""Rows beside an index that are compared one by one; where more are missing in it, it is not used."""

INDEX: Final = Statement(
    "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'observations_fts'", ()
)
UNINDEXED: Final = Statement(
    "SELECT id FROM observations WHERE"
    " (SELECT count(*) FROM observations_fts_docsize) <> (SELECT count(*) FROM observations)"
    " AND id NOT IN (SELECT id FROM observations_fts_docsize) LIMIT ?",
    (MAX_UNINDEXED + 1,),
)
"""Ids of rows that were written without the index's triggers. FTS5 has a row of `docsize` for each
row that it knows; to compare the two counts takes 2.5 ms per 100,000 rows."""
_OURS: Final = re.compile(
    r"""\s*CREATE\s+VIRTUAL\s+TABLE\s+\W*observations_fts\W*\s+USING\s+fts5\s*\(
    .*\bcontent\s*=\s*['"]observations['"]""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def is_index(definition: object) -> bool:
    """Whether the table of that name is claude-mem's index of its observations."""
    return isinstance(definition, str) and _OURS.match(definition) is not None


def split(text: str) -> tuple[str, ...]:
    """The words to look for, each of which must be in a row."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return tuple(dict.fromkeys(word[:MAX_WORD] for word in clean.split()))[:MAX_WORDS]


def in_index(words: Sequence[str]) -> Statement:
    """Ids of the rows that have words beginning so. Quoted, a word holds no syntax of MATCH."""
    match = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
    return Statement(
        "SELECT rowid FROM observations_fts WHERE observations_fts MATCH ?"
        " ORDER BY rowid DESC LIMIT ?",
        (match, MAX_MATCHES + 1),
    )


def in_rows(schema: Schema, words: Sequence[str], ids: Sequence[int]) -> Statement:
    """Those of `ids` whose rows hold every word somewhere."""
    columns = [name for name in COLUMNS if name in schema.observations]
    where = both(
        Statement(f"id IN {LIST}", (id_list(schema, "observations", ids),)),
        *(_somewhere(word, columns) for word in words),
    )
    return Statement(
        f"SELECT id FROM observations NOT INDEXED WHERE {where.text}", where.parameters
    )


def escaped(word: str) -> str:
    """The word as it is in the text of a JSON list."""
    return json.dumps(word, ensure_ascii=False)[1:-1]


def _somewhere(word: str, columns: Sequence[str]) -> Statement:
    forms = [(name, word) for name in columns]
    if escaped(word) != word:
        forms += [(name, escaped(word)) for name in columns if name in LISTS]
    text = " OR ".join(rf"{bounded(name)} LIKE ? ESCAPE '\'" for name, _ in forms)
    patterns = ("%" + re.sub(r"([\\%_])", r"\\\1", form) + "%" for _, form in forms)
    return Statement(f"({text or '0'})", tuple(patterns))
