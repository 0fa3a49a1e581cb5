"""OpenCode has no hooks but plugins: one JavaScript file that runs the line of an entry. Pure."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Final

_HEAD: Final = "// Written by `claudemem-daemon hooks install opencode`, "


def plugin_text(command: str) -> str:
    """The plugin that runs `command`. Its first line tells whether somebody changed it."""
    source = resources.files(__package__).joinpath("plugin.js").read_text(encoding="utf-8")
    body = source.replace('"@COMMAND@"', json.dumps(command))
    return f"{_HEAD}{_digest(body)}\n{body}"


def is_our_plugin(text: str) -> bool:
    """Whether this is what some version of ours wrote, and nothing in it was changed."""
    head, _, body = text.partition("\n")
    return head == f"{_HEAD}{_digest(body)}"


def command_of(text: str) -> str | None:
    """The command of a plugin; None where it is not ours."""
    _, _, rest = text.partition("const COMMAND = ")
    if not is_our_plugin(text) or not rest.startswith('"'):
        return None
    command: str = json.JSONDecoder().raw_decode(rest)[0]
    return command


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
