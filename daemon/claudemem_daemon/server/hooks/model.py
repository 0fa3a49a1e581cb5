"""One call of a hook, whoever made it, and what goes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["start", "prompt", "subagent"]


@dataclass(frozen=True, slots=True)
class HookCall:
    """What an assistant said, in one shape.

    caller   who really called: an entry of one assistant may be run by another
    event    the event's name as the caller spells it; kind: what it is for us, None for one that
             cannot take context
    guessed  whether the caller named no folder, and `cwd` is where its hook ran
    occasion what tells one prompt of a session from the next, for entries that fire twice
    """

    caller: str
    event: str
    kind: Kind | None
    session_id: str | None
    agent_id: str | None
    cwd: str | None
    guessed: bool
    project_dir: str | None
    transcript_path: str | None
    occasion: str
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`body` is what the hook prints, one JSON object or nothing; the rest is for `status`."""

    body: bytes
    detail: str
    event: str
    cwd: str | None
    status: int = 200
