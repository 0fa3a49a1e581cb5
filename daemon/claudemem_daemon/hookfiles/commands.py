"""The command line that an entry runs, written so that it can fail without being noticed. Pure."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from claudemem_daemon import hook

MARK: Final = "claudemem-daemon"
"""In every command of ours; how an entry is known again, whatever version wrote it."""


_OURS: Final = re.compile(rf"{MARK}['\"]* hook [a-z]|/v1/hooks/[a-z].*{MARK}", re.DOTALL)


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
    path = shlex.quote(hook.socket_path(environ))
    return (
        f"curl -q -sf --max-time 2 --unix-socket {path} --data-binary @-"
        f" http://localhost/v1/hooks/{platform} 2>/dev/null || true # {MARK}"
    )


def is_ours(command: object) -> bool:
    """Whether an entry's command was written by `hooks install`, in this version or another."""
    return isinstance(command, str) and _OURS.search(command) is not None
