"""What each assistant accepts on a hook's standard output, strictly. Pure."""

from __future__ import annotations

import json
from typing import Any

from claudemem_daemon.server.hooks.assistants import ASSISTANTS, Cap
from claudemem_daemon.server.hooks.model import HookCall, Kind


def cap_of(caller: str, kind: Kind | None) -> Cap:
    assistant = ASSISTANTS[caller]
    return assistant.agent_cap if kind == "agent" and assistant.agent_cap else assistant.cap


def write_output(call: HookCall, text: str, message: str = "") -> bytes:
    """The one JSON object that puts `text` in front of the model and `message` in front of the
    person; empty texts are nothing to print."""
    shape: dict[str, Any] = {}
    if text:
        shape = _context(call, text)
    if message and ASSISTANTS[call.caller].shows_message:
        shape["systemMessage"] = message
    if not shape:
        return ASSISTANTS[call.caller].nothing
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _context(call: HookCall, text: str) -> dict[str, Any]:
    if call.caller == "cursor":
        shape: dict[str, Any] = {"additional_context": text}
        if call.kind == "prompt":
            shape["continue"] = True
        return shape
    if call.caller == "copilot-cli":
        return {"additionalContext": text}
    return {"hookSpecificOutput": {"hookEventName": call.event, "additionalContext": text}}
