"""The last message of an earlier session, from Claude Code's transcripts.

A transcript is a file of JSON lines, `<session id>.jsonl`, in a folder for the directory that the
session was started in.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from claudemem_daemon.dependencies import Dependency, file_state
from claudemem_daemon.private import without_private
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Observation

TAIL_BYTES: Final = 4 << 20
"""Read from the end of a transcript: after its last message there may be pasted images."""
MAX_FILES: Final = 4
"""Transcripts written last that are read for one answer."""
SUFFIX: Final = ".jsonl"

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NewestFiles:
    """The transcripts of a folder that were written last, without the session's `own`."""

    folder: str
    own: str
    paths: tuple[str, ...]

    def holds(self) -> bool:
        return _newest(self.folder, self.own) == self.paths


class PriorMessage(NamedTuple):
    """`text` is empty where there is none."""

    text: str
    dependencies: tuple[Dependency, ...]


def prior_message(
    question: Question, observations: Sequence[Observation], environ: Mapping[str, str]
) -> PriorMessage:
    """The last assistant text of an earlier session in the same directory: of the session that wrote
    the newest observation, as in claude-mem, else of the transcript written last. Reads only regular
    files of that folder, and never waits for one. Never raises.
    """
    folder, own = _folder(question, environ)
    if folder is None:
        return PriorMessage("", ())
    dependencies: list[Dependency] = [file_state(folder)]
    named = _named(question.session_id, observations)
    if named and named != own:
        path = os.path.join(folder, named)
        dependencies.append(file_state(path))
        if text := last_assistant_text(path):
            return PriorMessage(text, tuple(dependencies))
    newest = NewestFiles(folder, own, _newest(folder, own))
    dependencies.append(newest)
    for path in newest.paths:
        dependencies.append(file_state(path))
        if text := last_assistant_text(path):
            return PriorMessage(text, tuple(dependencies))
    return PriorMessage("", tuple(dependencies))


def project_folder(cwd: str, config_dir: str) -> str:
    """The folder of the transcripts of sessions started in `cwd`. In its name each UTF-16 code unit of
    the path that is not an ASCII letter or digit is a dash."""
    name = "".join(
        sign if sign.isascii() and sign.isalnum() else "-" * (1 + (sign > "\uffff")) for sign in cwd
    )
    return os.path.join(config_dir, "projects", name)


def last_assistant_text(path: str) -> str:
    """The last one near the end of the file; empty where there is none."""
    for line in reversed(_tail(path).split(b"\n")):
        text = _assistant_text(line)
        if text:
            return text
    return ""


def without_reminders(text: str) -> str:
    """`text` without the reminders that Claude Code added for the model. One without an end reaches to
    the end of the text."""
    return _REMINDER.sub("", text)


def _folder(question: Question, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The folder, and the name of the running session's own transcript in it."""
    own = f"{question.session_id}{SUFFIX}" if question.session_id else ""
    given = question.transcript_path
    if given and os.path.isabs(given) and given.endswith(SUFFIX) and "\0" not in given:
        return os.path.split(given)
    if question.cwd is None:
        return None, own
    config = question.env.get("CLAUDE_CONFIG_DIR") or environ.get("CLAUDE_CONFIG_DIR", "")
    if not os.path.isabs(config):
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return None, own
        config = os.path.join(home, ".claude")
    return project_folder(question.cwd, config), own


def _named(session: str | None, observations: Sequence[Observation]) -> str:
    """The transcript of the newest row of another session; empty where its id names no file."""
    ids = (row.memory_session_id for row in observations if row.memory_session_id != session)
    name = next(ids, "")
    return f"{name}{SUFFIX}" if _ID.fullmatch(name) else ""


def _newest(folder: str, own: str) -> tuple[str, ...]:
    """The folder's transcripts that were written last, without the running session's and those of
    agents inside a session."""
    found: list[tuple[int, str]] = []
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not name.endswith(SUFFIX) or name.startswith("agent-") or name == own:
                continue
            # A file may vanish meanwhile.
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    return tuple(path for _, path in sorted(found, reverse=True)[:MAX_FILES])


def _tail(path: str) -> bytes:
    """The end of a regular file, from the beginning of a line; empty for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return b""
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            return b""
        start = max(0, seen.st_size - TAIL_BYTES)
        data = os.pread(handle, TAIL_BYTES, start)
        return data if start == 0 else data.partition(b"\n")[2]
    except OSError:
        return b""
    finally:
        os.close(handle)


def _assistant_text(line: bytes) -> str:
    if b'"assistant"' not in line:
        return ""
    try:
        # Numbers are not used, and one of more than 4,300 digits could not be read.
        shape: Any = json.loads(line.decode("utf-8", "replace"), parse_int=float)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(shape, dict) or shape.get("type") != "assistant":
        return ""
    message = shape.get("message")
    if shape.get("isSidechain") is True or not isinstance(message, dict):
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return _shown(content)
    if not isinstance(content, list):
        return ""
    texts = [
        part["text"]
        for part in content
        if isinstance(part, dict)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ]
    return _shown("\n".join(texts))


def _shown(text: str) -> str:
    return without_private(without_reminders(text)).strip()
