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


def of_silence(error: Unreachable) -> Headline:
    if error.trouble in ("not running", "stale socket"):
        detail = " (stale socket)" if error.trouble == "stale socket" else ""
        return Headline(
            error.trouble,
            f"not running{detail}",
            "claudemem-daemon service install",
            3,
        )
    if error.trouble == "blocked":
        return Headline(
            "blocked",
            f"cannot tell: {error.message}",
            "let the sandbox reach this socket, or see whose it is",
            1,
        )
    if error.trouble == "other socket":
        return Headline(
            "other socket",
            f"cannot tell: {error.message}",
            "give this shell the daemon's CLAUDEMEM_DAEMON_SOCKET, or none",
            1,
        )
    if error.trouble == "unsafe":
        return Headline("unsafe", error.message, None, 1)
    return Headline("not answering", error.message, "claudemem-daemon stop", 1)


def _restart(shape: Mapping[str, Any]) -> str:
    if shape["process"]["started_by"] == "systemd":
        return "systemctl --user restart claudemem-daemon.service"
    if shape["process"]["started_by"] == "launchd":
        return "launchctl kickstart -k gui/$UID/io.github.claudemem-daemon"
    return "claudemem-daemon stop && claudemem-daemon start"
