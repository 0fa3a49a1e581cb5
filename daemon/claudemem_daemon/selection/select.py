"""The rows of one answer: filtered per project and store, merged, limited once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.admission import Admitted
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.model import Observation, ProjectReport, Selection, Summary
from claudemem_daemon.selection.source import Source
from claudemem_daemon.selection.sources import Sources
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.interface import StoreChanged
from claudemem_daemon.stores.letters import lower
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.warning import AnswerWarning

MAX_UNLOCKED: Final = 3
"""Attempts to read without making writers wait; the next one makes them wait."""
TIMEOUT: Final = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
MAX_JUDGED: Final = 2_000
"""Rows that are read at most to find out whose they are, where the answer has no row."""


def select(resolved: ResolvedQuestion, pool: StorePool, deadline: Deadline) -> Selection:
    """The one limited list, newest first, and what to know about it. What cannot be read before the
    deadline is a warning; never raises for a store."""
    filters = make_wanted(resolved.question, resolved.settings)
    for _ in range(MAX_UNLOCKED):
        with suppress(StoreChanged):
            return _selected(Sources(resolved, filters, pool, deadline, locked=False))
    return _selected(Sources(resolved, filters, pool, deadline))


def _selected(sources: Sources) -> Selection:
    """Raises `StoreChanged`."""
    question, settings = sources.resolved.question, sources.resolved.settings
    with sources:
        # The timeline shows this number of sessions, and a section the newest one.
        session_count = max(settings.session_count, int(settings.show_last_summary))
        if question.since is not None:
            session_count = 0
        if sources.resolved.keys.keys and (settings.limit > 0 or session_count > 0):
            sources.open()
        sources.reserve_writing(settings.limit)
        # The few first: many rows may take all the time there is.
        sessions = sources.newest("session_summaries", session_count)
        rows = sources.newest("observations", settings.limit)
        high_water = _high_water(sources)
        rows_exist = bool(rows or sessions) or _own_rows_exist(sources)
        sources.finish()
        return Selection(
            observations=tuple([Observation(row, source.ref) for source, row in rows]),
            summaries=tuple([Summary(row, source.ref) for source, row in sessions]),
            projects=_reports(sources, rows),
            stores=sources.reports(),
            rows_exist=rows_exist,
            complete=sources.complete,
            high_water=high_water,
            warnings=(
                *sources.warnings((*rows, *sessions)),
                *_without_columns(sources),
                *sources.ours.warnings(),
                *([out_of_time(len(rows), settings)] if sources.unfinished else ()),
            ),
            versions=tuple(source.reader.version for source in sources.opened),
            dependencies=tuple(sources.dependencies()),
        )


def make_wanted(question: Question, settings: Settings) -> Wanted:
    """The filters of a question, without the projects of any store."""
    return Wanted(
        (),
        types=tuple(map(lower, settings.types)) if settings.types_restricted else None,
        concepts=tuple(map(lower, settings.concepts)) if settings.concepts_restricted else None,
        platform=platform_name(question.platform_source),
        not_of=question.session_id if question.since is not None else None,
    )


def out_of_time(rows: int, settings: Settings) -> AnswerWarning:
    """For an answer that has only the newest `rows` of those that were asked for."""
    return AnswerWarning(
        "deadline",
        f"cut off after the newest {rows:,} rows: time was over; {TIMEOUT} is"
        f" {settings.timeout_ms} ms",
        key=TIMEOUT,
    )


def platform_name(given: str | None) -> str | None:
    """An assistant's name as claude-mem's stores have it; None for an empty one."""
    name = "-".join(lower(given or "").split())
    name = {"transcript": "codex", "pi-mono": "pi"}.get(name, name)
    return next((word for word in ("codex", "cursor", "claude") if word in name), name) or None


def _own_rows_exist(sources: Sources) -> bool:
    """Whether any row of the projects is ours, whatever the filters say. With more than `MAX_JUDGED`
    rows it is assumed that one is."""
    for source in sources.opened:
        if not source.admitted:
            continue
        wanted = Wanted(tuple(source.admitted.projects), tuple(source.admitted.merged))
        with sources.guarded(source), suppress(StoreError):
            rows = source.reader.how_many(wanted)
            if rows <= MAX_JUDGED or sources.ours.dropped:
                rows -= len(sources.ours.others_rows(source.reader, wanted))
            if rows <= 0:
                continue
        return True
    return False


def _without_columns(sources: Sources) -> tuple[AnswerWarning, ...]:
    """Stores whose schema lacks the column of a filter, so that no row passes it."""
    filters = {
        "type": ("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", sources.filters.types),
        "concepts": ("CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS", sources.filters.concepts),
    }
    return tuple(
        AnswerWarning(
            "store_columns",
            f"{source.ref.path}: its observations have no column {column!r}, so none passes {key};"
            " * there lets all pass",
            path=source.ref.path,
            key=key,
        )
        for source in sources.opened
        if source.admitted
        for column, (key, listed) in filters.items()
        if listed is not None and column not in source.reader.schema.observations
    )


def _high_water(sources: Sources) -> dict[str, int]:
    found: dict[str, int] = {}
    for source in sources.opened:
        with sources.guarded(source), suppress(StoreError):
            found[source.ref.path] = source.reader.highest_id()
    return found


def _reports(sources: Sources, rows: Iterable[Chosen[Source]]) -> tuple[ProjectReport, ...]:
    """Each exact key of the question, then the names found by prefixes. There can be thousands, and
    only the numbers of rows change from answer to answer."""
    keys = sources.resolved.keys
    admitted = tuple((source.ref.path, source.admitted) for source in sources.opened)
    found = sources.pool.made(("reports", keys, admitted), lambda: _make_reports(keys, admitted))
    counts = Counter([source.key_of(row) for source, row in rows])
    counted = {
        key: found[key]._replace(observations=rows) for key, rows in counts.items() if key in found
    }
    return tuple({**found, **counted}.values())


def _make_reports(
    keys: ProjectKeys, opened: tuple[tuple[str, Admitted], ...]
) -> dict[str, ProjectReport]:
    stores: dict[str, list[str]] = {}
    by_prefix: dict[str, ProjectKey] = {}
    left_out: dict[str, str] = {}
    for path, admitted in opened:
        left_out.update(admitted.left_out)
        for name, key in admitted.names.items():
            stores.setdefault(name, []).append(path)
            if key.match == "prefix":
                by_prefix.setdefault(name, key)
    asked: dict[str, ProjectKey] = {}
    for key in keys.keys:
        if key.match == "exact":
            asked.setdefault(key.key, key)
    return {
        name: ProjectReport(
            name, key.path, key.role, tuple(stores.get(name, ())), 0, left_out.get(name, key.rule)
        )
        for name, key in (*asked.items(), *sorted(by_prefix.items()))
    }
