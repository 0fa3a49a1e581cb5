"""What one hook prints, by the same pipeline as every answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from claudemem_daemon.context.clock import Clock
from claudemem_daemon.context.fit import Context
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import INCOMPLETE
from claudemem_daemon.local import HERE
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Observation, Selection
from claudemem_daemon.server.hooks.assistants import ASSISTANTS
from claudemem_daemon.server.hooks.model import HookAnswer, HookCall, Mark, Marks
from claudemem_daemon.server.hooks.output import cap_of, write_output
from claudemem_daemon.server.hooks.sessions import Plan
from claudemem_daemon.server.hooks.transcripts import forked_from

OBSERVER: Final = "CLAUDE_MEM_OBSERVER_SESSION_DIR"
LATE: Final = "deadline"
TOO_LARGE: Final = "rows_too_large"
"""Warnings of rows that are missing: because time was over, and because those before them are so
large."""
MORE: Final = "\n(More comes with the next prompts.)"


def reply(
    call: HookCall,
    env: Mapping[str, str],
    plan: Plan | None,
    pipeline: Pipeline,
    deadline: Deadline,
) -> HookAnswer:
    """The answer of one call. Without a plan nobody remembers what the session was told, and a
    prompt gets no news. Reads files, and raises what the pipeline raises."""
    cwd, certain = _folder(call, pipeline)
    question = Question(
        cwd=cwd,
        env={name: value for name, value in env.items() if name != HERE},
        session_id=call.session_id,
        transcript_path=call.transcript_path,
    )
    settings = pipeline.configuration.snapshot(question)
    forks = plan.forks if plan is not None else None
    certain = certain and not settings.show_last_message and not forks
    answer = _Reply(call, question, plan or Plan("whole"), pipeline, deadline, certain)
    claude_mems = (env.get(OBSERVER), os.path.join(settings.data_dir, "observer-sessions"))
    if any(cwd is not None and folder and _within(cwd, folder) for folder in claude_mems):
        return answer.nothing()
    if call.kind == "prompt":
        if settings.prompt_context == "full":
            return answer.whole()
        if settings.prompt_context == "off" or plan is None:
            return answer.nothing()
    if plan is None:
        return answer.whole()
    marks = plan.marks
    if plan.forks and (parent := forked_from(call, plan.forks)) is not None:
        marks = plan.forks[parent]
    return answer.whole() if marks is None else answer.news(marks)


def answer_key(call: HookCall, env: Mapping[str, str], plan: Plan | None) -> Hashable:
    """Equal for calls that get the same answer as long as its dependencies hold."""
    known = frozenset(item for item in env.items() if item[0] != HERE)
    told = None
    if plan is not None:
        marks = None if plan.marks is None else tuple(plan.marks.items())
        told = plan.how, marks, plan.unless
    return "hook", call.caller, call.event, call.kind, call.guessed, call.folders, known, told


def _folder(call: HookCall, pipeline: Pipeline) -> tuple[str | None, bool]:
    """The first candidate that is in a repository, else the first; and whether no other folder had
    a part in that."""
    if len(call.folders) > 1:
        for folder in call.folders:
            if pipeline.repositories.resolve(folder).kind != "none":
                return folder, folder == call.cwd
    return call.cwd, len(call.folders) < 2


@dataclass(frozen=True, slots=True)
class _Reply:
    call: HookCall
    question: Question
    plan: Plan
    pipeline: Pipeline
    deadline: Deadline
    certain: bool
    """Whether everything the answer is made of is among its dependencies."""

    def nothing(self, marks: Marks | None = None) -> HookAnswer:
        return HookAnswer(ASSISTANTS[self.call.caller].nothing, self.question.cwd, marks)

    def whole(self) -> HookAnswer:
        most, unit = cap_of(self.call.caller, self.call.kind)
        made = self.pipeline.context(self.question, self.deadline, cap=most, unit=unit)
        answer, context = made.answer, made.context
        rows = answer.selection
        if self.call.guessed and not (rows.observations or rows.summaries):
            # That nothing is known of a folder nobody named is not worth a word.
            return self.nothing()
        marks = {**(self.plan.marks or {}), **marks_of(rows)}
        digest = hashlib.sha256(context.text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if context.text and digest == self.plan.unless:
            return self.nothing(marks)  # Another entry has answered this event.
        message = ""
        if self.call.kind == "start" and answer.resolved.settings.show_terminal_output:
            message = summary_line(rows, context, Clock(self.pipeline.zone(self.question)))
        return HookAnswer(
            write_output(self.call, context.text, message),
            self.question.cwd,
            marks,
            digest,
            made.dependencies if self.certain else (INCOMPLETE,),
        )

    def news(self, told: Marks) -> HookAnswer:
        """What is newer than `told`: as much as one answer holds, the first written first. The
        rest waits for the next prompt, as everything does when time was over."""
        answer = self._since(told)
        now = marks_of(answer.selection)
        told_before = {
            path: mark for path, mark in told.items() if not _began_anew(mark, now.get(path))
        }
        if len(told_before) < len(told):
            answer = self._since(told_before)
            now = marks_of(answer.selection)
        limit = answer.resolved.settings.limit
        marks = {**told_before, **now}
        more = 0 < limit <= len(answer.selection.observations) or _warned(
            answer.selection, TOO_LARGE
        )
        if more:
            answer, marks = self._first_of_many(told_before, marks, limit)
        # Of a store without a mark the same rows would come again.
        rows = tuple(row for row in answer.selection.observations if row.store in now)
        if _warned(answer.selection, LATE):
            return self.nothing()
        if not rows:
            none = self.nothing(marks)
            # With the marks unchanged, no session has news: rows of its own are past no mark.
            known = self.certain and marks == told
            return none._replace(dependencies=answer.dependencies) if known else none
        context, rows, marks = self._fitted(answer, rows, marks, more=more)
        if not context.complete:
            return self.nothing()
        more = more or len(rows) < len(answer.selection.observations)
        return HookAnswer(
            write_output(self.call, context.text + (MORE if more else "")),
            self.question.cwd,
            marks,
        )

    def _first_of_many(self, told: Marks, now: Marks, limit: int) -> tuple[Answer, dict[str, Mark]]:
        """The rows that come first after `told`, fewer than `limit`, and how far they go."""
        marks = dict(now)
        while True:
            spans = {path: mark.highest - _highest(told, path) for path, mark in marks.items()}
            marks = {
                path: mark._replace(highest=_highest(told, path) + max(1, spans[path] // 2))
                if spans[path] > 0
                else mark
                for path, mark in marks.items()
            }
            answer = self._since(told, {path: mark.highest for path, mark in marks.items()})
            rows = len(answer.selection.observations)
            whole = 0 < rows < limit and not _warned(answer.selection, TOO_LARGE)
            if _warned(answer.selection, LATE) or whole or max(spans.values(), default=0) <= 1:
                return answer, marks
            if rows == 0:
                # All that is new comes later.
                told, marks = marks, dict(now)

    def _fitted(
        self, answer: Answer, rows: tuple[Observation, ...], marks: dict[str, Mark], *, more: bool
    ) -> tuple[Context, tuple[Observation, ...], dict[str, Mark]]:
        """The text for as many `rows` as it holds, those rows, and how far they go."""
        while True:
            shown = answer._replace(selection=answer.selection._replace(observations=rows))
            context = self._render(shown, spare=len(MORE) if more else 0)
            if not context.left_out or not context.observations or not context.complete:
                return context, rows, marks
            rows, left = _first(rows, context.observations)
            more = True
            for row in left:
                mark = marks[row.store]
                marks[row.store] = mark._replace(highest=min(mark.highest, row.id - 1))

    def _since(self, marks: Marks, until: Mapping[str, int] | None = None) -> Answer:
        since = {path: mark.highest for path, mark in marks.items()}
        return self.pipeline.ask(replace(self.question, since=since, until=until), self.deadline)

    def _render(self, answer: Answer, spare: int = 0) -> Context:
        most, unit = cap_of(self.call.caller, self.call.kind)
        if spare:
            chars = answer.resolved.settings.context_chars
            most = (chars if most is None else min(most, chars)) - spare
        return self.pipeline.render(answer, self.deadline, cap=most, unit=unit)


def _highest(marks: Marks, path: str) -> int:
    return marks[path].highest if path in marks else 0


def _warned(selection: Selection, code: str) -> bool:
    return any(warning.code == code for warning in selection.warnings)


def _first(
    rows: tuple[Observation, ...], count: int
) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
    """The `count` rows that were written first in their stores, and the others; both in the order
    of `rows`."""
    order = sorted((row.store, row.id) for row in rows)
    chosen = set(order[:count])
    return (
        tuple(row for row in rows if (row.store, row.id) in chosen),
        tuple(row for row in rows if (row.store, row.id) not in chosen),
    )


def marks_of(selection: Selection) -> dict[str, Mark]:
    """How far an answer goes in each store. One that failed in the middle has no mark: what was not
    read of it is still to be told."""
    read = {store.path for store in selection.stores if store.ok}
    files = {version.path: version.identity for version in selection.versions}
    return {
        path: Mark(highest, files.get(path))
        for path, highest in selection.high_water.items()
        if path in read
    }


def _began_anew(before: Mark, now: Mark | None) -> bool:
    """Whether another file, with ids of its own, has taken the store's place. A copy put back has
    the same ids as before; a deleted row leaves the file what it is."""
    return now is not None and now.file != before.file and now.highest < before.highest


def _within(folder: str, outer: str) -> bool:
    return folder == outer or folder.startswith(outer.rstrip("/") + "/")


def summary_line(selection: Selection, context: Context, clock: Clock) -> str:
    """For the person at the keyboard: how many rows from where, how new, what was left out."""
    if not context.text:
        return ""
    if not context.observations:
        return "claude-mem: no observations here; why: claudemem-daemon explain"
    checkouts = {
        project.path or project.key for project in selection.projects if project.observations
    }
    moment = clock.at(selection.observations[0].shown_at)
    rows, places = _count(context.observations, "observation"), _count(len(checkouts), "worktree")
    line = f"claude-mem: {rows} from {places}, newest {moment.day} {moment.time}".rstrip()
    if context.left_out:
        line += f", {context.left_out} older left out"
    return f"{line}. To see them: claudemem-daemon context"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
