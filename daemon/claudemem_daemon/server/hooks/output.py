"""What each assistant accepts on a hook's standard output, strictly. Pure."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from claudemem_daemon.context.budget import Unit
from claudemem_daemon.server.hooks.model import HookCall, Kind


class Cap(NamedTuple):
    """The longest text that reaches the model whole; None = no limit known. The text is what is
    counted, before JSON escapes it."""

    most: int | None
    unit: Unit = "utf16"


CAPS: Final[dict[str, Cap]] = {
    "claude-code": Cap(10_000),
    "codex": Cap(10_000, "bytes"),
    "cursor": Cap(10_000),
    "gemini-cli": Cap(None),
    # The most that was seen to arrive.
    "copilot-cli": Cap(60_000, "bytes"),
    "vscode": Cap(10_000),
    "opencode": Cap(None),
    "raw": Cap(None),
}

COPILOT_AGENT: Final = Cap(20_000, "bytes")

SHOWS_MESSAGES: Final = frozenset({"claude-code", "codex", "gemini-cli"})
"""Assistants that show `systemMessage` to the person at the keyboard."""


def cap_of(caller: str, kind: Kind | None) -> Cap:
    if caller == "copilot-cli" and kind == "agent":
        return COPILOT_AGENT
    return CAPS[caller]


def write_output(call: HookCall, text: str, message: str = "") -> bytes:
    """The one JSON object that puts `text` in front of the model and `message` in front of the
    person; empty texts are nothing to print."""
    shape: dict[str, Any] = {}
    if text:
        shape = _context(call, text)
    if message and call.caller in SHOWS_MESSAGES:
        shape["systemMessage"] = message
    if not shape:
        return no_output(call.caller)
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


def no_output(caller: str) -> bytes:
    """Gemini CLI reads standard error when a hook prints nothing."""
    return b"{}" if caller == "gemini-cli" else b""
