"""What is wrong, each with a code for scripts, a sentence for people and what to do. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from claudemem_daemon.diagnostics.fixes import setting_fix, store_fix

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """`severity`: error and warning make the daemon degraded, a note does not."""

    code: str
    severity: Severity
    sentence: str
    fix: str


def find_problems(status: Mapping[str, Any]) -> tuple[Problem, ...]:
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


def _package(status: Mapping[str, Any]) -> Iterator[Problem]:
    installed = status["installed_version"]
    if not installed:
        sentence = "the package's files are gone under the running daemon"
        yield Problem("package_gone", "warning", sentence, "install it again, then restart it")
    elif installed != status["version"]:
        sentence = f"version {status['version']} is running, {installed} is installed"
        yield Problem("needs_restart", "warning", sentence, _RESTART)


def _settings(status: Mapping[str, Any]) -> Iterator[Problem]:
    rejected = status["configuration"].get("rejected")
    if rejected:
        about = {
            "code": "settings_rejected",
            "path": str(status["configuration"].get("path") or ""),
        }
        reason = str(rejected["reason"])
        yield Problem("settings_rejected", "warning", reason, setting_fix(about))
    for warning in status["configuration"].get("warnings", ()):
        if warning["code"] not in ("settings_rejected", "store_untrusted"):
            yield Problem(warning["code"], "warning", warning["message"], setting_fix(warning))


def _stores(status: Mapping[str, Any]) -> Iterator[Problem]:
    for store in status["stores"]:
        if not store["ok"]:
            path = str(store.get("path", ""))
            own = os.path.dirname(path) == status["configuration"].get("data_dir")
            fix = store_fix(path, store["reason"], own=own)
            yield Problem(f"store_{store['reason']}", "warning", str(store["error"]), fix)


def _process(status: Mapping[str, Any]) -> Iterator[Problem]:
    problem, mode = status["watcher"].get("problem"), status["socket"]["mode"]
    stuck = status["requests"]["stuck_workers"]
    if problem:
        yield Problem(
            "watcher",
            "note",
            f"{problem}: settings.json is read with every request instead",
            "nothing is lost; raising fs.inotify.max_user_watches brings watches back",
        )
    if mode is not None and mode & 0o077:
        sentence = f"the socket has mode {mode:04o}"
        yield Problem("socket_mode", "error", sentence, _RESTART)
    if stuck:
        yield Problem(
            "stuck",
            "warning",
            f"{stuck} questions wait for a file system that does not answer",
            "see which of the stores above is on a network share",
        )


def _names(status: Mapping[str, Any]) -> Iterator[Problem]:
    names = Counter(
        repository["name"] for repository in status["repositories"] if repository["common_dir"]
    )
    for name, count in sorted(names.items()):
        if count > 1:
            yield Problem(
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
