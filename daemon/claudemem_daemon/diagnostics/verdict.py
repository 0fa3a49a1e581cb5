"""The sentence that says whether rows are missing here, and the words for where rows end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.causes import (
    DATA_DIR,
    find_causes,
    reasons,
    rows_here,
    rows_shown,
)


def verdict(shape: Mapping[str, Any]) -> str:
    name = shape["repository"]["name"] or "this folder"
    causes = find_causes(shape)
    total, shown, ended = rows_here(shape), rows_shown(shape), reasons(shape)
    if not shown and causes:
        return causes[0].sentence
    if not total and not shape["stores"] and not shape["others"]:
        return f"no memory yet: no store in {shape['settings'][DATA_DIR]['value']}; {_FIRST}"
    if not total:
        others = sum(shape["others"].values())
        rest = f"; the stores have {counted(others, 'row')} of other projects (claudemem-daemon projects)"
        return (
            f"no memory yet: no row of {name} in the stores that were read{rest if others else ''}"
        )
    parts = [f"{ended[reason]:,} {words}" for reason, (words, _) in ENDS.items() if ended[reason]]
    rest = f"; {', '.join(parts)}" if parts else ""
    return f"{shown:,} of {counted(total, 'row')} of {name} {'is' if shown == 1 else 'are'} shown{rest}"


_FIRST: Final = "claude-mem makes it in its first session"

ENDS: Final = {
    "excluded": ("of an excluded checkout", "excluded checkout"),
    "type_filtered": ("of a type that the list leaves out", "type not listed"),
    "concept_filtered": ("without a concept of the list", "concepts not listed"),
    "malformed_concepts": ("with concepts that are no JSON list", "unreadable concepts"),
    "platform_filtered": ("of another assistant", "other assistant's"),
    "other_repository": ("of another repository", "other repository's"),
    "duplicate_of": ("the same as another row", "duplicates"),
    "not_read": ("not compared in time", "not compared in time"),
    "over_limit": ("beyond the limit", "beyond the limit"),
    "over_size": ("beyond the size", "beyond the size"),
}
"""Where rows end, in the order of the filters -> in a sentence, beside a bar."""
