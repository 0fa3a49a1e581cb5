"""What is wrong, each with a code for scripts, a sentence for people and what to do. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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

    def as_json(self) -> dict[str, str]:
        return asdict(self)


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
    """All problems of the daemon, the worst first."""
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
        reason = str(rejected["reason"])
        about = {"code": "settings_rejected", "path": str(configuration.get("path") or "")}
        found.append(Problem("settings_rejected", "warning", reason, setting_fix(about)))
    for warning in warnings:
        if warning.get("code") in ("settings_rejected", "store_untrusted"):
            continue
        found.append(Problem(warning["code"], "warning", warning["message"], setting_fix(warning)))
    found += [
        Problem(
            f"store_{one['reason']}",
            "warning",
            str(one["error"]),
            store_fix(
                str(one.get("path", "")),
                one["reason"],
                own=os.path.dirname(str(one.get("path", ""))) == configuration.get("data_dir"),
            ),
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
