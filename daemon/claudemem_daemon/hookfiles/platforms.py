"""Where each assistant keeps its hooks and what an entry looks like. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from claudemem_daemon.local import home_dir

Shape = Literal["nested", "flat"]
"""nested: an event has groups, each with a list of hooks (Claude Code, Codex, Gemini CLI).
flat: an event has a list of hooks (Cursor, Copilot CLI)."""


@dataclass(frozen=True, slots=True)
class Platform:
    """`timeout` is in the platform's own unit, about the same few seconds everywhere: our deadline
    is 1.5 s, and the assistant's is only for a machine that stands still."""

    name: str
    folder_variable: str | None
    folder: str
    file: str
    project_file: str
    shape: Shape
    events: tuple[tuple[str, str | None], ...]
    timeout_key: str
    timeout: int
    command_key: str
    extra: Mapping[str, Any]
    note: str = ""
    comments: bool = False
    """Whether the assistant takes // and /* */ in its file."""


PLATFORMS: Final[Mapping[str, Platform]] = {
    one.name: one
    for one in (
        Platform(
            name="claude-code",
            folder_variable="CLAUDE_CONFIG_DIR",
            folder=".claude",
            file="settings.json",
            project_file=".claude/settings.json",
            shape="nested",
            # No matcher: every source, also resume and fork.
            events=(("SessionStart", None), ("UserPromptSubmit", None), ("SubagentStart", None)),
            timeout_key="timeout",
            timeout=5,
            command_key="command",
            extra={},
        ),
        Platform(
            name="codex",
            folder_variable="CODEX_HOME",
            folder=".codex",
            file="hooks.json",
            project_file=".codex/hooks.json",
            shape="nested",
            events=(("SessionStart", None), ("UserPromptSubmit", None), ("SubagentStart", None)),
            timeout_key="timeout",
            timeout=5,
            command_key="command",
            extra={},
            note="Codex skips them until it may run them, and `codex exec` says nothing: start codex"
            " once and answer yes when it asks. A changed entry is asked about again.",
        ),
        Platform(
            name="cursor",
            folder_variable=None,
            folder=".cursor",
            file="hooks.json",
            project_file=".cursor/hooks.json",
            shape="flat",
            events=(("sessionStart", None), ("beforeSubmitPrompt", None)),
            timeout_key="timeout",
            timeout=5,
            command_key="command",
            extra={"version": 1},
        ),
        Platform(
            name="gemini-cli",
            folder_variable=None,
            folder=".gemini",
            file="settings.json",
            project_file=".gemini/settings.json",
            shape="nested",
            events=(("SessionStart", None), ("BeforeAgent", None), ("PreCompress", None)),
            timeout_key="timeout",
            timeout=5000,
            command_key="command",
            extra={},
            comments=True,
        ),
        Platform(
            name="copilot-cli",
            folder_variable="COPILOT_HOME",
            folder=".copilot",
            file="hooks/claudemem-daemon.json",
            project_file=".github/hooks/claudemem-daemon.json",
            shape="flat",
            events=(
                ("sessionStart", None),
                ("userPromptSubmitted", None),
                ("subagentStart", None),
                ("preCompact", None),
            ),
            timeout_key="timeoutSec",
            timeout=5,
            command_key="bash",
            extra={"version": 1},
        ),
    )
}
"""`raw` has no file: whoever calls it has settings of their own."""


def target(platform: Platform, environ: Mapping[str, str], project: str | None) -> str:
    """The file that gets the entries: the user's, or with `project` that checkout's."""
    if project is not None:
        return os.path.join(project, platform.project_file)
    variable = platform.folder_variable
    given = environ.get(variable, "") if variable is not None else ""
    folder = given if given.startswith("/") else os.path.join(home_dir(environ), platform.folder)
    return os.path.join(folder, platform.file)


def ignored(platform: Platform, environ: Mapping[str, str]) -> str | None:
    """A word on a folder in the environment that is none, and so not used: the assistant would look
    for it below the folder that it happens to run in."""
    variable = platform.folder_variable
    given = environ.get(variable, "") if variable is not None else ""
    if not given or given.startswith("/"):
        return None
    return f"{variable} is no absolute path ({given}): ignored"
