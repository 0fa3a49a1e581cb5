"""What `show`, `search` and `projects` answer, the same in the daemon and without one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.projects import list_projects
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection import lookup
from claudemem_daemon.selection.lookup import Ref
from claudemem_daemon.shapes import observation_shape, plain, summary_shape, warning_shapes

MAX_IDS: Final = 1_000
SEARCH_LIMIT: Final = 20

_SPAN: Final = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def shown(
    pipeline: Pipeline, question: Question, refs: tuple[Ref, ...], deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/observations`. Ids are looked for in every worktree's rows."""
    resolved = pipeline.resolved(replace(question, scope=question.scope or "all"))
    found = lookup.show(refs, resolved.keys, resolved.located, pipeline.pool, deadline)
    return {
        "observations": [observation_shape(row) for row in found.observations],
        "summaries": [summary_shape(row) for row in found.summaries],
        "missing": list(found.missing),
        "warnings": warning_shapes((*resolved.warnings, *found.warnings)),
    }


def searched(
    pipeline: Pipeline, question: Question, words: str, since: int | None, deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/search`; `since` is in milliseconds."""
    if not words.strip():
        raise InvalidRequest("q: give the words to look for")
    limit = SEARCH_LIMIT if question.limit is None else question.limit
    resolved = pipeline.resolved(question)
    found = lookup.search(
        words, limit, since, resolved.keys, resolved.located, pipeline.pool, deadline
    )
    return {
        "observations": [observation_shape(row) for row in found.observations],
        "how": found.how,
        "warnings": warning_shapes((*resolved.warnings, *found.warnings)),
    }


def projects(
    pipeline: Pipeline, question: Question, since: int | None, deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/projects`: the keys of the stores here, this repository's first, then
    those that look like it, the newest first."""
    resolved = pipeline.resolved(replace(question, limit=None))
    keys, warnings = list_projects(resolved, pipeline.pool, deadline)
    new = [one for one in keys if since is None or (one.newest or 0) >= since]
    return {
        "projects": [plain(one) for one in new[: question.limit]],
        "warnings": warning_shapes((*resolved.warnings, *warnings)),
    }


def parse_refs(texts: Iterable[str]) -> tuple[Ref, ...]:
    """Ids from a list, each text one or several with commas. Raises `InvalidRequest`."""
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    refs: list[Ref] = []
    for part in parts:
        ref = lookup.parse_ref(part)
        if ref is None:
            raise InvalidRequest(f"ids: {part[:40]!r} is no id; ids look like 12, b7 or S3")
        refs.append(ref)
    if not refs:
        raise InvalidRequest("ids: give at least one, as in 12, b7 or S3")
    if len(refs) > MAX_IDS:
        raise InvalidRequest(f"ids: at most {MAX_IDS} at a time")
    return tuple(refs)


def parse_since(text: str | None) -> int | None:
    """A span back from now (`2d`, `12h`), or a day or time in ISO form, as milliseconds since
    1970. Raises `InvalidRequest`."""
    if text is None or not text.strip():
        return None
    span = _SPAN.fullmatch(text.strip().lower())
    if span is not None:
        return int((time.time() - int(span[1]) * _SECONDS[span[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"since: {text[:40]!r} is no time; 2d, 12h, 30m, 1w or 2026-01-31 is one"
        ) from None
