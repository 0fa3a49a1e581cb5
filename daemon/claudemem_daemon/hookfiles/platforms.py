"""Where each assistant keeps its hooks and what an entry looks like. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    folder: str
    file: str
    events: tuple[str, ...]
    folder_variable: str = ""
    project_folder: str = ""
    """Where a checkout has `file`, if that is not `folder`."""
    shape: Shape = "nested"
    timeout_key: str = "timeout"
    timeout: int = 5
    command_key: str = "command"
    extra: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    comments: bool = False
    """Whether the assistant takes // and /* */ in its file."""


_CLAUDE_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "SubagentStart")
"""Without a matcher: every source, also resume and fork."""

_KNOWN: Final = (
    Platform("claude-code", ".claude", "settings.json", _CLAUDE_EVENTS, "CLAUDE_CONFIG_DIR"),
    Platform(
        "codex",
        ".codex",
        "hooks.json",
        _CLAUDE_EVENTS,
        "CODEX_HOME",
        note="Codex skips them until it may run them, and `codex exec` says nothing: start codex"
        " once and answer yes when it asks. A changed entry is asked about again.",
    ),
    Platform(
        "cursor",
        ".cursor",
        "hooks.json",
        ("sessionStart", "beforeSubmitPrompt"),
        shape="flat",
        extra={"version": 1},
    ),
    Platform(
        "gemini-cli",
        ".gemini",
        "settings.json",
        ("SessionStart", "BeforeAgent", "PreCompress"),
        timeout=5000,
        comments=True,
    ),
    Platform(
        "copilot-cli",
        ".copilot",
        "hooks/claudemem-daemon.json",
        ("sessionStart", "userPromptSubmitted", "subagentStart", "preCompact"),
        "COPILOT_HOME",
        ".github",
        shape="flat",
        timeout_key="timeoutSec",
        command_key="bash",
        extra={"version": 1},
    ),
)
PLATFORMS: Final[Mapping[str, Platform]] = {known.name: known for known in _KNOWN}
"""`raw` has no file: whoever calls it has settings of their own."""


def target(platform: Platform, environ: Mapping[str, str], project: str | None) -> str:
    """The file that gets the entries: the user's, or with `project` that checkout's."""
    if project is not None:
        return os.path.join(project, platform.project_folder or platform.folder, platform.file)
    given = environ.get(platform.folder_variable, "")
    folder = given if given.startswith("/") else os.path.join(home_dir(environ), platform.folder)
    return os.path.join(folder, platform.file)


def ignored(platform: Platform, environ: Mapping[str, str]) -> str | None:
    """A word on a folder in the environment that is none, and so not used: the assistant would look
    for it below the folder that it happens to run in."""
    given = environ.get(platform.folder_variable, "")
    if not given or given.startswith("/"):
        return None
    return f"{platform.folder_variable} is no absolute path ({given}): ignored"
