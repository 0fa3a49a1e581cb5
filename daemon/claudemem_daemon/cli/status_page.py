"""The status as a person reads it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import plain
from claudemem_daemon.diagnostics.age import age, counted, duration
from claudemem_daemon.diagnostics.headline import Headline
from claudemem_daemon.diagnostics.hook_checks import HookFailure
from claudemem_daemon.hookfiles.codex import ASK

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text


def page(shape: dict[str, Any], head: Headline) -> Group:
    """The status as a person reads it, the next command last."""
    from rich.console import Group
    from rich.text import Text

    here = shape["here"]
    causes = here["causes"] if here is not None else []
    told = {cause["sentence"] for cause in causes}
    style = "bold green" if head.exit_code == 0 else "bold red"
    parts: list[RenderableType] = [Text(plain(head.sentence, 600), style=style)]
    if "process" in shape:
        parts += ["", *(_line(name, value) for name, value in _daemon(shape))]
    if here is not None:
        parts += ["", *(_line(name, value) for name, value in _folder(here, told))]
    for cause in causes:
        parts += _finding(cause["sentence"], "yellow", cause["fix"])
    parts += [_line(name, value) for name, value in _hooks(shape)]
    for name, events in shape["hooks_not_allowed"].items():
        skipped = f"{name} skips our entries for {', '.join(events)} until allowed"
        parts += _finding(skipped, "yellow", ASK)
    problems = [found for found in shape.get("problems", []) if found["sentence"] not in told]
    parts += ["", "problems"] if problems else []
    for found in problems:
        text = f"{found['code']} ({found['severity']}): {found['sentence']}"
        parts += _finding(text, "red" if found["severity"] == "error" else "yellow", found["fix"])
    return Group(*parts, "", _to_copy(f"next: {plain(shape['next'], 2000)}", "bold"))


def _finding(text: str, style: str, fix: str) -> list[RenderableType]:
    fixes = [_to_copy(f"  fix: {plain(fix, 2000)}", "green")] if fix else []
    return [_line("! ", text, style, width=2), *fixes]


def _to_copy(text: str, style: str) -> Text:
    """A line that the terminal itself wraps, so that it is copied whole."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _line(name: str, value: str, style: str = "", width: int = 15) -> Table:
    """A name and its value, which stays behind the name where it takes several lines."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid()
    line.add_column(width=width, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(name, style=style or "dim"), Text(plain(value, 2000), style=style))
    return line


def _daemon(shape: dict[str, Any]) -> list[tuple[str, str]]:
    process, socket, requests = shape["process"], shape["socket"], shape["requests"]
    configuration, last = shape["configuration"], requests["last_hook"]
    memory = f"{process['resident_kb'] // 1024}" if process["resident_kb"] else "?"
    ran = f"up {duration(process['uptime_seconds'])}, started by {process['started_by']}"
    mode = f"mode {socket['mode']:04o}" if socket["mode"] is not None else "gone"
    inherited = ", from the service manager" if socket["inherited"] else ""
    missing = "" if configuration["exists"] else ", no such file: defaults"
    times = [f", {name} {requests[f'{name}_ms']} ms" for name in ("p50", "p95", "p99")]
    took = "".join(times) if requests["measured"] else ""
    errors = "".join(f", {count} {code}" for code, count in sorted(requests["errors"].items()))
    file = f"{screen.home(configuration['path'])}, revision {configuration['revision']}"
    lines = [
        ("process", f"{ran}, {memory} MB, Python {process['python']}"),
        ("socket", f"{screen.home(socket['path'])}, {mode}{inherited}"),
        ("configuration", file + missing),
        ("watcher", shape["watcher"]["backend"]),
        ("requests", f"{requests['total']}{took}{errors}"),
    ]
    if last is not None:
        when = f"{age(last['when'] * 1000)}, {last['ms']:.1f} ms"
        lines.append(("last hook", f"{last['platform']} {plain(last['event'], 40)} {when}"))
    if configuration["rejected"]:
        lines.append(("", f"last edit rejected {age(configuration['rejected']['at'] * 1000)}"))
    for store in shape["stores"]:
        state = "ok" if store["ok"] else store["reason"]
        version = f", schema {store['schema_version']}" if store["schema_version"] else ""
        read = f", read in {store['read_ms']:.1f} ms" if store["read_ms"] is not None else ""
        lines.append(("store", f"{screen.home(store['path'])}: {state}{version}{read}"))
    return lines


def _folder(here: dict[str, Any], told: set[str]) -> list[tuple[str, str]]:
    kind = "no repository"
    if here["repository"]:
        trees = counted(here["worktrees"], "linked worktree")
        kind = f"{trees} (`claudemem-daemon worktrees`)"
    lines = [("here", f"{screen.home(here['path'])}: {kind}")]
    return lines if here["verdict"] in told else [*lines, ("", here["verdict"])]


def _hooks(shape: dict[str, Any]) -> list[tuple[str, str]]:
    since = shape["process"]["started_at"] if "process" in shape else time.time() - 86400
    recent = [
        HookFailure(**failure) for failure in shape["hook_failures"] if failure["at"] >= since
    ]
    if not recent:
        return []
    last = recent[-1]
    words = f"{counted(len(recent), 'hook')} failed, the last {age(last.at * 1000)}"
    return [("hooks", f"{words}: {last.platform} {last.reason} {plain(last.detail, 200)}")]
