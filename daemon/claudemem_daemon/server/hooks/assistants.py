"""The assistants that run our hooks: in what they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from claudemem_daemon.context.budget import Unit
from claudemem_daemon.server.hooks.model import Kind


class Cap(NamedTuple):
    """The longest text that reaches the model whole; None = no limit known. The text is what is
    counted, before JSON escapes it."""

    most: int | None = None
    unit: Unit = "utf16"


class Assistant(NamedTuple):
    """
    events         those that mean something to us; at all others it gets nothing
    cap            of one context; agent_cap: where an agent inside a session gets less
    replays        whether it shows the model again, on resume and fork, what the session was told
    shows_message  whether it shows `systemMessage` to the person at the keyboard
    folder         the variable that names the project's folder
    nothing        what a hook prints that has nothing to say
    """

    events: Mapping[str, Kind]
    cap: Cap = Cap()
    agent_cap: Cap | None = None
    replays: bool = False
    shows_message: bool = False
    folder: str = "CLAUDE_PROJECT_DIR"
    nothing: bytes = b""


_CLAUDE_CODE: Final[Mapping[str, Kind]] = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "SubagentStart": "agent",
}
_CURSOR: Final[Mapping[str, Kind]] = {
    "sessionStart": "start",
    "beforeSubmitPrompt": "prompt",
    # In Claude Code's settings, which it runs too.
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
}
_GEMINI: Final[Mapping[str, Kind]] = {
    "SessionStart": "start",
    "BeforeAgent": "prompt",
    "PreCompress": "forget",
}
_COPILOT: Final[Mapping[str, Kind]] = {
    **_CLAUDE_CODE,
    "PreCompact": "forget",
    "sessionStart": "start",
    "userPromptSubmitted": "prompt",
    "subagentStart": "agent",
    "preCompact": "forget",
}

ASSISTANTS: Final[Mapping[str, Assistant]] = {
    "claude-code": Assistant(_CLAUDE_CODE, Cap(10_000), replays=True, shows_message=True),
    "codex": Assistant(_CLAUDE_CODE, Cap(10_000, "bytes"), replays=True, shows_message=True),
    "cursor": Assistant(_CURSOR, Cap(10_000), folder="CURSOR_PROJECT_DIR"),
    # It reads standard error when a hook prints nothing.
    "gemini-cli": Assistant(
        _GEMINI, shows_message=True, folder="GEMINI_PROJECT_DIR", nothing=b"{}"
    ),
    # The most that was seen to arrive.
    "copilot-cli": Assistant(_COPILOT, Cap(60_000, "bytes"), Cap(20_000, "bytes")),
    "vscode": Assistant({"SessionStart": "start"}, Cap(10_000)),
    # Its plugin is ours, and so are the events' names.
    "opencode": Assistant(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "forget"},
        replays=True,
    ),
    "raw": Assistant({**_COPILOT, **_CURSOR, **_GEMINI}),
}
"""By who called, which may be another one than whose settings have the entry."""
