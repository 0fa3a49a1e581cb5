"""The one way from a question to an answer.

    question -> settings -> repository -> stores -> selection -> context

Each step takes the values of the steps before and returns a new frozen one. The daemon, the command
line without a daemon and the Python interface all walk here; `Pipeline` only holds the four
long-lived things that remember something between two questions.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from claudemem_daemon.context.budget import Unit
from claudemem_daemon.context.entries import RenderedEntry
from claudemem_daemon.context.model import Context
from claudemem_daemon.context.render import ContextRequest, make_context
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import Dependency, all_hold
from claudemem_daemon.derived import Derived
from claudemem_daemon.question import Question
from claudemem_daemon.render_inputs import read_render_inputs
from claudemem_daemon.repository.keys import named_keys, project_keys
from claudemem_daemon.repository.model import ProjectKeys, Repository
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.selection.explain import Explanation, explain
from claudemem_daemon.selection.lookup import Ref
from claudemem_daemon.selection.model import Observation, Selection
from claudemem_daemon.selection.select import select
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.locate import locate
from claudemem_daemon.stores.model import Located
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.stores.trust import Trust
from claudemem_daemon.warning import AnswerWarning

MOST_WAYS: Final = 64
MOST_DERIVED: Final = 200
"""Of more rows nothing is kept for the next answer: what few of them stay would hold on to the
memory of all."""


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """The first three steps of one question: all that is known before a store is opened."""

    question: Question
    settings: Settings
    repository: Repository | None
    """None when the question named its projects."""
    keys: ProjectKeys
    located: Located

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        repository = self.repository.warnings if self.repository is not None else ()
        return (
            *self.settings.warnings,
            *repository,
            *self.keys.warnings,
            *self.located.warnings,
        )

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """What repository and stores were read from; `Configuration.current` knows the settings'."""
        repository = self.repository.dependencies if self.repository is not None else ()
        return (*repository, *self.keys.dependencies, *self.located.dependencies)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows for one question."""

    resolved: ResolvedQuestion
    selection: Selection

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return (*self.resolved.warnings, *self.selection.warnings)


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """The rows for one question and the text made of them."""

    answer: Answer
    context: Context

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return (*self.answer.warnings, *self.context.warnings)


class Pipeline:
    """What remembers between questions: settings last read, repositories seen, stores allowed,
    connections open. Safe to walk from several threads at once."""

    def __init__(
        self,
        configuration: Configuration,
        repositories: Repositories,
        trust: Trust,
        pool: StorePool,
    ) -> None:
        self.configuration = configuration
        self.repositories = repositories
        self.trust = trust
        self.pool = pool
        self._ways: OrderedDict[tuple[object, ...], ResolvedQuestion] = OrderedDict()
        self._decoded = Derived[Row, Observation]()
        self._rendered = Derived[Observation, RenderedEntry]()
        self._lock = threading.Lock()

    def resolved(self, question: Question) -> ResolvedQuestion:
        """Settings, repository, keys and stores for `question`; opens no store.

        While nothing changed but a store, the way is the one of the time before.
        """
        with self._lock:
            known = self._ways.get(_way_key(question))
        if (
            known is not None
            and self.configuration.current(known.settings)
            and all_hold(known.dependencies)
        ):
            return replace(known, question=question)
        return self._walked(question)

    def _walked(self, question: Question) -> ResolvedQuestion:
        resolved = self._way(question)
        key = _way_key(question)
        with self._lock:
            self._ways[key] = resolved
            self._ways.move_to_end(key)
            while len(self._ways) > MOST_WAYS:
                self._ways.popitem(last=False)
        return resolved

    def _way(self, question: Question) -> ResolvedQuestion:
        settings = self.configuration.snapshot(question)
        if question.projects:
            repository = None
            keys = named_keys(question.projects, settings)
        else:
            repository = self.repositories.resolve(question.cwd)
            keys = project_keys(repository, settings)
        located = locate(repository, keys, settings, question.env, self.trust)
        return ResolvedQuestion(question, settings, repository, keys, located)

    def ask(self, question: Question, deadline: Deadline) -> Answer:
        """The rows, inside the deadline; what could not be read in time is a warning."""
        resolved = self.resolved(question)
        selection = self._selected(resolved, deadline)
        if _lost(resolved, selection):
            # The way says that there is a store; that there is none is for it to say, not for us.
            anew = self._walked(question)
            if anew.located != resolved.located:
                resolved, selection = anew, self._selected(anew, deadline)
        return Answer(resolved, selection)

    def _selected(self, resolved: ResolvedQuestion, deadline: Deadline) -> Selection:
        decoded = self._decoded if resolved.settings.limit <= MOST_DERIVED else None
        return select(
            resolved.question,
            resolved.settings,
            resolved.keys,
            resolved.located,
            self.pool,
            deadline,
            decoded,
        )

    def context(
        self,
        question: Question,
        deadline: Deadline,
        *,
        cap: int | None = None,
        unit: Unit = "utf16",
    ) -> ContextAnswer:
        """The rows and their text, which `cap` (in `unit`) limits besides the setting."""
        answer = self.ask(question, deadline)
        return ContextAnswer(answer, self.render(answer, cap=cap, unit=unit, deadline=deadline))

    def render(
        self,
        answer: Answer,
        *,
        cap: int | None = None,
        unit: Unit = "utf16",
        deadline: Deadline | None = None,
    ) -> Context:
        """The text for rows that were already selected; of those that can be written in time."""
        resolved, selection = answer.resolved, answer.selection
        inputs = read_render_inputs(
            resolved.question, resolved.settings, selection.observations, os.environ
        )
        request = ContextRequest(
            question=resolved.question,
            settings=resolved.settings,
            keys=resolved.keys,
            selection=selection,
            warnings=answer.warnings,
            zone=inputs.zone,
            prior_message=inputs.prior_message,
            cap=cap,
            unit=unit,
        )
        rendered = self._rendered if resolved.settings.limit <= MOST_DERIVED else None
        context = make_context(request, deadline, rendered)
        return replace(context, dependencies=inputs.dependencies)

    def explain(
        self, question: Question, deadline: Deadline, row: Ref | None = None
    ) -> tuple[ResolvedQuestion, Explanation]:
        """Why these rows: where each row ends, the SQL and its plan, one row's fate."""
        resolved = self.resolved(question)
        found = self._explained(resolved, deadline, row)
        if _lost(resolved, found.selection):
            resolved = self._walked(question)
            found = self._explained(resolved, deadline, row)
        return resolved, found

    def _explained(
        self, resolved: ResolvedQuestion, deadline: Deadline, row: Ref | None
    ) -> Explanation:
        def left_out(selection: Selection) -> int:
            return self.render(Answer(resolved, selection), deadline=deadline).left_out

        return explain(
            resolved.question,
            resolved.settings,
            resolved.keys,
            resolved.located,
            self.pool,
            deadline,
            row,
            left_out,
        )

    def stands(self, answer: Answer, context: Context | None = None) -> bool:
        """Whether the same question would be answered the same again: a stat for each file it was
        read from and a glance at each store, no query."""
        extra = context.dependencies if context is not None else ()
        return (
            answer.selection.complete
            and (context is None or context.complete)
            # A store is what changes most.
            and all(version.holds() for version in answer.selection.versions)
            and self.configuration.current(answer.resolved.settings)
            and all_hold(answer.resolved.dependencies)
            and all_hold(answer.selection.dependencies)
            and all_hold(extra)
        )

    def close(self) -> None:
        self.repositories.close()
        self.pool.close()


def _lost(resolved: ResolvedQuestion, selection: Selection) -> bool:
    """Whether a store that was located could not be reached any more."""
    located = {one.path for one in resolved.located.stores}
    return any(
        one.reason in ("missing", "unreadable") and one.path in located for one in selection.stores
    )


def _way_key(question: Question) -> tuple[object, ...]:
    """All of a question that its way depends on."""
    return (
        question.cwd,
        question.projects,
        tuple(sorted(question.env.items())),
        question.scope,
        question.limit,
        question.types,
        question.concepts,
        question.full,
    )
