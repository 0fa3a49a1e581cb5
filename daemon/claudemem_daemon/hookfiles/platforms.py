"""Where each assistant keeps its hooks and what an entry looks like. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from claudemem_daemon.local import home_dir

Shape = Literal["nested", "flat", "plugin"]
"""nested: an event has groups, each with a list of hooks (Claude Code, Codex, Gemini CLI).
flat: an event has a list of hooks (Cursor, Copilot CLI). plugin: a JavaScript file (OpenCode)."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The user's `file` is in `folder` below HOME, or in the one that `folder_variable` names; a
    checkout's is in `project_folder`, else in `folder`. `timeout` is a few seconds in the
    platform's own unit: our deadline is 1.5 s. `extra` are keys that the file must have.
    `asks`: an entry runs only once its user has allowed it as it is. `comments`: the assistant
    takes // and /* */ in it."""

    name: str
    folder: str
    file: str
    events: tuple[str, ...]
    folder_variable: str = ""
    below_variable: str = ""
    project_folder: str = ""
    shape: Shape = "nested"
    timeout_key: str = "timeout"
    timeout: int = 5
    command_key: str = "command"
    extra: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    comments: bool = False


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
        asks=True,
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
        project_folder=".github",
        shape="flat",
        timeout_key="timeoutSec",
        command_key="bash",
        extra={"version": 1},
    ),
    Platform(
        "opencode",
        ".config/opencode",
        "plugins/claudemem-daemon.js",
        ("chat.message", "session.compacted"),
        "XDG_CONFIG_HOME",
        below_variable="opencode",
        project_folder=".opencode",
        shape="plugin",
    ),
)
PLATFORMS: Final[Mapping[str, Platform]] = {known.name: known for known in _KNOWN}
"""`raw` has no file: whoever calls it has settings of their own."""


def target(platform: Platform, environ: Mapping[str, str], project: str | None) -> str:
    """The file that gets the entries: the user's, or with `project` that checkout's."""
    if project is not None:
        return os.path.join(project, platform.project_folder or platform.folder, platform.file)
    given = environ.get(platform.folder_variable, "")
    folder = os.path.join(home_dir(environ), platform.folder)
    if given.startswith("/"):
        folder = os.path.join(given, platform.below_variable)
    return os.path.join(folder, platform.file)


def ignored(platform: Platform, environ: Mapping[str, str]) -> str | None:
    """What to say of a folder in the environment that is not absolute, and so not used: the
    assistant would look for it below the folder that it happens to run in."""
    given = environ.get(platform.folder_variable, "")
    if not given or given.startswith("/"):
        return None
    return f"{platform.folder_variable} is not an absolute path ({given}): ignored"
