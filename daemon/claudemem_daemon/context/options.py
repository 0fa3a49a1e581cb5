"""What decides how each entry reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from claudemem_daemon.context.clock import Clock
from claudemem_daemon.context.formatter import Formatter
from claudemem_daemon.context.origin_labels import OriginLabels
from claudemem_daemon.settings.model import ModeItem, Settings

WORK_MARK: Final = "⚒"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """`max_chars` bounds one text in characters (None = no bound); `stores` has the letter in ids
    of rows of a store that is not the shared one, by path."""

    formatter: Formatter
    clock: Clock
    origins: OriginLabels
    settings: Settings
    types: Mapping[str, ModeItem]
    stores: Mapping[str, str]
    max_chars: int | None
    _marks: dict[str, tuple[str, str]] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """All that every entry depends on."""
        settings = self.settings
        return (
            type(self.formatter),
            self.clock,
            self.max_chars,
            settings.show_read_tokens,
            settings.show_work_tokens,
            settings.full_field,
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
