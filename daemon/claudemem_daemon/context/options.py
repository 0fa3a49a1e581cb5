"""What decides how each entry reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Budget
from claudemem_daemon.context.clock import Clock
from claudemem_daemon.context.formatter import Formatter
from claudemem_daemon.database_url import is_database
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.lost import LostRows
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.settings.model import ModeItem, Settings

WORK_MARK: Final = "⚒"


class OriginLabels(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class RenderOptions:
    formatter: Formatter
    clock: Clock
    origins: OriginLabels
    settings: Settings
    types: Mapping[str, ModeItem]
    platform: str | None
    """The assistant whose rows alone were asked for."""
    budget: Budget
    """Its limit is also the most characters of one text."""
    lost: LostRows = field(default_factory=LostRows)
    """What could not be written."""
    _marks: dict[str, tuple[str, str]] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)

    @property
    def style(self) -> tuple[object, ...]:
        """All that every entry depends on."""
        settings = self.settings
        return (
            type(self.formatter),
            self.clock.zone,
            self.budget.limit,
            self.budget.unit,
            settings.show_read_tokens,
            settings.show_work_tokens,
            settings.full_field,
            settings.mode.types,
        )

    def marks(self, kind: str) -> tuple[str, str]:
        """What stands for a type: its emoji, else its name; and the emoji of work on it."""
        if kind not in self._marks:
            item, text = self.types.get(kind.lower()), self.formatter.text
            emoji, work = (text(item.emoji, 8), text(item.work_emoji, 8)) if item else ("", "")
            self._marks[kind] = emoji or text(kind, 24) or "·", work or WORK_MARK
        return self._marks[kind]

    def origin(self, project: str) -> str:
        """Where rows of a project were written; empty for here."""
        if project not in self._labels:
            name = self.formatter.text(self.origins.of(project), 60)
            self._labels[project] = self.formatter.origin(name) if name else ""
        return self._labels[project]


def origin_labels(question: Question, keys: ProjectKeys, selection: Selection) -> OriginLabels:
    """With projects asked for by name there is no "here", unless there is only one."""
    exact = [key for key in keys.keys if key.match == "exact"]
    if question.projects:
        own = [key.key for key in exact] if len(exact) == 1 else []
    else:
        here = (key.key for key in exact if key.path is not None and key.path == keys.here)
        own = [keys.name, *here]
    absent = {
        project.key: project.stores for project in selection.projects if project.role == "removed"
    }
    elsewhere = frozenset(
        key for key, stores in absent.items() if stores and all(map(is_database, stores))
    )
    return OriginLabels(
        own=frozenset(own),
        removed=frozenset(absent) - elsewhere,
        elsewhere=elsewhere,
        repository=(keys.keys[0].key if question.projects else keys.name).partition("/")[0],
    )
