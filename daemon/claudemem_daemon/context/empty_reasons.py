"""Why there is no row to show: no memory is only one of the reasons. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.context.sections import MAX_WARNING_CHARS, is_shown
from claudemem_daemon.settings.model import Source

TYPES: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS: Final = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
MAX_IDS: Final = 12

_ID: Final = re.compile(r"[\w.-]{1,40}")
_WAITING: Final = frozenset({"untrusted", "missing"})


def state(request: ContextRequest) -> str:
    """For the title, in our own words."""
    selection = request.selection
    if selection.rows_exist:
        # The filters do not apply to session summaries, which may follow.
        none = "no observation" if selection.summaries else "nothing"
        return f"memory exists, but {none} of it is shown"
    broken = any(not report.ok and report.reason not in _WAITING for report in selection.stores)
    if broken or not selection.complete:
        return "memory could not be read"
    if any(warning.code in ("store_untrusted", "store_missing") for warning in request.warnings):
        return "no memory found in the stores that were read"
    # Rows of the repository's other worktrees are none of a narrower scope.
    scope, repository = request.settings.scope, request.resolved.repository
    narrow = scope != "all" and repository is not None and repository.kind != "none"
    return f"no memory in scope {scope}" if narrow else "no memory yet"


def reasons(request: ContextRequest) -> Iterator[str]:
    """Lines below the title: the filter in force and its source, or errors of stores that no warning
    tells of."""
    formatter, selection = request.formatter, request.selection
    if selection.rows_exist:
        yield _filters(request)
    shown = {warning.message for warning in request.warnings if is_shown(warning)}
    for report in selection.stores:
        if report.ok or report.reason in _WAITING or report.error in shown:
            continue
        yield formatter.warning(formatter.text(f"{report.path}: {report.error}", MAX_WARNING_CHARS))


def _filters(request: ContextRequest) -> str:
    formatter, settings = request.formatter, request.settings
    platform = request.resolved.question.platform_source
    parts: list[str] = []
    for name, key, values, restricted in (
        ("types", TYPES, settings.types, settings.types_restricted),
        ("concepts", CONCEPTS, settings.concepts, settings.concepts_restricted),
    ):
        if restricted:
            parts.append(f"{name} {_ids(values)} ({_source(settings.sources.get(key), key)})")
    if platform is not None:
        parts.append(f"only sessions of {_ids((platform,))} (asked for)")
    # The other rows of a store that was read in part are unknown.
    whole = all(report.ok or report.reason in _WAITING for report in request.selection.stores)
    rows = "all rows" if whole else "all rows that could be read"
    why = f"the filter excludes {rows}: {'; '.join(parts)}" if parts else "no row was chosen"
    # Made safe as a whole before the command is added.
    counts = formatter.command("claudemem-daemon explain")
    return formatter.aside(
        f"{formatter.text(why[:1].upper() + why[1:])}. Counts at each filter: {counts}"
    )


def _ids(values: Sequence[str]) -> str:
    """Only plain ids are quoted: a checkout can set the variable that they come from."""
    if not values:
        return "none"
    ids = [value if _ID.fullmatch(value) else "(odd)" for value in values[:MAX_IDS]]
    more = f" and {len(values) - MAX_IDS} more" if len(values) > MAX_IDS else ""
    return ", ".join(ids) + more


def _source(source: Source | None, key: str) -> str:
    if source is None:
        return key
    name, file = source.named(key)
    words = {
        "request": "asked for",
        "caller": f"{name} in the caller's environment",
        "daemon": f"{name} in the daemon's environment",
        "settings": f"{name} in {file or 'settings.json'}",
        "mode": f"of the mode, for {key} is not set",
        "default": f"default of {key}",
    }
    return words[source.origin]
