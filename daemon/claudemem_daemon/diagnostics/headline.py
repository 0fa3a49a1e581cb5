"""The first line of `status`, and the one command to run next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claudemem_daemon import __version__
from claudemem_daemon.client import Unreachable


@dataclass(frozen=True, slots=True)
class Headline:
    """`state` is a word for scripts; `exit_code` what `status` exits with."""

    state: str
    sentence: str
    next: str | None
    exit_code: int


def of_answer(shape: Mapping[str, Any]) -> Headline:
    pid = shape["process"]["pid"]
    if shape["version"] != __version__:
        return Headline(
            "needs restart",
            f"running, needs restart (daemon {shape['version']}, this command {__version__})",
            _restart(shape),
            1,
        )
    if shape["status"] == "ok":
        return Headline("running", f"running (pid {pid}, version {shape['version']})", None, 0)
    first = shape["problems"][0] if shape["problems"] else None
    return Headline(
        "degraded",
        f"running, degraded (pid {pid}): {first['sentence'] if first else 'see below'}",
        first["fix"] if first else None,
        1,
    )


_SILENCE = {
    "not running": ("not running", "claudemem-daemon {start}", 3),
    "stale socket": ("not running (stale socket)", "claudemem-daemon {start}", 3),
    "blocked": (
        "cannot tell: {message}",
        "let the sandbox reach this socket, or see whose it is",
        1,
    ),
    "other socket": (
        "cannot tell: {message}",
        "give this shell the daemon's CLAUDEMEM_DAEMON_SOCKET, or none",
        1,
    ),
    "unsafe": ("{message}", None, 1),
}


def of_silence(error: Unreachable, *, managed: bool) -> Headline:
    """`managed`: the user has a service manager."""
    stop = f"kill -9 {error.pid}" if error.pid else "claudemem-daemon stop"
    sentence, command, exit_code = _SILENCE.get(error.trouble, ("{message}", stop, 1))
    state = error.trouble if error.trouble in _SILENCE else "not answering"
    if command is not None:
        command = command.format(start="service install" if managed else "start")
    return Headline(state, sentence.format(message=error.message), command, exit_code)


def _restart(shape: Mapping[str, Any]) -> str:
    if shape["process"]["started_by"] == "systemd":
        return "systemctl --user restart claudemem-daemon.service"
    if shape["process"]["started_by"] == "launchd":
        return "launchctl kickstart -k gui/$UID/io.github.claudemem-daemon"
    return "claudemem-daemon stop && claudemem-daemon start"
