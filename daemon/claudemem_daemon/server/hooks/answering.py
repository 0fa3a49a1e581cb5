"""From a hook's standard input to its standard output, by the same pipeline as every answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from claudemem_daemon.context.budget import Unit
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import NotFound
from claudemem_daemon.hook import HERE, PLATFORMS
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.server.hooks.callers import parse, read_call
from claudemem_daemon.server.hooks.envelopes import fitted, nothing
from claudemem_daemon.server.hooks.model import HookAnswer, HookCall
from claudemem_daemon.server.hooks.sessions import Mark, Sessions


def answer(
    platform: str,
    body: bytes,
    env: Mapping[str, str],
    pipeline: Pipeline,
    sessions: Sessions | None,
    deadline: Deadline,
) -> HookAnswer:
    """What the hook prints. Odd input is nothing to print, never an error; without `sessions` (no
    daemon remembers anything) prompt events in delta mode get nothing.

    Raises `NotFound` for an unknown platform, and what the pipeline raises.
    """
    if platform not in PLATFORMS:
        raise NotFound(f"no platform {platform[:40]!r}; one of {', '.join(PLATFORMS)}")
    fields = parse(body)
    if fields is None:
        return HookAnswer(nothing(platform), "no JSON object on standard input", "", None)
    call = read_call(platform, fields, env, pipeline.configuration.home)
    reason = _silent(platform, call, sessions)
    if reason is not None:
        return HookAnswer(nothing(call.caller), reason, call.event, call.cwd)
    cwd = _where(call, pipeline)
    question = Question(
        cwd=cwd,
        env={name: value for name, value in env.items() if name != HERE},
        session_id=call.session_id,
        transcript_path=call.transcript_path,
    )
    if call.kind != "prompt":
        return _whole(call, question, pipeline, sessions, deadline)
    wanted = pipeline.configuration.snapshot(question).prompt_context
    if wanted == "off":
        return HookAnswer(nothing(call.caller), "prompt context is off", call.event, cwd)
    told = sessions.told(call) if sessions is not None else None
    if wanted == "full":
        return _whole(call, question, pipeline, sessions, deadline)
    if sessions is None or call.session_id is None:
        return HookAnswer(nothing(call.caller), "no session to tell news to", call.event, cwd)
    if told is None:
        return _whole(call, question, pipeline, sessions, deadline)
    return _news(call, question, told, pipeline, sessions, deadline)


def _silent(platform: str, call: HookCall, sessions: Sessions | None) -> str | None:
    if call.kind is None:
        return f"{call.caller} takes no context at {call.event or 'this event'}"
    if call.skipped:
        return "not a prompt of a person"
    if call.cwd is None:
        return "no usable cwd"
    if sessions is not None and sessions.twice(platform, call):
        return "another entry has answered this event"
    return None


def _where(call: HookCall, pipeline: Pipeline) -> str | None:
    """The working directory; the assistant's project folder where that is in no repository, as in
    the temporary folders of subagents."""
    if call.cwd is None or call.project_dir is None or call.project_dir == call.cwd:
        return call.cwd
    if pipeline.repositories.resolve(call.cwd).kind != "none":
        return call.cwd
    return call.project_dir


def _whole(
    call: HookCall,
    question: Question,
    pipeline: Pipeline,
    sessions: Sessions | None,
    deadline: Deadline,
) -> HookAnswer:
    if sessions is not None and call.kind != "prompt":
        sessions.begin(call)
    rows = pipeline.ask(question, deadline)
    return _told(call, rows, pipeline, sessions, deadline, "whole context")


def _news(
    call: HookCall,
    question: Question,
    told: Mapping[str, Mark],
    pipeline: Pipeline,
    sessions: Sessions,
    deadline: Deadline,
) -> HookAnswer:
    def ask(marks: Mapping[str, Mark]) -> Answer:
        since = {path: mark.highest for path, mark in marks.items()}
        return pipeline.ask(replace(question, since=since), deadline)

    rows = ask(told)
    now = _marks(rows.selection)
    kept = {path: mark for path, mark in told.items() if not _began_anew(mark, now.get(path))}
    if len(kept) < len(told):
        rows = ask(kept)
    return _told(call, rows, pipeline, sessions, deadline, "news")


def _marks(selection: Selection) -> dict[str, Mark]:
    """How far an answer goes in each store. One that failed in the middle has no mark: what was not
    read of it is still to be told."""
    read = {one.path for one in selection.stores if one.ok}
    files = {one.path: one.identity for one in selection.versions}
    return {
        path: Mark(highest, files.get(path))
        for path, highest in selection.high_water.items()
        if path in read
    }


def _began_anew(before: Mark, now: Mark | None) -> bool:
    """Whether another file, with ids of its own, has taken the store's place. A copy put back has
    the same ids as before; a deleted row leaves the file what it is."""
    return now is not None and now.file != before.file and now.highest < before.highest


def _told(
    call: HookCall,
    rows: Answer,
    pipeline: Pipeline,
    sessions: Sessions | None,
    deadline: Deadline,
    what: str,
) -> HookAnswer:
    if call.guessed and not (rows.selection.observations or rows.selection.summaries):
        # That nothing is known of a folder nobody named is not worth a word.
        return HookAnswer(nothing(call.caller), "no cwd", call.event, rows.resolved.question.cwd)

    def render(cap: int | None, unit: Unit) -> str:
        return pipeline.render(rows, cap=cap, unit=unit, deadline=deadline).text

    body = fitted(call, render)
    if sessions is not None:
        sessions.tell(call, _marks(rows.selection))
    count = len(rows.selection.observations)
    return HookAnswer(body, f"{what}, {count} observations", call.event, rows.resolved.question.cwd)
