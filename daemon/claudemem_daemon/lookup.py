"""What `show`, `search` and `projects` answer, the same in the daemon and without one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.causes import find_causes, rows_here, verdict
from claudemem_daemon.diagnostics.fixes import fate_fix
from claudemem_daemon.diagnostics.projects import list_projects
from claudemem_daemon.errors import InvalidRequest, StoreError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import match_keys
from claudemem_daemon.selection.by_id import Ref, parse_ref, rows_by_id
from claudemem_daemon.selection.lost import LostRows
from claudemem_daemon.selection.search import search_rows
from claudemem_daemon.settings.misspelt import suggest
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.settings.modes import ModeFolders
from claudemem_daemon.settings.sources import read_values
from claudemem_daemon.shapes import explain_shape, plain, row_shapes, warning_shapes
from claudemem_daemon.stores.checkout import STORE_NAME
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool

MAX_IDS: Final = 1_000
SEARCH_LIMIT: Final = 20
MAX_COMPARING: Final = 1.0
"""Seconds for finding keys that resemble ours."""

_SPAN: Final = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def look_up(
    route: str,
    given: Mapping[str, Sequence[str]],
    pipeline: Pipeline,
    question: Question,
    deadline: Deadline,
) -> dict[str, Any]:
    """The shape of a route that takes a query string, of which `given` has all that is not in the
    question. Raises `InvalidRequest`."""
    if route == "/v1/observations":
        return shown(pipeline, question, parse_refs(given.get("ids", ())), deadline)
    since = parse_since(given.get("since", [None])[-1], pipeline.zone(question))
    if route == "/v1/projects":
        return projects(pipeline, question, since, deadline)
    return searched(pipeline, question, " ".join(given.get("q", ())), since, deadline)


def shown(
    pipeline: Pipeline, question: Question, refs: tuple[Ref, ...], deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/observations`. Ids are looked up in the rows of all worktrees."""
    resolved = pipeline.resolved(replace(question, scope=question.scope or "all"))
    found = rows_by_id(refs, resolved, pipeline.pool, deadline)
    lost = LostRows()
    return {
        "observations": row_shapes(found.observations, lost),
        "summaries": row_shapes(found.summaries, lost),
        "missing": list(found.missing),
        "warnings": warning_shapes((*resolved.warnings, *found.warnings, *lost.warnings())),
    }


