"""`status`: how the daemon is and what is wrong in this folder, for people and for scripts."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from claudemem_daemon import __version__
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.context import explained
from claudemem_daemon.cli.options import make_question, plain, waiting
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.diagnostics import headline
from claudemem_daemon.diagnostics.age import age, counted, duration
from claudemem_daemon.diagnostics.causes import rows_here
from claudemem_daemon.diagnostics.headline import Headline
from claudemem_daemon.diagnostics.hooklog import HookFailure, read_log
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.hookfiles.codex import ASK
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.repository.resolver import Repositories

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

WATCH_SECONDS = 2.0
PROGRAMS = frozenset(
    ("claudemem-daemon", "chmod", "export", "fuser", "ls", "mv", "python3", "sed", "unset")
)
"""What a fix that is a command begins with."""


@click.command("status")
@click.option("--json", "as_shape", is_flag=True, help="As JSON, with keys to rely on.")
@click.option("--watch", is_flag=True, help="Refresh in place until Ctrl-C.")
def status_command(as_shape: bool, watch: bool) -> int:
    """How the daemon is, what is wrong in this folder, and the one thing to do next.

    Exits 0 when all is well, 1 when something is wrong, 3 when no daemon runs. Changes nothing.
    """
    if watch:
        return _watch(as_shape)
    shape, head = _status()
    _print(shape, head, as_shape=as_shape)
    return head.exit_code


def _print(shape: dict[str, Any], head: Headline, *, as_shape: bool) -> None:
    if as_shape:
        click.echo(json.dumps(shape, indent=2))
    else:
        screen.show(screen.screen(), _page(shape, head))


def _watch(as_shape: bool) -> int:
    """Once more every few seconds, in a terminal as a live screen."""
    from rich.live import Live

    head = None
    in_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    live = Live(console=screen.screen(), screen=True, auto_refresh=False)
    try:
        with live if in_terminal and not as_shape else nullcontext():
            while True:
                shape, head = _status()
                if live.is_started:
                    live.update(_page(shape, head), refresh=True)
                else:
                    _print(shape, head, as_shape=as_shape)
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return head.exit_code if head is not None else 0


def _status() -> tuple[dict[str, Any], Headline]:
    """Everything that `status --json` prints, and the first line."""
    failures = read_log(os.environ)
    try:
        with waiting("asking the daemon"):
            shape: dict[str, Any] = json.loads(Client(os.environ).get("/v1/status"))
        head = headline.of_answer(shape)
    except Unreachable as error:
        shape = {"schema": 1, "status": error.trouble, "client_version": __version__}
        head = headline.of_silence(error)
    here = _here(daemon="process" in shape)
    shape |= {
        "headline": head.sentence,
        "next": head.next or (here["next"] if here is not None else "claudemem-daemon context"),
        "client_version": __version__,
        "hook_failures": [asdict(failure) for failure in failures],
        "hooks_not_allowed": {
            name: list(skipped)
            for name, platform in PLATFORMS.items()
            if (skipped := installed(platform, os.environ, None).untrusted)
        },
        "here": here,
    }
    return shape, head


def _here(*, daemon: bool) -> dict[str, Any] | None:
    """What is to be told of this folder: its repository, and what keeps rows out of its context."""
    try:
        question = make_question(cwd=None)
        repository = Repositories(os.environ.get("HOME")).resolve(question.cwd)
        shape = explained(question, daemon=daemon)
    except ClaudememError:
        return None
    main = repository.main.path if repository.main else repository.common_dir
    return {
        "path": main or repository.cwd,
        "repository": repository.kind != "none",
        "worktrees": len(repository.worktrees),
        "verdict": shape["verdict"],
        "causes": shape["causes"],
        "next": _next(shape),
    }


def _next(shape: dict[str, Any]) -> str:
    """The command to run where the daemon is well."""
    fixes = [str(cause["fix"]) for cause in shape["causes"]]
    commands = [fix for fix in fixes if fix.partition(" ")[0] in PROGRAMS]
    if commands:
        return commands[0]
    if shape["causes"]:
        return "claudemem-daemon explain"
    elsewhere = shape["others"] and not rows_here(shape)
    return f"claudemem-daemon {'projects' if elsewhere else 'context'}"


def _page(shape: dict[str, Any], head: Headline) -> Group:
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
