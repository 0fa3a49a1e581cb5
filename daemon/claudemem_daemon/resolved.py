"""What is known of a question before a store is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys, Repository
from claudemem_daemon.settings.checkout_env import CheckoutEnv
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.model import Located
from claudemem_daemon.warning import AnswerWarning


class ResolvedQuestion(NamedTuple):
    """The values of the first three steps. `repository` is None when the question named its
    projects."""

    question: Question
    settings: Settings
    repository: Repository | None
    keys: ProjectKeys
    located: Located
    checkout_env: CheckoutEnv

    def with_question(self, question: Question) -> ResolvedQuestion:
        """The same for another question with equal values of what it was resolved from."""
        return self._replace(question=replace(question, env=self.checkout_env.env))

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return tuple(warning for step in self._steps() for warning in step.warnings)

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        return tuple(dependency for step in self._steps() for dependency in step.dependencies)

    def _steps(self) -> tuple[Settings | CheckoutEnv | Repository | ProjectKeys | Located, ...]:
        first = (self.settings, self.checkout_env)
        repository = () if self.repository is None else (self.repository,)
        return (*first, *repository, self.keys, self.located)
