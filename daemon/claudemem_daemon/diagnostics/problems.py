"""What is wrong, each with a code for scripts, a sentence for people and the way out. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """`severity`: error and warning make the daemon degraded, a note does not."""

    code: str
    severity: Severity
    sentence: str
    fix: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def settings_fix(code: str) -> str:
    """What ends a warning about settings or what lies beside them."""
    if code == "observer_failing":
        return "mend it there; the next save of claude-mem ends this"
    return "correct the value named"


def find_problems(
    *,
    version: str,
    installed_version: str,
    configuration: Mapping[str, Any],
    watcher: Mapping[str, Any],
    stores: Sequence[Mapping[str, Any]],
    repositories: Sequence[Mapping[str, Any]],
    socket_mode: int | None,
    stuck_workers: int,
    warnings: Iterable[Mapping[str, str]] = (),
) -> tuple[Problem, ...]:
    """Everything a look at the daemon tells, the worst first."""
    found: list[Problem] = []
    if installed_version and installed_version != version:
        found.append(
            Problem(
                "needs_restart",
                "warning",
                f"version {version} is running, {installed_version} is installed",
                _RESTART,
            )
        )
    elif not installed_version:
        found.append(
            Problem(
                "package_gone",
                "warning",
                "the package's files are gone under the running daemon",
                "install it again, then restart the daemon",
            )
        )
    rejected = configuration.get("rejected")
    if rejected:
        found.append(
            Problem("settings_rejected", "warning", str(rejected["reason"]), "mend the file")
        )
    for warning in warnings:
        if warning.get("code") in ("settings_rejected", "store_untrusted"):
            continue
        found.append(
            Problem(warning["code"], "warning", warning["message"], settings_fix(warning["code"]))
        )
    found += [
        Problem(
            f"store_{one['reason']}",
            "warning",
            str(one["error"]),
            _store_fix(one, str(configuration.get("data_dir") or "")),
        )
        for one in stores
        if not one["ok"]
    ]
    if watcher.get("problem"):
        found.append(
            Problem(
                "watcher",
                "note",
                f"{watcher['problem']}: settings.json is looked at with every request instead",
                "nothing is lost; raising fs.inotify.max_user_watches brings watches back",
            )
        )
    if socket_mode is not None and socket_mode & 0o077:
        found.append(
            Problem("socket_mode", "error", f"the socket has mode {socket_mode:04o}", _RESTART)
        )
    if stuck_workers:
        found.append(
            Problem(
                "stuck",
                "warning",
                f"{stuck_workers} questions wait for a file system that does not answer",
                "look at the stores above for one on a network share",
            )
        )
    names = Counter(one["name"] for one in repositories if one["common_dir"])
    found += [
        Problem(
            "ambiguous_key",
            "note",
            f"key {name!r} is used by {count} repositories seen here; their rows are told apart by"
            " the paths in them",
            "give each its own store by CLAUDE_MEM_DAEMON_STORES to be sure",
        )
        for name, count in sorted(names.items())
        if count > 1
    ]
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda one: order[one.severity]))


_RESTART = (
    "restart it: systemctl --user restart claudemem-daemon, or `claudemem-daemon stop` and start it"
    " again"
)


def _store_fix(store: Mapping[str, Any], data_dir: str) -> str:
    """claude-mem's own store stands in no settings that it could be taken out of."""
    if store["reason"] == "foreign" and os.path.dirname(str(store.get("path", ""))) == data_dir:
        return "restore it from a backup, or move it away and let claude-mem make a new one"
    return _STORE_FIX[store["reason"]]


_STORE_FIX = {
    "missing": "correct the path in the settings, or make the store",
    "busy": "another process holds it; it is tried again with the next question",
    "corrupt": "restore it from a backup, or let claude-mem make a new one",
    "foreign": "take its path out of the setting or the checkout's file that names it",
    "untrusted": "`claudemem-daemon allow PATH` lets it be read",
    "owner": "run the daemon as the store's owner",
    "hot_journal": "open it once with claude-mem, or with the sqlite3 command",
    "wal_pending": "give write access to its folder, or let its writer close it",
    "io": "a network file system? keep the store on a local disk",
    "slow": "narrow types and concepts, or raise CLAUDE_MEM_DAEMON_TIMEOUT_MS",
    "unreadable": "look at its permissions",
}
