"""What each assistant accepts on a hook's standard output, strictly. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.context.budget import Unit, size
from claudemem_daemon.server.hooks.model import HookCall


@dataclass(frozen=True, slots=True)
class Cap:
    """How much an assistant takes before it replaces the text by a stub; None = no limit known.
    Counted over the whole output, which is more than what the assistant counts."""

    most: int | None
    unit: Unit = "utf16"


CAPS: Final[dict[str, Cap]] = {
    "claude-code": Cap(10_000),
    "codex": Cap(10_000, "bytes"),
    "cursor": Cap(10_000),
    "gemini-cli": Cap(None),
    "copilot-cli": Cap(10_000, "bytes"),
    "vscode": Cap(10_000),
    "raw": Cap(None),
}


def wrap(call: HookCall, text: str) -> bytes:
    """The one JSON object that puts `text` in front of the model; empty text is nothing to print."""
    if not text:
        return nothing(call.caller)
    shape: dict[str, Any]
    if call.caller == "cursor":
        shape = {"additional_context": text}
        if call.kind == "prompt":
            shape["continue"] = True
    elif call.caller == "copilot-cli":
        shape = {"additionalContext": text}
    else:
        shape = {"hookSpecificOutput": {"hookEventName": call.event, "additionalContext": text}}
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def nothing(caller: str) -> bytes:
    """Gemini CLI reads standard error when a hook prints nothing."""
    return b"{}" if caller == "gemini-cli" else b""


def fitted(call: HookCall, render: Callable[[int | None, Unit], str]) -> bytes:
    """The wrapped text, rendered shorter until the whole output fits: escaping makes it longer than
    the text by an amount that only shows afterwards."""
    cap = CAPS[call.caller]
    if cap.most is None:
        return wrap(call, render(None, "utf16"))
    # The closing line break counts for an assistant that counts everything.
    room = cap.most - 1
    inner = room - size(wrap(call, "-").decode(), cap.unit)
    while inner > 0:
        text = render(inner, cap.unit)
        body = wrap(call, text)
        over = size(body.decode("utf-8", "replace"), cap.unit) - room
        if over <= 0:
            return body
        # From what was rendered, not from what was allowed: below that nothing would change.
        inner = min(inner, size(text, cap.unit)) - max(over, 16)
    return nothing(call.caller)
