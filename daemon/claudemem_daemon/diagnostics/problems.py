"""What is wrong, each with a code for scripts, a sentence for people and what to do. Pure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a running daemon; mappings are parts of its status."""

    version: str
    installed_version: str
    configuration: Mapping[str, Any]
    watcher: Mapping[str, Any]
    stores: Sequence[Mapping[str, Any]]
    repositories: Sequence[Mapping[str, Any]]
    socket_mode: int | None
    stuck_workers: int
    warnings: Iterable[Mapping[str, str]] = ()


def find_problems(seen: Observed) -> tuple[Problem, ...]:
    """All problems of the daemon, the worst first."""
    found = (*_package(seen), *_settings(seen), *_stores(seen), *_process(seen), *_names(seen))
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def _package(seen: Observed) -> Iterator[Problem]:
    installed = seen.installed_version
    if not installed:
        sentence = "the package's files are gone under the running daemon"
        yield Problem("package_gone", "warning", sentence, "install it again, then restart it")
    elif installed != seen.version:
        sentence = f"version {seen.version} is running, {installed} is installed"
        yield Problem("needs_restart", "warning", sentence, _RESTART)


def _settings(seen: Observed) -> Iterator[Problem]:
    rejected = seen.configuration.get("rejected")
    if rejected:
        about = {"code": "settings_rejected", "path": str(seen.configuration.get("path") or "")}
        reason = str(rejected["reason"])
        yield Problem("settings_rejected", "warning", reason, setting_fix(about))
    for warning in seen.warnings:
        if warning["code"] not in ("settings_rejected", "store_untrusted"):
            yield Problem(warning["code"], "warning", warning["message"], setting_fix(warning))


def _stores(seen: Observed) -> Iterator[Problem]:
    for store in seen.stores:
        if not store["ok"]:
            path = str(store.get("path", ""))
            own = os.path.dirname(path) == seen.configuration.get("data_dir")
            fix = store_fix(path, store["reason"], own=own)
            yield Problem(f"store_{store['reason']}", "warning", str(store["error"]), fix)


def _process(seen: Observed) -> Iterator[Problem]:
    if seen.watcher.get("problem"):
        yield Problem(
            "watcher",
            "note",
            f"{seen.watcher['problem']}: settings.json is read with every request instead",
            "nothing is lost; raising fs.inotify.max_user_watches brings watches back",
        )
    if seen.socket_mode is not None and seen.socket_mode & 0o077:
        sentence = f"the socket has mode {seen.socket_mode:04o}"
        yield Problem("socket_mode", "error", sentence, _RESTART)
    if seen.stuck_workers:
        yield Problem(
            "stuck",
            "warning",
            f"{seen.stuck_workers} questions wait for a file system that does not answer",
            "see which of the stores above is on a network share",
        )


def _names(seen: Observed) -> Iterator[Problem]:
    names = Counter(
        repository["name"] for repository in seen.repositories if repository["common_dir"]
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
