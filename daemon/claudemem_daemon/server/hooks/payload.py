"""The payload an assistant sends to its hook, read leniently. Pure.

Cursor, VS Code and Copilot CLI also run the hooks in Claude Code's settings, with input of their
own shape; so the input decides who called, and the entry's name only where it does not tell.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from claudemem_daemon.local import HERE
from claudemem_daemon.server.hooks.assistants import ASSISTANTS
from claudemem_daemon.server.hooks.model import HookCall, SessionKey

Fields = Mapping[str, Any]

MAX_ROOTS: Final = 16
"""Folders of one Cursor workspace that are looked at."""
MAX_TEXT: Final = 65_536
"""Characters of one field."""

_OWN_FOLDER: Final = re.compile(
    r"/\.claude-mem/observer-sessions(/|$)|/plugins/cache/[^/]+/claude-mem(/|$)"
)


def parse_payload(body: bytes) -> Fields | None:
    """The hook's standard input as an object; None for anything else."""
    try:
        fields = json.loads(body.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def caller_of(entry: str, fields: Fields, env: Mapping[str, str]) -> str:
    """Who made this call. Claude Code's settings are run by others too, and Copilot CLI's by
    VS Code.

    Copilot CLI and VS Code write Claude Code's field names as well, with a `timestamp` that Claude
    Code never sends; of these two Copilot CLI says in its environment that it is there.
    """
    if entry not in ("claude-code", "copilot-cli"):
        return entry
    if "hookEventName" in fields and "sessionId" in fields:
        return "vscode"
    if entry == "copilot-cli":
        return entry
    if "cursor_version" in fields or ("conversation_id" in fields and "workspace_roots" in fields):
        return "cursor"
    if "hook_event_name" in fields:
        if "timestamp" not in fields:
            return entry
        return "copilot-cli" if env.get("COPILOT_CLI") else "vscode"
    return "copilot-cli" if "sessionId" in fields else entry


def read_payload(entry: str, fields: Fields, env: Mapping[str, str], home: str) -> HookCall:
    """The call in one shape; never raises, whatever the fields hold. `home` is what `~` means."""
    caller = caller_of(entry, fields, env)
    texts = {
        name: value[:MAX_TEXT] for name, value in fields.items() if isinstance(value, str) and value
    }
    event = _event(caller, fields, texts)
    named = [folder for folder in _folders(caller, fields, env) if folder not in (None, "")]
    # Whoever else runs a hook runs it in the session's folder; Cursor runs the user's own in
    # `~/.cursor`.
    guessed = not named and caller != "cursor"
    if guessed:
        named = [env.get(HERE)]
    # An agent inside a session may work in a temporary folder, which is in no repository.
    if named:
        named.append(env.get(ASSISTANTS[caller].folder) or env.get("CLAUDE_PROJECT_DIR"))
    folders = [folder for name in named if (folder := _folder(name, home)) is not None]
    session = texts.get("session_id") or texts.get("sessionId") or texts.get("conversation_id")
    if caller == "cursor":
        session = texts.get("conversation_id") or session or texts.get("generation_id")
    session_id = _id(session)
    agent_id = _id(texts.get("agent_id") or texts.get("agentId"))
    prompt = texts.get("prompt", "")
    return HookCall(
        caller=caller,
        event=event,
        kind=ASSISTANTS[caller].events.get(event),
        source=texts.get("source", ""),
        session_id=session_id,
        key=_key(caller, session_id, agent_id),
        folders=tuple(dict.fromkeys(folders)),
        guessed=guessed,
        transcript_path=_folder(texts.get("transcript_path") or texts.get("transcriptPath"), home),
        turn=_id(texts.get("generation_id") or texts.get("prompt_id") or texts.get("turn_id")),
        prompt=hash(prompt),
        idle=_seconds(fields.get("seconds_since_last_response")),
        # What Claude Code submits by itself when a background task ends is nobody's prompt.
        skipped=prompt.lstrip().startswith("<task-notification>") or _claude_mems_own(folders, env),
    )


def _key(caller: str, session_id: str | None, agent_id: str | None) -> SessionKey | None:
    """Copilot CLI sends the start of an agent under the session that it is in and the agent's prompts
    under a session of its own, each with the same agent id."""
    if caller == "copilot-cli" and agent_id is not None:
        return caller, agent_id, ""
    return None if session_id is None else (caller, session_id, agent_id or "")


def _claude_mems_own(folders: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether claude-mem itself runs this session, to observe others: it says so in the
    environment, or works in a folder of its own."""
    if env.get("CLAUDE_MEM_INTERNAL", "").strip().lower() not in ("", "0", "false"):
        return True
    return bool(folders) and _OWN_FOLDER.search(folders[0]) is not None


def _event(caller: str, fields: Fields, texts: Mapping[str, str]) -> str:
    named = texts.get("hook_event_name") or texts.get("hookEventName") or texts.get("event")
    if named is not None:
        return named
    if caller == "copilot-cli":
        # Its input does not name the event.
        if "prompt" in fields:
            return "userPromptSubmitted"
        if "trigger" in fields:
            return "preCompact"
        if "agentName" in fields or "agentId" in fields:
            return "subagentStart"
        return "sessionStart" if "toolName" not in fields else "tool"
    if caller == "raw":
        return "UserPromptSubmit" if "prompt" in fields else "SessionStart"
    return ""


def _folders(caller: str, fields: Fields, env: Mapping[str, str]) -> list[object]:
    cwd = fields.get("cwd")
    if caller == "cursor":
        roots = fields.get("workspace_roots")
        listed = roots[:MAX_ROOTS] if isinstance(roots, list) else []
        return [*listed, cwd, None if listed else env.get("CURSOR_PROJECT_DIR")]
    if caller == "gemini-cli":
        return [cwd or env.get("GEMINI_CWD") or env.get("GEMINI_PROJECT_DIR")]
    return [cwd]


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


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)


def _id(text: str | None) -> str | None:
    """An id, as something that a query can take as a parameter."""
    return text[:256].encode("utf-8", "replace").decode() if text is not None else None
