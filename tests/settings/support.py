"""A HOME with a settings.json, in the one process of the test."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon import dependencies
from claudemem_daemon.question import Question
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.warning import AnswerWarning
from tests.support.daemon import eventually

LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
OWN_LIMIT = "CLAUDE_MEM_DAEMON_OBSERVATIONS"
TYPES = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
MODE = "CLAUDE_MEM_MODE"
MODES_DIR = "CLAUDE_MEM_MODES_DIR"
EXCLUDED = "CLAUDE_MEM_EXCLUDED_PROJECTS"
DATA_DIR = "CLAUDE_MEM_DATA_DIR"


class Home:
    """A home folder; `write` replaces its settings.json as an editor does."""

    def __init__(self, path: Path, **environ: str) -> None:
        self.path = path
        self.folder = path / ".claude-mem"
        self.file = self.folder / "settings.json"
        self.configuration = Configuration({"HOME": str(path), **environ})

    def write(self, values: Any = None, *, raw: bytes | None = None, **keys: Any) -> None:
        """Values as JSON, or `raw` as it is; put in place by a rename."""
        data = json.dumps({**(values or {}), **keys}).encode() if raw is None else raw
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = self.folder / "settings.json.tmp"
        fresh.write_bytes(data)
        fresh.replace(self.file)

    def rewrite(self, data: bytes) -> None:
        """In place: the same inode, as a shell's `>` does it."""
        with open(self.file, "r+b") as file:
            file.truncate(0)
            file.write(data)

    def mode(self, name: str, content: Any) -> Path:
        """A mode file in the data dir."""
        folder = self.folder / "modes"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def ask(self, env: Mapping[str, str] | None = None, **asked: Any) -> Settings:
        """The settings of a question with that environment and those overrides."""
        return self.configuration.snapshot(Question(cwd="/", env=env or {}, **asked))

    def settled(self, env: Mapping[str, str] | None = None) -> Settings:
        """The settings, once nothing was changed so shortly before that it is looked at again."""

        def calm() -> Settings | None:
            settings = self.ask(env)
            return (
                settings
                if not any(getattr(one, "racy", False) for one in settings.dependencies)
                else None
            )

        settings = eventually(calm, "the files are older than a clock tick")
        assert settings is not None
        return settings

    def named(self, key: str) -> list[AnswerWarning]:
        """The warnings about one key."""
        return [warning for warning in self.ask().warnings if warning.key == key]

    def everything(self) -> set[str]:
        """All paths below the home folder."""
        return {
            os.path.join(top, name)
            for top, folders, files in os.walk(self.path)
            for name in (*folders, *files)
        }


def freeze_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, a file system whose stat never tells of a change."""
    seen: dict[str, Any] = {}
    stat = dependencies._stat

    def frozen(path: str) -> Any:
        found, _, is_link = stat(path)
        return seen.setdefault(path, (found, False, is_link))

    monkeypatch.setattr(dependencies, "_stat", frozen)
