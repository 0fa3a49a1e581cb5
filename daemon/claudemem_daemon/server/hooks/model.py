"""One call of a hook, whoever made it, and what goes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from claudemem_daemon.dependencies import INCOMPLETE, Dependency

Kind = Literal["start", "prompt", "agent", "forget"]
"""`agent` is the start of an agent inside a session; `forget` is an event after which the model no
longer has what it was told: a compaction that no session start follows."""

SessionKey = tuple[str, str, str]
"""Assistant, session id, agent id."""


class HookCall(NamedTuple):
    """What an assistant said, in one shape.

    caller   who really called: an entry of one assistant may be run by another
    event    the event's name as the caller spells it; kind: what it is for us, None for one that
             cannot take context
    source   why a session starts: startup, resume, clear, compact, fork, new; empty elsewhere
    key      whose memory of what was told this call belongs to; None for nobody's
    folders  candidates for the project's folder, the likeliest first; empty where none is usable
    guessed  whether the caller named no folder, and the first one is where its hook ran
    idle     seconds since the model's last answer in this session or the one it was forked from
    turn     the assistant's id of this prompt, None where it sends none; prompt: a hash of its text
    """

    caller: str
    event: str
    kind: Kind | None
    source: str
    session_id: str | None
    key: SessionKey | None
    folders: tuple[str, ...]
    guessed: bool
    transcript_path: str | None
    turn: str | None
    prompt: int
    idle: float | None = None
    skipped: bool = False

    @property
    def cwd(self) -> str | None:
        return self.folders[0] if self.folders else None

    @property
    def silent(self) -> bool:
        """Whether it gets nothing, whatever its session was told."""
        nowhere = self.cwd is None and self.kind != "forget"
        return self.kind is None or self.skipped or nowhere


class Mark(NamedTuple):
    """How far a session was told of one store: its highest observation id then, and which file or
    database it was."""

    highest: int
    file: tuple[int | str, ...] | None


Marks = Mapping[str, Mark]
"""Store path -> how far."""


class HookAnswer(NamedTuple):
    """`body` is what the hook prints, one JSON object or nothing; `cwd` the folder it is about.

    marks   how far the session has been told once this answer has arrived; None changes nothing
    whole   a digest of the text, where it is a whole context and not news
    dependencies
            while they hold, it is the answer to every call of the same `answer_key`
    """

    body: bytes
    cwd: str | None = None
    marks: Marks | None = None
    whole: str = ""
    dependencies: tuple[Dependency, ...] = (INCOMPLETE,)
