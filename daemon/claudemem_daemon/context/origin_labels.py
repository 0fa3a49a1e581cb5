"""Where a row was written, in one word, and in none when it was here. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claudemem_daemon.database_url import is_database
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.model import Selection


@dataclass(frozen=True, slots=True)
class OriginLabels:
    """`own` are the project names of the asking checkout; `removed` those of worktrees that are
    gone; `elsewhere` those that only a team's database has: folders of other machines, which were
    not removed; `repository` is P of `P/W`."""

    own: frozenset[str]
    removed: frozenset[str]
    elsewhere: frozenset[str]
    repository: str

    def of(self, project: str) -> str:
        """A short name for the checkout that wrote `project`: the folder of a worktree of this
        repository, else the whole name; empty for the asking checkout itself."""
        if project in self.own:
            return ""
        head, _, leaf = project.partition("/")
        name = leaf if leaf and head == self.repository else project
        if leaf == head == self.repository:
            # As Codex names the folders of its worktrees: the leaf alone would be the repository.
            name = f"worktree {leaf}"
        if project in self.elsewhere:
            return f"{name}, elsewhere"
        return f"{name}, removed" if project in self.removed else name


def origin_labels(question: Question, keys: ProjectKeys, selection: Selection) -> OriginLabels:
    """With projects asked for by name there is no "here", unless there is only one."""
    exact = [key for key in keys.keys if key.match == "exact"]
    if question.projects:
        own = [key.key for key in exact] if len(exact) == 1 else []
    else:
        here = (key.key for key in exact if key.path is not None and key.path == keys.here)
        own = [keys.name, *here]
    absent = {one.key: one.stores for one in selection.projects if one.role == "removed"}
    elsewhere = frozenset(
        key for key, stores in absent.items() if stores and all(map(is_database, stores))
    )
    return OriginLabels(
        own=frozenset(own),
        removed=frozenset(absent) - elsewhere,
        elsewhere=elsewhere,
        repository=(keys.keys[0].key if question.projects else keys.name).partition("/")[0],
    )
