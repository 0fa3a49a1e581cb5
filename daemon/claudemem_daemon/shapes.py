"""The JSON shapes of answers, for the server and the command line. Pure.

Texts may contain surrogates that stand for bytes of a path. `as_json` writes them as escapes, so that
the output is always valid UTF-8 and valid JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from claudemem_daemon.pipeline import Answer
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.explain import Explanation
from claudemem_daemon.selection.lost import LostRows
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.settings.model import DATA_DIR, KEYS, OWN_NAMES, Settings, Source
from claudemem_daemon.warning import AnswerWarning

ROWS_AT_ONCE: Final = 16
"""That are encoded at a time: no other thread runs while the encoder does."""


def as_json(value: Any) -> bytes:
    """One line of ASCII."""
    if not isinstance(value, dict):
        return _encoded(value).encode("ascii")
    members = (f"{_encoded(name)}:{_in_pieces(member)}" for name, member in value.items())
    return f"{{{','.join(members)}}}".encode("ascii")


def _in_pieces(value: Any) -> str:
    if not isinstance(value, list):
        return _encoded(value)
    starts = range(0, len(value), ROWS_AT_ONCE)
    return f"[{','.join(_encoded(value[at : at + ROWS_AT_ONCE])[1:-1] for at in starts)}]"


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=plain)


def query_shape(answer: Answer) -> dict[str, Any]:
    """The answer of `/v1/query` and of `query --json`."""
    selection, lost = answer.selection, LostRows()
    return {
        "observations": row_shapes(selection.observations, lost),
        "summaries": row_shapes(selection.summaries, lost),
        "projects": [_fields(project, _PROJECT) for project in selection.projects],
        "stores": [_fields(store, _STORE) for store in selection.stores],
        "filters": filters_shape(answer.resolved),
        "warnings": warning_shapes((*answer.warnings, *lost.warnings())),
    }


def explain_shape(resolved: ResolvedQuestion, explanation: Explanation) -> dict[str, Any]:
    """How the question was resolved, then where each row ends."""
    repository = resolved.repository
    selection = explanation.selection
    return {
        "repository": {
            "kind": repository.kind if repository is not None else None,
            "name": resolved.keys.name,
            "main": repository.main.path if repository is not None and repository.main else None,
            "common_dir": repository.common_dir if repository is not None else None,
            "resolved_by": repository.resolved_by
            if repository is not None
            else "projects asked for by name",
        },
        "settings_path": resolved.settings.settings_path,
        "settings": settings_shape(resolved.settings),
        "keys": [plain(key) for key in resolved.keys.keys],
        "stores": [plain(store) for store in selection.stores],
        "filters": filters_shape(resolved),
        "complete": selection.complete,
        **explanation.as_json(),
        "warnings": warning_shapes((*resolved.warnings, *selection.warnings)),
    }


def settings_shape(settings: Settings) -> dict[str, Any]:
    """Each setting with its value and its source."""
    return {
        key: {"value": settings.value(key), **plain(settings.sources.get(key, Source("default")))}
        for key in (DATA_DIR, *KEYS, *OWN_NAMES.values())
    }


_SHARED: Final = ("created_at", "created_at_epoch")
_OBSERVATION: Final = (
    "ref", "project", "store", "type", "title", "subtitle", "narrative", "facts", "concepts",
    "files_read", "files_modified", *_SHARED, "discovery_tokens", "memory_session_id",
    "platform_source",
)  # fmt: skip
_SUMMARY: Final = (
    "ref", "project", "store", "request", "investigated", "learned", "completed",
    "next_steps", "notes", *_SHARED, "memory_session_id", "platform_source",
)  # fmt: skip
_PROJECT: Final = ("key", "path", "role", "stores", "observations")
_FILTERS: Final = (
    "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS",
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS", "CLAUDE_MEM_DAEMON_SCOPE",
)  # fmt: skip
_STORE: Final = ("path", "ok", "error", "schema_version")


OF_SETTINGS: Final = ("setting", "mode_", "observer_")
"""The beginnings of the codes of warnings about settings and the files beside them."""


def of_settings(explained: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an explanation about the settings in force, which may be older than a damaged
    settings.json."""
    return {
        "settings_path": explained["settings_path"],
        "settings": explained["settings"],
        "warnings": [
            warning for warning in explained["warnings"] if warning["code"].startswith(OF_SETTINGS)
        ],
    }


def row_shapes(rows: Iterable[Observation | Summary], lost: LostRows) -> list[dict[str, Any]]:
    """The rows as JSON; those that cannot be shown are left out and counted in `lost`."""
    return [shape for row in rows for shape in lost.attempt(row.store, partial(row_shape, row))]


def row_shape(row: Observation | Summary) -> dict[str, Any]:
    names = _OBSERVATION if isinstance(row, Observation) else _SUMMARY
    return {"id": row.name or row.id, **_fields(row, names)}


def _fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def filters_shape(resolved: ResolvedQuestion) -> dict[str, Any]:
    """The filters, and the source of each value."""
    settings = resolved.settings
    return {
        **_fields(settings, ("types", "concepts", "limit", "scope")),
        "platform_source": resolved.question.platform_source,
        "sources": {key: plain(settings.sources[key]) for key in _FILTERS},
    }


def warning_shapes(warnings: Iterable[AnswerWarning]) -> list[dict[str, str]]:
    """Each warning once, in the given order."""
    return [warning.as_json() for warning in dict.fromkeys(warnings)]


def error_shape(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def plain(value: Any) -> Any:
    """What a value that JSON does not know becomes: a named tuple its fields by name."""
    if isinstance(value, AnswerWarning):
        return value.as_json()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON shape")
