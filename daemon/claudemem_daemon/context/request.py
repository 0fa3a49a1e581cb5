"""What a context is made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Budget, Unit
from claudemem_daemon.context.clock import Clock
from claudemem_daemon.context.entry import RenderedEntry
from claudemem_daemon.context.formatter import Formatter, HumanFormatter
from claudemem_daemon.database_url import is_database
from claudemem_daemon.derived import Derived
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.lost import LostRows
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.settings.model import ModeItem, Settings
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.warning import AnswerWarning

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


@dataclass(frozen=True)
class ContextRequest:
    """All that a context is made of, and what every part of it needs to know.

    zone          None where it is left to the C library
    cap           the assistant's own limit in `unit`, besides the setting
    late          whether time is over, so that no further row is written
    rendered      entries that were made before
    lost          rows that could not be written
    """

    resolved: ResolvedQuestion
    selection: Selection
    zone: tzinfo | None
    prior_message: str = ""
    cap: int | None = None
    unit: Unit = "utf16"
    late: Callable[[], bool] = lambda: False
    rendered: Derived[Row, RenderedEntry] = field(default_factory=Derived)
    lost: LostRows = field(default_factory=LostRows)
    _marks: dict[str, tuple[str, str]] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return (*self.resolved.warnings, *self.selection.warnings)

    @property
    def news(self) -> bool:
        """Whether the session has all but the newest rows."""
        return self.resolved.question.since is not None

    @cached_property
    def formatter(self) -> Formatter:
        return HumanFormatter() if self.resolved.question.human else Formatter()

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.zone)

    @cached_property
    def budget(self) -> Budget:
        """Its limit is also the most characters of one text. A full question knows only the cap."""
        limit = None if self.resolved.question.full else self.settings.context_chars
        if self.cap is not None:
            limit = self.cap if limit is None else min(limit, self.cap)
        return Budget(limit, self.unit)

    @cached_property
    def origins(self) -> OriginLabels:
        return origin_labels(self.resolved.question, self.resolved.keys, self.selection)

    @cached_property
    def types(self) -> Mapping[str, ModeItem]:
        return {item.id.lower(): item for item in self.settings.mode.types}

    @cached_property
    def style(self) -> tuple[object, ...]:
        """All that every entry depends on."""
        settings = self.settings
        return (
            type(self.formatter),
            self.zone,
            self.budget,
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
