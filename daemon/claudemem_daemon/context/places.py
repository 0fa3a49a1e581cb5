"""Where a row was written, said in one word, and not at all when it was here. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.model import Selection


@dataclass(frozen=True, slots=True)
class Places:
    """`own` are the project names of the asking checkout; `removed` those of worktrees that are
    gone; `repository` is P of `P/W`."""

    own: frozenset[str]
    removed: frozenset[str]
    repository: str

    def of(self, project: str) -> str:
        """A short name for the checkout that wrote `project`: the folder of a worktree of this
        repository, else the whole name; empty for the asking checkout itself."""
        if project in self.own:
            return ""
        head, _, leaf = project.partition("/")
        name = leaf if leaf and head == self.repository else project
        return f"{name}, removed" if project in self.removed else name


def places(question: Question, keys: ProjectKeys, selection: Selection) -> Places:
    """With projects asked for by name there is no "here", unless there is only one."""
    return Places(
        own=_own(question, keys),
        removed=frozenset(one.key for one in selection.projects if one.role == "removed"),
        repository=(keys.keys[0].key if question.projects else keys.name).partition("/")[0],
    )


def _own(question: Question, keys: ProjectKeys) -> frozenset[str]:
    exact = [one for one in keys.keys if one.match == "exact"]
    if question.projects:
        return frozenset(one.key for one in exact) if len(exact) == 1 else frozenset()
    here = (one.key for one in exact if one.path is not None and one.path == keys.here)
    return frozenset((keys.name, *here))
