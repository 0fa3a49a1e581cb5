"""The command line that an entry runs, written so that it can fail without being noticed. Pure."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from claudemem_daemon import local

MARK: Final = "claudemem-daemon"
"""The program's name; the end of every curl line of ours."""

_PYTHON: Final = (
    r"\[ -x (?P<word>.+) \] && (?P=word) hook (?P<platform>[a-z-]+)( 2>/dev/null)? \|\| true"
)
_CURL: Final = (
    r"curl( -q)? -sf --max-time [0-9]+ --unix-socket (?P<word>.+) --data-binary @-"
    rf" http://localhost/v1/hooks/(?P<platform>[a-z-]+) 2>/dev/null \|\| true # {MARK}"
)
_LINES: Final = tuple(re.compile(line, re.DOTALL) for line in (_PYTHON, _CURL))
"""All that `hooks install` ever wrote, in this version and those before; a line that is changed
below leaves its old form here."""

_RUNS_US: Final = re.compile(rf"\b{MARK}['\"]* hook [a-z]|/v1/hooks/[a-z]", re.DOTALL)


def launcher(environ: Mapping[str, str], argv0: str) -> str:
    """The program as the user calls it: a stable link on the PATH, never what it points to, for
    that changes with the next upgrade."""
    if os.path.isabs(argv0) and os.path.basename(argv0) == MARK:
        return argv0
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, MARK)
        if os.path.isabs(path) and os.access(path, os.X_OK):
            return path
    beside = os.path.join(os.path.dirname(sys.executable), MARK)
    if os.access(beside, os.X_OK) or os.path.basename(argv0) != MARK:
        return beside
    return os.path.abspath(argv0)


def python_line(platform: str, program: str) -> str:
    """Runs the program if it is there; a machine where it was removed prints nothing, exits 0, and
    no prompt waits. Gemini CLI reads standard error when nothing is printed, so that is closed;
    Codex runs the user's own shell, and csh would take `2>` for an argument and a redirection."""
    quoted = shlex.quote(program)
    quiet = "" if platform == "codex" else " 2>/dev/null"
    return f"[ -x {quoted} ] && {quoted} hook {platform}{quiet} || true"


def curl_line(platform: str, environ: Mapping[str, str]) -> str:
    """The same with curl alone. `--max-time` is the deadline, `-f` keeps an error's text to itself,
    `-q` leaves a .curlrc alone that would print more."""
    path = shlex.quote(local.socket_path(environ))
    return (
        f"curl -q -sf --max-time 2 --unix-socket {path} --data-binary @-"
        f" http://localhost/v1/hooks/{platform} 2>/dev/null || true # {MARK}"
    )


def is_ours(command: object, platform: str) -> bool:
    """Whether `hooks install PLATFORM` wrote exactly this, in this version or another. Whatever
    somebody wrote around it or in its manner is theirs."""
    if not isinstance(command, str):
        return False
    for line in _LINES:
        found = line.fullmatch(command)
        if found is not None:
            return found["platform"] == platform and _is_one_path(found["word"])
    return False


def runs_us(command: object) -> bool:
    """Whether a command asks us for context, whoever wrote it; for a word to the user alone."""
    return isinstance(command, str) and _RUNS_US.search(command) is not None


def _is_one_path(word: str) -> bool:
    """An absolute path as `python_line` and `curl_line` quote it."""
    try:
        words = shlex.split(word)
    except ValueError:
        return False
    return len(words) == 1 and os.path.isabs(words[0]) and shlex.quote(words[0]) == word
