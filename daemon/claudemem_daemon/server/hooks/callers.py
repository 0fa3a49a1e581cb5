"""What each assistant sends, read leniently. Pure.

Cursor, VS Code and Copilot CLI also run the hooks in Claude Code's settings, with input of their
own shape; so the input decides who called, and the entry's name only where it does not tell.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from claudemem_daemon.hook import HERE
from claudemem_daemon.server.hooks.model import HookCall, Kind

Fields = Mapping[str, Any]

KINDS: Final[Mapping[str, Kind]] = {
    "SessionStart": "start",
    "sessionStart": "start",
    "UserPromptSubmit": "prompt",
    "userPromptSubmitted": "prompt",
    "beforeSubmitPrompt": "prompt",
    "BeforeAgent": "prompt",
    "SubagentStart": "subagent",
    "subagentStart": "subagent",
}

TAKES: Final[Mapping[str, frozenset[str]]] = {
    "claude-code": frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"}),
    "codex": frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"}),
    "cursor": frozenset({"sessionStart", "beforeSubmitPrompt"}),
    "gemini-cli": frozenset({"SessionStart", "BeforeAgent"}),
    "copilot-cli": frozenset(
        {"sessionStart", "subagentStart", "userPromptSubmitted", "SessionStart", "SubagentStart",
         "UserPromptSubmit"}
    ),
    "vscode": frozenset({"SessionStart"}),
    "raw": frozenset(KINDS),
}  # fmt: skip
"""The events at which an assistant takes context; at all others it gets nothing."""

_RUN_WHERE_THEY_ARE: Final = frozenset(TAKES) - {"cursor"}
"""Who runs a hook in the session's folder; Cursor runs the user's own in `~/.cursor`."""


def parse(body: bytes) -> Fields | None:
    """The hook's standard input as an object; None for anything else."""
    try:
        fields = json.loads(body.decode("utf-8-sig", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def caller_of(entry: str, fields: Fields, env: Mapping[str, str]) -> str:
    """Who made this call. Only Claude Code's settings are run by others too.

    Copilot CLI and VS Code write Claude Code's field names as well, with a `timestamp` that Claude
    Code never sends; of these two Copilot CLI says in its environment that it is there.
    """
    if entry != "claude-code":
        return entry
    if "cursor_version" in fields or ("conversation_id" in fields and "workspace_roots" in fields):
        return "cursor"
    if "hook_event_name" in fields:
        if "timestamp" not in fields:
            return entry
        return "copilot-cli" if env.get("COPILOT_CLI") else "vscode"
    if "sessionId" in fields:
        return "vscode" if "hookEventName" in fields else "copilot-cli"
    return entry


def read_call(entry: str, fields: Fields, env: Mapping[str, str], home: str) -> HookCall:
    """The call in one shape; never raises, whatever the fields hold. `home` is what `~` means."""
    caller = caller_of(entry, fields, env)
    event = _event(caller, fields)
    kind = KINDS.get(event) if event in TAKES.get(caller, ()) else None
    prompt = _text(fields, "prompt") or ""
    named = _cwd(caller, fields, env)
    guessed = named in (None, "") and caller in _RUN_WHERE_THEY_ARE
    return HookCall(
        caller=caller,
        event=event,
        kind=kind,
        session_id=_name(_session(caller, fields)),
        agent_id=_name(_text(fields, "agent_id", "agentId")),
        cwd=_folder(env.get(HERE) if guessed else named, home),
        guessed=guessed,
        project_dir=_folder(_project_dir(caller, env), home),
        transcript_path=_folder(_text(fields, "transcript_path", "transcriptPath"), home),
        occasion=_name(_text(fields, "generation_id", "prompt_id", "turn_id"))
        or hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        # What Claude Code submits by itself when a background task ends is nobody's prompt.
        skipped=prompt.lstrip().startswith("<task-notification>"),
    )


def _event(caller: str, fields: Fields) -> str:
    named = _text(fields, "hook_event_name", "hookEventName", "event")
    if named is not None:
        if caller == "cursor":
            return {"SessionStart": "sessionStart", "UserPromptSubmit": "beforeSubmitPrompt"}.get(
                named, named
            )
        return named
    if caller == "copilot-cli":
        # Its input does not name the event.
        if "prompt" in fields:
            return "userPromptSubmitted"
        if "agentName" in fields or "agentId" in fields:
            return "subagentStart"
        return "sessionStart" if "toolName" not in fields else "tool"
    if caller == "raw":
        return "UserPromptSubmit" if "prompt" in fields else "SessionStart"
    return ""


def _session(caller: str, fields: Fields) -> str | None:
    if caller == "cursor":
        return _text(fields, "conversation_id", "session_id", "generation_id")
    return _text(fields, "session_id", "sessionId", "conversation_id")


def _cwd(caller: str, fields: Fields, env: Mapping[str, str]) -> object:
    if caller == "cursor":
        roots = fields.get("workspace_roots")
        first = roots[0] if isinstance(roots, list) and roots else None
        return first or fields.get("cwd") or env.get("CURSOR_PROJECT_DIR")
    if caller == "gemini-cli":
        return fields.get("cwd") or env.get("GEMINI_CWD") or env.get("GEMINI_PROJECT_DIR")
    return fields.get("cwd")


def _project_dir(caller: str, env: Mapping[str, str]) -> str | None:
    names = {"cursor": "CURSOR_PROJECT_DIR", "gemini-cli": "GEMINI_PROJECT_DIR"}
    return env.get(names.get(caller, "CLAUDE_PROJECT_DIR")) or env.get("CLAUDE_PROJECT_DIR")


def _folder(value: object, home: str) -> str | None:
    """An absolute path that can exist, or None: nothing is ever resolved against our own."""
    if not isinstance(value, str) or "\0" in value:
        return None
    if value == "~" or value.startswith("~/"):
        value = home + value[1:]
    if not value.startswith("/") or len(value) >= 8192:
        return None
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        # JSON can spell half a character; no file system can.
        return None
    return value


def _text(fields: Fields, *names: str) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value[:65536]
    return None


def _name(text: str | None) -> str | None:
    """An id, as something that a query can take as a parameter."""
    return text[:256].encode("utf-8", "replace").decode() if text is not None else None