def searched(
    pipeline: Pipeline, question: Question, words: str, since: int | None, deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/search`; `since` is in milliseconds."""
    if not words.strip():
        raise InvalidRequest("q: give the words to look for")
    limit = SEARCH_LIMIT if question.limit is None else question.limit
    resolved = pipeline.resolved(question)
    found = search_rows(words, limit, since, resolved, pipeline.pool, deadline)
    lost = LostRows()
    return {
        "observations": row_shapes(found.observations, lost),
        "how": found.how,
        "warnings": warning_shapes((*resolved.warnings, *found.warnings, *lost.warnings())),
    }


def projects(
    pipeline: Pipeline, question: Question, since: int | None, deadline: Deadline
) -> dict[str, Any]:
    """The shape of `GET /v1/projects`: the keys in the stores, those of this repository first, then
    those that resemble them, each the newest first."""
    resolved = pipeline.resolved(replace(question, limit=None))
    keys, warnings = list_projects(resolved, pipeline.pool, deadline)
    new = [project for project in keys if since is None or (project.newest or 0) >= since]
    return {
        "projects": [plain(project) for project in new[: question.limit]],
        "warnings": warning_shapes((*resolved.warnings, *warnings)),
    }


def explained(
    pipeline: Pipeline, question: Question, row: Ref | None, deadline: Deadline
) -> dict[str, Any]:
    """The shape of `POST /v1/explain`: where each row ends, and the causes in words."""
    resolved, explanation = pipeline.explain(question, deadline, row)
    shape = explain_shape(resolved, explanation)
    settings = resolved.settings
    near = Deadline.after(min(MAX_COMPARING, deadline.remaining()))
    keys, _ = list_projects(resolved, pipeline.pool, near)
    shape["similar"] = [plain(project) for project in keys if project.resembles]
    shape["modes"] = modes_of(settings, question.env, pipeline.configuration.home)
    shape["misnamed"] = misnamed(settings.settings_path)
    shape["store_elsewhere"] = store_elsewhere(resolved, rows_here(shape), pipeline.pool, near)
    shape["verdict"] = verdict(shape)
    shape["causes"] = [plain(cause) for cause in find_causes(shape)]
    shape["observation"] = [{**fate, "fix": fate_fix(shape, fate)} for fate in shape["observation"]]
    return shape


def modes_of(
    settings: Settings, env: Mapping[str, str], home: str
) -> dict[str, dict[str, list[str]]]:
    """For types and for concepts: id -> the modes that have it."""
    claude = env.get("CLAUDE_CONFIG_DIR", "")
    if not os.path.isabs(claude):
        claude = os.path.join(home, ".claude")
    found: dict[str, dict[str, list[str]]] = {"types": {}, "concepts": {}}
    every = ModeFolders(settings.modes_dir, settings.data_dir, claude).all()
    for mode in (settings.mode, *(other for other in every if other.id != settings.mode.id)):
        for kind, items in (("types", mode.types), ("concepts", mode.concepts)):
            for item in items:
                found[kind].setdefault(item.id.lower(), []).append(mode.id)
    return found


def misnamed(path: str) -> list[dict[str, str]]:
    """Names in settings.json that resemble a setting."""
    names = [str(name) for name in read_values(path) or {}]
    meant = {name: suggest(name) for name in names if name.startswith("CLAUDE_MEM_")}
    return [{"path": path, "name": name, "meant": key} for name, key in meant.items() if key]


def store_elsewhere(
    resolved: ResolvedQuestion, rows: int, pool: StorePool, deadline: Deadline
) -> str | None:
    """The store in claude-mem's usual folder, where the settings name another folder, and only the
    usual one has a store, or rows of this repository."""
    usual = os.path.join(os.path.expanduser("~"), ".claude-mem", STORE_NAME)
    named = os.path.join(resolved.settings.data_dir, STORE_NAME)
    if rows or not resolved.keys.keys or named == usual or not os.path.isfile(usual):
        return None
    if not os.path.lexists(named):
        return usual
    try:
        with pool.reading(StoreRef(usual, "claude-mem's usual folder"), deadline) as reader:
            return usual if match_keys(reader, resolved.keys)[0] else None
    except StoreError:
        return None


def parse_refs(texts: Iterable[str]) -> tuple[Ref, ...]:
    """The ids in `texts`, each of which may be a comma list. Raises `InvalidRequest`."""
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    refs: list[Ref] = []
    for part in parts:
        ref = parse_ref(part)
        if ref is None:
            raise InvalidRequest(f"ids: {part[:40]!r} is not an id such as 12, b7 or S3")
        refs.append(ref)
    if not refs:
        raise InvalidRequest("ids: give at least one, as in 12, b7 or S3")
    if len(refs) > MAX_IDS:
        raise InvalidRequest(f"ids: at most {MAX_IDS} at a time")
    return tuple(refs)


def parse_since(text: str | None, zone: tzinfo | None) -> int | None:
    """A time as milliseconds since 1970, given in ISO form, without an offset in `zone` (None for the
    C library's), or as a span before now (`2d`, `12h`). Raises `InvalidRequest`."""
    if text is None or not text.strip():
        return None
    span = _SPAN.fullmatch(text.strip().lower())
    if span is not None:
        return int((time.time() - int(span[1]) * _SECONDS[span[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"since: {text[:40]!r} is not a time such as 2d, 12h, 30m, 1w or 2026-01-31"
        ) from None
