"""What a context is made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property
from typing import Final

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


class Origins:
    """Short names for the checkouts that wrote rows. `own`: the project names of the asking checkout;
    with projects asked for by name there is none, unless there is only one."""

    def __init__(self, question: Question, keys: ProjectKeys, selection: Selection) -> None:
        if question.projects:
            exact = [key.key for key in keys.keys if key.match == "exact"]
            own = exact if len(exact) == 1 else []
        else:
            own = [keys.name]
            if keys.here is not None:
                own += [k.key for k in keys.keys if k.path == keys.here and k.match == "exact"]
        self.own = frozenset(own)
        self._repository = (keys.keys[0].key if question.projects else keys.name).partition("/")[0]
        self._notes = {
            project.key: _note(project.stores)
            for project in selection.projects
            if project.role == "removed"
        }

    def of(self, project: str) -> str:
        """The folder name for a worktree of this repository, else the whole project name; empty for
        the asking checkout."""
        if project in self.own:
            return ""
        head, _, leaf = project.partition("/")
        name = leaf if leaf and head == self._repository else project
        if leaf == head == self._repository:
            # Codex names its worktrees' folders so: the leaf alone would be the repository.
            name = f"worktree {leaf}"
        return name + self._notes.get(project, "")


def _note(stores: tuple[str, ...]) -> str:
    """Why a project has no checkout here. One that only databases have is a folder of another
    machine, which was not removed."""
    return ", elsewhere" if stores and all(map(is_database, stores)) else ", removed"


@dataclass(frozen=True)
class ContextRequest:
    """All that a context is made of, and what every part of it needs.

    zone      None for the zone of the C library
    cap       the assistant's limit, in `unit`, in addition to the setting
    late      whether time is over, so that no more rows are written
    rendered  entries from earlier answers
    lost      counts the rows that cannot be written
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
        """Whether only rows that the session does not have are shown."""
        return self.resolved.question.since is not None

    @cached_property
    def formatter(self) -> Formatter:
        return HumanFormatter() if self.resolved.question.human else Formatter()

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.zone)

    @cached_property
    def budget(self) -> Budget:
        """Its limit also applies to each single text. For a full question only the cap applies."""
        limit = None if self.resolved.question.full else self.settings.context_chars
        if self.cap is not None:
            limit = self.cap if limit is None else min(limit, self.cap)
        return Budget(limit, self.unit)

    @cached_property
    def origins(self) -> Origins:
        return Origins(self.resolved.question, self.resolved.keys, self.selection)

    @cached_property
    def types(self) -> Mapping[str, ModeItem]:
        return {item.id.lower(): item for item in self.settings.mode.types}

    @cached_property
    def style(self) -> tuple[object, ...]:
        """What every entry depends on."""
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
        """The sign of a type, its emoji or else its name; and the emoji of its work."""
        if kind not in self._marks:
            item, text = self.types.get(kind.lower()), self.formatter.text
            emoji, work = (text(item.emoji, 8), text(item.work_emoji, 8)) if item else ("", "")
            self._marks[kind] = emoji or text(kind, 24) or "·", work or WORK_MARK
        return self._marks[kind]

    def origin(self, project: str) -> str:
        """The label of a project's rows; empty for the asking checkout."""
        if project not in self._labels:
            name = self.formatter.text(self.origins.of(project), 60)
            self._labels[project] = self.formatter.origin(name) if name else ""
        return self._labels[project]
