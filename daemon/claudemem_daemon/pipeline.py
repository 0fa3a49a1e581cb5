"""From a question to its answer.

    question -> settings -> repository -> stores -> selection -> context

Each step takes the values of the steps before and returns a new frozen one, with what it depends
on. The daemon, the command line without a daemon and the Python interface all use this pipeline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import tzinfo
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Unit
from claudemem_daemon.context.entry import RenderedEntry
from claudemem_daemon.context.fit import Context
from claudemem_daemon.context.render import make_context
from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import INCOMPLETE, Dependency, each_path_once, forget_paths
from claudemem_daemon.derived import Derived
from claudemem_daemon.local_zone import LocalZone, callers_zone
from claudemem_daemon.memo import Memo
from claudemem_daemon.question import Question
from claudemem_daemon.repository.keys import named_keys, project_keys
from claudemem_daemon.repository.model import Repository
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.by_id import Ref
from claudemem_daemon.selection.explain import Explanation, explain
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.selection.select import select
from claudemem_daemon.settings.checkout_env import without_checkouts_word
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.locate import locate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.trust import Trust
from claudemem_daemon.transcript import PriorMessage, prior_message
from claudemem_daemon.warning import AnswerWarning

MAX_DERIVED: Final = 200
"""With more rows than this in an answer, no rendered entry is remembered: the few rows that stay in
memory would keep the memory of all from being given back."""
JOINING: Final = 15e-6
JOINING_TEXT: Final = 8e-9
"""Roughly the seconds that a row, and a character of it, takes from its lines to the finished text."""
ROW_WEIGHT: Final = 700
"""Bytes, about, besides its texts."""
KEY_WEIGHT: Final = 200
"""Bytes, about."""
MAX_STEPS_WEIGHT: Final = 32 * 1024 * 1024
"""Bytes. A single value may have a quarter, as the keys of 20,000 worktrees do."""


class Answer(NamedTuple):
    """The rows for one question."""

    resolved: ResolvedQuestion
    selection: Selection

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return (*self.resolved.warnings, *self.selection.warnings)

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """Those of the rows first, which change most often."""
        selection = self.selection
        return (*selection.dependencies, *selection.versions, *self.resolved.dependencies)


class ContextAnswer(NamedTuple):
    """The rows for one question, and their text."""

    answer: Answer
    context: Context

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        context = self.context
        return (
            *(() if context.complete else (INCOMPLETE,)),
            *self.answer.dependencies,
            *context.dependencies,
        )


class Pipeline:
    """What outlives a question: the settings, the allowed stores, the open connections, and the values
    of all steps that are still valid. Safe to use from several threads at once."""

    def __init__(
        self,
        configuration: Configuration,
        repositories: Repositories,
        trust: Trust,
        pool: StorePool,
        steps: Memo,
    ) -> None:
        """`steps` is the memo that the other parts use."""
        self.configuration = configuration
        self.repositories = repositories
        self.trust = trust
        self.pool = pool
        self.memo = Memo()
        """Of answers; the steps have theirs, so that no text pushes out what leads to all texts."""
        self._steps = steps
        self._rendered = Derived[Row, RenderedEntry]()

    def resolved(self, question: Question) -> ResolvedQuestion:
        """Settings, repository, keys and stores for `question`; opens no store."""
        key = replace(
            question,
            platform_source=None,
            human=False,
            session_id=None,
            transcript_path=None,
            since=None,
            until=None,
        )
        with each_path_once():
            resolved = self._steps.value(
                ("resolved", key),
                lambda: self._resolve(key),
                lambda resolved: KEY_WEIGHT * len(resolved.keys.keys),
            )
        return resolved.with_question(question)

    def _resolve(self, question: Question) -> ResolvedQuestion:
        repository = None if question.projects else self.repositories.resolve(question.cwd)
        own = without_checkouts_word(
            question.env, _folders(question, repository), self.configuration.home
        )
        question = replace(question, env=own.env)
        settings = self.configuration.snapshot(question, own)
        if repository is None:
            keys = named_keys(question.projects, settings)
        else:
            keys = project_keys(repository, settings)
        located = locate(repository, keys, settings, self.trust)
        return ResolvedQuestion(question, settings, repository, keys, located, own)

    def ask(self, question: Question, deadline: Deadline) -> Answer:
        """The rows, inside the deadline; what could not be read in time is a warning."""
        with each_path_once():
            return self._answer(question, self.resolved(question), deadline)

    def _answer(self, question: Question, resolved: ResolvedQuestion, deadline: Deadline) -> Answer:
        # Rows depend on the session only where its own rows are left out.
        session = question.session_id if question.since is not None else None
        key = replace(question, session_id=session, transcript_path=None, human=False)
        answer = self.memo.value(
            ("rows", key), lambda: self._select(question, resolved, deadline), _rows_weight
        )
        return answer._replace(resolved=answer.resolved.with_question(question))

    def _select(self, question: Question, resolved: ResolvedQuestion, deadline: Deadline) -> Answer:
        selection = select(resolved, self.pool, deadline)
        if _lost(resolved, selection):
            # A located store is gone: locate again.
            forget_paths()
            anew = self.resolved(question)
            if anew.located != resolved.located:
                resolved, selection = anew, select(anew, self.pool, deadline)
        return Answer(resolved, selection)

    def context(
        self,
        question: Question,
        deadline: Deadline,
        *,
        cap: int | None = None,
        unit: Unit = "utf16",
    ) -> ContextAnswer:
        """The rows and their text, limited by `cap` (in `unit`) in addition to the setting."""
        with each_path_once():
            resolved = self.resolved(question)
            key = question
            if not resolved.settings.show_last_message and question.since is None:
                # The text does not depend on the session.
                key = replace(question, session_id=None, transcript_path=None)

            def make() -> ContextAnswer:
                answer = self._answer(question, resolved, deadline)
                context = self.render(answer, deadline, cap=cap, unit=unit)
                return ContextAnswer(answer, context)

            return self.memo.value(
                ("text", key, cap, unit),
                make,
                # With its rows: it keeps them in memory.
                lambda whole: 2 * len(whole.context.text) + _rows_weight(whole.answer),
            )

    def render(
        self, answer: Answer, deadline: Deadline, *, cap: int | None = None, unit: Unit = "utf16"
    ) -> Context:
        """The text of rows that were already selected, as many as can be written in time."""
        resolved, selection = answer.resolved, answer.selection
        question, settings = resolved.question, resolved.settings
        environ = resolved.checkout_env.left(os.environ)
        zone = self._zone(question, environ)
        prior = PriorMessage("", ())
        if settings.show_last_message and question.since is None:
            prior = prior_message(question, selection.observations, environ)
        request = ContextRequest(
            resolved,
            selection,
            zone.zone,
            prior.text,
            cap,
            unit,
            writing_time(selection, deadline),
            self._rendered if settings.limit <= MAX_DERIVED else Derived(),
        )
        context = make_context(request)
        return context._replace(dependencies=(*prior.dependencies, *zone.dependencies))

    def explain(
        self, question: Question, deadline: Deadline, row: Ref | None = None
    ) -> tuple[ResolvedQuestion, Explanation]:
        """Why these rows: where each row ends, the SQL and its plan, one row's fate."""
        with each_path_once():
            answer = self._select(question, self.resolved(question), deadline)
            left_out = self.render(answer, deadline).left_out
            shown = len(answer.selection.observations) - left_out
            resolved, selection = answer
            zone = self.zone(question)
            return resolved, explain(resolved, selection, shown, self.pool, deadline, row, zone)

    def zone(self, question: Question) -> tzinfo | None:
        """The caller's; None for that of the C library."""
        return self._zone(question, os.environ).zone

    def _zone(self, question: Question, environ: Mapping[str, str]) -> LocalZone:
        key = ("zone", question.env.get("TZ"), environ.get("TZ"))
        return self._steps.value(key, lambda: callers_zone(question.env, environ))

    def reload(self) -> Settings:
        """Read everything again; the settings of a caller that says nothing of its own."""
        self.memo.clear()
        return self.configuration.reload()

    def close(self) -> None:
        self.pool.close()


def writing_time(selection: Selection, deadline: Deadline) -> Callable[[], bool]:
    """A function that tells when to stop writing rows, so that there is time to join them."""
    joining = sum([JOINING + JOINING_TEXT * shown.row.size for shown in selection.observations])
    until = Deadline(deadline.at - min(joining, deadline.remaining() / 3))
    return lambda: until.passed


def _folders(question: Question, repository: Repository | None) -> tuple[str, ...]:
    """Folders whose project settings the assistant may have read."""
    checkouts = (repository.main, repository.current) if repository is not None else ()
    paths = (question.cwd, *(checkout.path for checkout in checkouts if checkout is not None))
    return tuple(path for path in paths if path)


def _lost(resolved: ResolvedQuestion, selection: Selection) -> bool:
    """Whether a store that was located is gone."""
    located = {store.path for store in resolved.located.stores}
    return any(
        store.reason in ("missing", "unreadable") and store.path in located
        for store in selection.stores
    )


def _rows_weight(answer: Answer) -> int:
    rows = (*answer.selection.observations, *answer.selection.summaries)
    return sum([ROW_WEIGHT + shown.row.size for shown in rows])
