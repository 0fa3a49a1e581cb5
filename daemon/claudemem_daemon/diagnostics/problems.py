"""What is wrong, each with a code for scripts, a sentence for people and what to do. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import setting_fix, store_fix


def find_problems(status: Mapping[str, Any]) -> tuple[Finding, ...]:
    """All problems of the daemon in its status, the worst first."""
    found = (
        *_package(status),
        *_settings(status),
        *_stores(status),
        *_process(status),
        *_names(status),
    )
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def _package(status: Mapping[str, Any]) -> Iterator[Finding]:
    installed = status["installed_version"]
    if not installed:
        sentence = "the package's files are gone under the running daemon"
        yield Finding("package_gone", "warning", sentence, "install it again, then restart it")
    elif installed != status["version"]:
        sentence = f"version {status['version']} is running, {installed} is installed"
        yield Finding("needs_restart", "warning", sentence, _RESTART)


def _settings(status: Mapping[str, Any]) -> Iterator[Finding]:
    rejected = status["configuration"].get("rejected")
    if rejected:
        about = {
            "code": "settings_rejected",
            "path": str(status["configuration"].get("path") or ""),
            "message": str(rejected["reason"]),
        }
        yield Finding("settings_rejected", "warning", about["message"], setting_fix(about))
    for warning in status["configuration"].get("warnings", ()):
        if warning["code"] not in ("settings_rejected", "store_untrusted"):
            yield Finding(warning["code"], "warning", warning["message"], setting_fix(warning))


def _stores(status: Mapping[str, Any]) -> Iterator[Finding]:
    for store in status["stores"]:
        if not store["ok"]:
            path = str(store.get("path", ""))
            own = os.path.dirname(path) == status["configuration"].get("data_dir")
            fix = store_fix(path, store["reason"], own=own)
            yield Finding(f"store_{store['reason']}", "warning", str(store["error"]), fix)


def _process(status: Mapping[str, Any]) -> Iterator[Finding]:
    problem, mode = status["watcher"].get("problem"), status["socket"]["mode"]
    stuck = status["requests"]["stuck_workers"]
    if problem:
        yield Finding(
            "watcher",
            "note",
            f"{problem}: settings.json is read with every request instead",
            "nothing is lost; raising fs.inotify.max_user_watches brings watches back",
        )
    if mode is not None and mode & 0o077:
        sentence = f"the socket has mode {mode:04o}"
        yield Finding("socket_mode", "error", sentence, _RESTART)
    if stuck:
        yield Finding(
            "stuck",
            "warning",
            f"{stuck} questions wait for a file system that does not answer",
            "see which of the stores above is on a network share",
        )


def _names(status: Mapping[str, Any]) -> Iterator[Finding]:
    names = Counter(
        repository["name"] for repository in status["repositories"] if repository["common_dir"]
    )
    for name, count in sorted(names.items()):
        if count > 1:
            yield Finding(
                "ambiguous_key",
                "note",
                f"key {name!r} is used by {count} repositories seen here; their rows are told apart"
                " by the paths in them",
                "give each its own store by CLAUDE_MEM_DAEMON_STORES to be sure",
            )


_RESTART = (
    "restart it: systemctl --user restart claudemem-daemon, or `claudemem-daemon stop` and start it"
    " again"
)
