"""The first line of `status`, and the one command to run next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from claudemem_daemon import __version__
from claudemem_daemon.client import Unreachable


class Headline(NamedTuple):
    """`next` is for the daemon alone; `exit_code` what `status` exits with."""

    sentence: str
    next: str | None
    exit_code: int


def of_answer(shape: Mapping[str, Any]) -> Headline:
    pid, version = shape["process"]["pid"], shape["version"]
    if version != __version__:
        sentence = f"running, needs restart (daemon {version}, this command {__version__})"
        return Headline(sentence, restart(shape), 1)
    if shape["status"] == "ok":
        return Headline(f"running (pid {pid}, version {version})", None, 0)
    return Headline(f"running, degraded (pid {pid}, version {version})", None, 1)


_START = "claudemem-daemon {start}"
_SILENCE: Final[Mapping[str, tuple[str, str | None, int]]] = {
    "not running": ("not running", _START, 3),
    "stale socket": ("not running (stale socket)", _START, 3),
    "blocked": ("cannot tell: {words}", "let the sandbox reach this socket, or see whose it is", 1),
    "other socket": (
        "cannot tell: {words}", "give this shell the daemon's CLAUDEMEM_DAEMON_SOCKET, or none", 1
    ),
    "unsafe": ("{words}", None, 1),
    "not answering": ("{words}", "{stop}", 1),
}  # fmt: skip
"""Trouble -> sentence, what to do, exit code."""


def of_silence(error: Unreachable, *, managed: bool) -> Headline:
    """`managed`: the user has a service manager."""
    sentence, command, exit_code = _SILENCE[error.trouble]
    stop = f"kill -9 {error.pid}" if error.pid else "claudemem-daemon stop"
    start = "service install" if managed else "start"
    following = None if command is None else command.format(start=start, stop=stop)
    return Headline(sentence.format(words=error.message), following, exit_code)


def restart(shape: Mapping[str, Any]) -> str:
    """The command that restarts the daemon of this status."""
    if shape["process"]["started_by"] == "systemd":
        return "systemctl --user restart claudemem-daemon.service"
    if shape["process"]["started_by"] == "launchd":
        return "launchctl kickstart -k gui/$UID/io.github.claudemem-daemon"
    return "claudemem-daemon stop && claudemem-daemon start"
