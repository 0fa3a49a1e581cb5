"""What is wrong, each with a code for scripts, a sentence for people and what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import setting_fix, store_fix
from claudemem_daemon.diagnostics.headline import restart


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
        sentence = f"{stuck} questions wait for a file system that does not answer"
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
