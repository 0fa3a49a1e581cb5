"""The last words of the session before this one, from Claude Code's own transcript."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.evidence import Evidence, look

TAIL_BYTES: Final = 256 << 10
"""Of a transcript; the last message lies at its end."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(</system-reminder>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PriorMessage:
    """`text` is empty where there is none; the evidence says what was looked at."""

    text: str
    evidence: tuple[Evidence, ...]


def prior_message(
    env: Mapping[str, str],
    home: str,
    cwd: str | None,
    transcript_path: str | None,
    sessions: Iterator[str],
) -> PriorMessage:
    """The last assistant text of an earlier session in this folder.

    With the path of the running session's transcript: its newest sibling. Else the transcript that
    `sessions` (ids from the store, newest first) name in the project's folder below the
    assistant's. Only plain names are taken, so that no store can point elsewhere.
    """
    if transcript_path and transcript_path.startswith("/") and "\0" not in transcript_path:
        folder, own = os.path.split(transcript_path)
        return _newest(folder, own)
    if cwd is None:
        return PriorMessage("", ())
    root = env.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    folder = os.path.join(root, "projects", re.sub(r"[^A-Za-z0-9]", "-", cwd))
    evidence: list[Evidence] = []
    for session in sessions:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", session):
            continue
        path = os.path.join(folder, f"{session}.jsonl")
        evidence.append(look(path))
        text = _last_text(path)
        if text:
            return PriorMessage(text, tuple(evidence))
    return PriorMessage("", tuple(evidence))


def _newest(folder: str, own: str) -> PriorMessage:
    try:
        with os.scandir(folder) as entries:
            found = [
                (one.stat(follow_symlinks=False).st_mtime_ns, one.path)
                for one in entries
                if one.name.endswith(".jsonl")
                and one.name != own
                and one.is_file(follow_symlinks=False)
            ]
    except OSError:
        return PriorMessage("", (look(folder),))
    for _, path in sorted(found, reverse=True)[:5]:
        text = _last_text(path)
        if text:
            return PriorMessage(text, (look(folder), look(path)))
    return PriorMessage("", (look(folder),))


def _last_text(path: str) -> str:
    for line in reversed(_tail(path).split(b"\n")):
        text = _assistant_text(line)
        if text:
            return text
    return ""


def _tail(path: str) -> bytes:
    """The end of a regular file; never waits for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            return b""
        return os.pread(handle, TAIL_BYTES, max(0, seen.st_size - TAIL_BYTES))
    except OSError:
        return b""
    finally:
        os.close(handle)


def _assistant_text(line: bytes) -> str:
    if b'"assistant"' not in line:
        return ""
    try:
        shape: Any = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(shape, dict) or shape.get("type") != "assistant":
        return ""
    message = shape.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        return ""
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ]
    return _REMINDER.sub("", "\n".join(texts)).strip()
