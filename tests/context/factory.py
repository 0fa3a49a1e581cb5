"""Values that the earlier steps would give, complete but for what a test is about."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any

from claudemem_daemon import local_zone, transcript
from claudemem_daemon.context.budget import Unit
from claudemem_daemon.context.entry import RenderedEntry
from claudemem_daemon.context.fit import Context
from claudemem_daemon.context.render import make_context
from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.derived import Derived
from claudemem_daemon.pipeline import writing_time
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.model import (
    Observation,
    ProjectReport,
    Selection,
    Summary,
)
from claudemem_daemon.settings.checkout_env import CheckoutEnv
from claudemem_daemon.settings.model import Mode, ModeItem, Settings, Source
from claudemem_daemon.stores.model import Located, StoreRef, StoreReport
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, SUMMARY_CELLS, Row
from claudemem_daemon.transcript import PriorMessage
from claudemem_daemon.warning import AnswerWarning

STORE = "/home/u/.claude-mem/claude-mem.db"
NOON = 1_778_500_800_000
"""2026-05-11 12:00 UTC, in milliseconds."""

MODE = Mode(
    id="code",
    name="Code",
    types=(
        ModeItem("bugfix", "bug fix", "🔴", "🛠"),
        ModeItem("discovery", "discovery", "🔵", "🔍"),
    ),
    concepts=(ModeItem("gotcha", "gotcha"),),
    path=None,
)

SETTINGS = Settings(
    revision=1,
    data_dir="/home/u/.claude-mem",
    settings_path="/home/u/.claude-mem/settings.json",
    limit=50,
    types=("bugfix", "discovery"),
    concepts=("gotcha",),
    types_restricted=True,
    concepts_restricted=True,
    mode=MODE,
    modes_dir=None,
    full_count=0,
    full_field="narrative",
    session_count=10,
    show_last_summary=True,
    show_last_message=False,
    show_read_tokens=False,
    show_work_tokens=False,
    show_savings_amount=False,
    show_savings_percent=False,
    show_terminal_output=True,
    excluded_projects=(),
    scope="all",
    stores={},
    aliases={},
    context_chars=10_000,
    prompt_context="delta",
    timeout_ms=1500,
    own={},
    sources={
        "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES": Source(
            "settings", "/home/u/.claude-mem/settings.json"
        ),
        "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS": Source("mode"),
    },
    warnings=(),
    dependencies=(),
)

KEYS = ProjectKeys(
    keys=(
        ProjectKey("app", "exact", "main", "/w/app", "main"),
        ProjectKey("app/app-a", "exact", "worktree", "/w/app-a", "worktree"),
        ProjectKey("app-a", "exact", "worktree", "/w/app-a", "bare", bare=True),
        ProjectKey("app/app-b", "exact", "worktree", "/w/app-b", "worktree"),
        ProjectKey("app/", "prefix", "removed", None, "removed"),
    ),
    excluded=(),
    name="app",
    checkouts=("/w/app", "/w/app-a", "/w/app-b"),
    warnings=(),
    here="/w/app",
)

OK = StoreReport(STORE, True, None, 34, "shared store")


def row(number: int = 1, **fields: Any) -> Observation:
    """An observation of the main checkout; `number` is its id, and higher ones are newer."""
    plain = {"type": "bugfix", "title": f"title {number}", "concepts": ("gotcha",)}
    return Observation(*_stored(number, {**plain, **fields}, OBSERVATION_CELLS))


def _stored(number: int, fields: Mapping[str, Any], cells: tuple[str, ...]) -> tuple[Row, StoreRef]:
    row = Row(
        id=number,
        project=fields.get("project", "app"),
        merged=None,
        epoch=fields.get("created_at_epoch", NOON + number * 60_000),
        session=fields.get("memory_session_id", "s"),
        platform=fields.get("platform_source", "claude"),
        origin=None,
        cells=tuple(_cell(fields.get(name)) for name in cells),
        name=fields.get("name", ""),
    )
    return row, StoreRef(fields.get("store", STORE), "told", fields.get("letter", ""))


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple) else value


def rows(count: int, **fields: Any) -> tuple[Observation, ...]:
    """Newest first."""
    return tuple(row(number, **fields) for number in range(count, 0, -1))


def session(number: int = 1, **fields: Any) -> Summary:
    plain = {
        "request": f"request {number}",
        "investigated": "looked",
        "learned": "learnt",
        "completed": "did",
        "next_steps": "go on",
    }
    return Summary(*_stored(number, {**plain, **fields}, SUMMARY_CELLS))


def selection(
    observations: Sequence[Observation] = (), summaries: Sequence[Summary] = (), **fields: Any
) -> Selection:
    plain = Selection(
        observations=tuple(observations),
        summaries=tuple(summaries),
        projects=tuple(
            ProjectReport(one.key, one.path, one.role, (STORE,), 0, one.rule)
            for one in KEYS.keys
            if one.match == "exact"
        ),
        stores=(OK,),
        rows_exist=bool(observations),
        complete=True,
        high_water={STORE: 1},
        warnings=(),
        versions=(),
    )
    return plain._replace(**fields)


def context(
    chosen: Selection,
    *,
    question: Question | None = None,
    keys: ProjectKeys = KEYS,
    warnings: tuple[AnswerWarning, ...] = (),
    zone: tzinfo | None = UTC,
    cap: int | None = None,
    unit: Unit = "utf16",
    settings: Mapping[str, Any] | None = None,
    deadline: Deadline | None = None,
    rendered: Derived[Row, RenderedEntry] | None = None,
    prior_message: PriorMessage | None = None,
) -> Context:
    asked = question if question is not None else Question(cwd="/w/app")
    chosen_settings = replace(SETTINGS, **(settings or {}))
    prior = prior_message or PriorMessage("", ())
    if chosen_settings.show_last_message and asked.since is None:
        prior = transcript.prior_message(asked, chosen.observations, os.environ)
    read = local_zone.read_zone(os.environ)
    stores = Located((), (), warnings, ())
    request = ContextRequest(
        resolved=ResolvedQuestion(asked, chosen_settings, None, keys, stores, CheckoutEnv({})),
        selection=chosen,
        zone=zone if zone is not None else read.zone,
        prior_message=prior.text,
        cap=cap,
        unit=unit,
        late=writing_time(chosen, deadline or Deadline.after(60)),
        rendered=rendered if rendered is not None else Derived(),
    )
    made = make_context(request)
    zone_file = read.dependencies if zone is None else ()
    return made._replace(dependencies=(*prior.dependencies, *zone_file))
