"""How the daemon is, in one line, and what is wrong with it, each with what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from claudemem_daemon import __version__
from claudemem_daemon.client import Unreachable
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import setting_fix, store_fix


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


def find_problems(status: Mapping[str, Any]) -> tuple[Finding, ...]:
    """All problems of the daemon in its status, the worst first."""
    found = (*of_process(status), *_settings(status), *_stores(status), *_names(status))
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda problem: order.index(problem.severity)))


def _settings(status: Mapping[str, Any]) -> Iterator[Finding]:
    configuration = status["configuration"]
    rejected = configuration.get("rejected")
    if rejected:
        path, message = str(configuration.get("path") or ""), str(rejected["reason"])
        yield _of_warning({"code": "settings_rejected", "path": path, "message": message})
    for warning in configuration.get("warnings", ()):
        if warning["code"] not in ("settings_rejected", "store_untrusted"):
            yield _of_warning(warning)


def _of_warning(warning: Mapping[str, str]) -> Finding:
    return Finding(warning["code"], warning["message"], setting_fix(warning))


def _stores(status: Mapping[str, Any]) -> Iterator[Finding]:
    for store in status["stores"]:
        if not store["ok"]:
            path = str(store.get("path", ""))
            fix = store_fix(path, store["reason"], status["configuration"].get("data_dir"))
            yield Finding(f"store_{store['reason']}", str(store["error"]), fix)


def of_process(status: Mapping[str, Any]) -> Iterator[Finding]:
    version, installed = status["version"], status["installed_version"]
    mode, watcher = status["socket"]["mode"], status["watcher"].get("problem")
    stuck = status["requests"]["stuck_workers"]
    if not installed:
        sentence = "the package's files are gone under the running daemon"
        yield Finding("package_gone", sentence, "install it again, then restart it")
    elif installed != version:
        sentence = f"version {version} is running, {installed} is installed"
        yield Finding("needs_restart", sentence, restart(status))
    if mode is not None and mode & 0o077:
        yield Finding("socket_mode", f"the socket has mode {mode:04o}", restart(status), "error")
    if stuck:
        waits = "question waits" if stuck == 1 else "questions wait"
        sentence = f"{stuck} {waits} for a file system that does not answer"
        yield Finding("stuck", sentence, "see which of the stores above is on a network share")
    if watcher:
        sentence = f"{watcher}: settings.json is read with every request instead"
        fix = "nothing is lost; raising fs.inotify.max_user_watches brings watches back"
        yield Finding("watcher", sentence, fix, "note")


def _names(status: Mapping[str, Any]) -> Iterator[Finding]:
    names = Counter(
        repository["name"] for repository in status["repositories"] if repository["common_dir"]
    )
    for name, count in sorted(names.items()):
        if count > 1:
            sentence = (
                f"key {name!r} is used by {count} repositories seen here; their rows are told apart"
                " by the paths in them"
            )
            fix = "give each its own store by CLAUDE_MEM_DAEMON_STORES to be sure"
            yield Finding("ambiguous_key", sentence, fix, "note")
