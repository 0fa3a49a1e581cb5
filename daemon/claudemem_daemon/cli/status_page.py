"""The status as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claudemem_daemon.cli.options import pasteable, plain
from claudemem_daemon.cli.screen import finding, home, say
from claudemem_daemon.diagnostics.age import age, counted, duration
from claudemem_daemon.diagnostics.hook_checks import HookFailure, hook_log, skipped
from claudemem_daemon.diagnostics.problems import Headline

Line = tuple[str, str]
"""A name, which may be empty, and its value."""


def print_page(shape: dict[str, Any], head: Headline) -> None:
    """The status as a person reads it, the next command last."""
    here = shape["here"]
    causes = here["causes"] if here is not None else []
    told = {cause["sentence"] for cause in causes}
    say(plain(head.sentence, 600), "bold green" if head.exit_code == 0 else "bold red")
    if "process" in shape:
        say("")
        _print_lines(_daemon(shape))
    if here is not None:
        say("")
        _print_lines(_folder(here, told))
    for cause in causes:
        _print_finding(cause, shape["next"])
    hooks = [skipped(name, events) for name, events in shape["hooks_not_allowed"].items()]
    hooks.append(hook_log(HookFailure(**failure) for failure in shape["hook_failures"]))
    for found in hooks:
        if found.severity != "ok":
            finding(found.sentence, found.fix)
    problems = [found for found in shape.get("problems", []) if found["sentence"] not in told]
    if problems:
        say("\nproblems")
    for found in problems:
        _print_finding(found, shape["next"])
    say("")
    say(f"next: {pasteable(shape['next'])}", "bold", whole=True)


def _print_finding(found: dict[str, str], following: str) -> None:
    """What is wrong, and what to do about it unless that comes last as the next thing to do."""
    fix = found["fix"] if found["fix"] != following else ""
    finding(found["sentence"], fix, "red" if found["severity"] == "error" else "yellow")


def _print_lines(lines: Iterator[Line]) -> None:
    for name, value in lines:
        say(plain(value, 2000), label=f"{name:<15}")


def _daemon(shape: dict[str, Any]) -> Iterator[Line]:
    process, socket, requests = shape["process"], shape["socket"], shape["requests"]
    configuration, last = shape["configuration"], requests["last_hook"]
    memory = f"{process['resident_kb'] // 1024}" if process["resident_kb"] else "?"
    ran = f"up {duration(process['uptime_seconds'])}, started by {process['started_by']}"
    yield "process", f"{ran}, {memory} MB, Python {process['python']}"
    mode = f"mode {socket['mode']:04o}" if socket["mode"] is not None else "gone"
    inherited = ", from the service manager" if socket["inherited"] else ""
    yield "socket", f"{home(socket['path'])}, {mode}{inherited}"
    missing = "" if configuration["exists"] else ", no such file: defaults"
    file = f"{home(configuration['path'])}, revision {configuration['revision']}"
    yield "settings", file + missing
    if configuration["rejected"]:
        yield "", f"last edit rejected {age(configuration['rejected']['at'] * 1000)}"
    yield "watcher", shape["watcher"]["backend"].removesuffix("Observer").lower()
    times = [f", {name} {requests[f'{name}_ms']:.1f} ms" for name in ("p50", "p95", "p99")]
    took = "".join(times) if requests["measured"] else ""
    errors = "".join(f", {count} {code}" for code, count in sorted(requests["errors"].items()))
    yield "requests", f"{requests['total']}{took}{errors}"
    if last is not None:
        when = f"{age(last['when'] * 1000)}, {last['ms']:.1f} ms"
        yield "last hook", f"{last['platform']} {plain(last['event'], 40)} {when}"
    for store in shape["stores"]:
        state = "ok" if store["ok"] else store["reason"]
        version = f", schema {store['schema_version']}" if store["schema_version"] else ""
        read = f", read in {store['read_ms']:.1f} ms" if store["read_ms"] is not None else ""
        yield "store", f"{home(store['path'])}: {state}{version}{read}"


def _folder(here: dict[str, Any], told: set[str]) -> Iterator[Line]:
    trees = counted(here["worktrees"], "linked worktree")
    kind = f"{trees} (`claudemem-daemon worktrees`)" if here["repository"] else "no repository"
    yield "here", f"{home(here['path'])}: {kind}"
    if here["verdict"] not in told:
        yield "", here["verdict"]
