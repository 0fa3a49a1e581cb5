"""`status`: how the daemon is and what is wrong in this folder, for people and for scripts."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from claudemem_daemon import __version__
from claudemem_daemon.cli.context import explained
from claudemem_daemon.cli.options import make_question, plain
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.diagnostics import headline
from claudemem_daemon.diagnostics.age import age, duration
from claudemem_daemon.diagnostics.headline import Headline
from claudemem_daemon.diagnostics.hooklog import HookFailure, read_log
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.repository.resolver import Repositories

if TYPE_CHECKING:
    from rich.console import Group
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
    if as_shape:
        click.echo(json.dumps(shape, indent=2))
        return head.exit_code
    from claudemem_daemon.cli import screen

    screen.show(screen.screen(), _page(shape, head))
    return head.exit_code


def _watch(as_shape: bool) -> int:
    """Once more every few seconds: a live screen in a terminal, else whatever has changed."""
    head: Headline | None = None
    try:
        if sys.stdout.isatty() and not as_shape and os.environ.get("TERM", "dumb") != "dumb":
            from rich.live import Live

            from claudemem_daemon.cli import screen

            shape, head = _status()
            out = screen.screen()
            with Live(_page(shape, head), console=out, screen=True, auto_refresh=False) as live:
                while True:
                    time.sleep(WATCH_SECONDS)
                    shape, head = _status()
                    live.update(_page(shape, head), refresh=True)
        before = ""
        while True:
            shape, head = _status()
            text = json.dumps(shape, indent=2) if as_shape else _page(shape, head).renderables
            if str(text) != before:
                before = str(text)
                _print_change(shape, head, as_shape=as_shape)
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return head.exit_code if head is not None else 0


def _print_change(shape: dict[str, Any], head: Headline, *, as_shape: bool) -> None:
    if as_shape:
        click.echo(json.dumps(shape, indent=2))
        return
    from claudemem_daemon.cli import screen

    screen.show(screen.screen(), _page(shape, head))


def _status() -> tuple[dict[str, Any], Headline]:
    """Everything that `status --json` prints, and the first line."""
    failures = read_log(os.environ)
    try:
        shape: dict[str, Any] = json.loads(Client(os.environ).get("/v1/status"))
        head = headline.of_answer(shape)
    except Unreachable as error:
        shape = {"schema": 1, "status": error.trouble, "client_version": __version__}
        head = headline.of_silence(error)
    here = _here(daemon="process" in shape)
    causes = here["causes"] if here is not None else []
    commands = (one["fix"] for one in causes if one["fix"].partition(" ")[0] in PROGRAMS)
    then = next(commands, f"claudemem-daemon {'explain' if causes else 'context'}")
    shape |= {
        "headline": head.sentence,
        "next": head.next or then,
        "client_version": __version__,
        "hook_failures": [asdict(one) for one in failures],
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
    }


def _page(shape: dict[str, Any], head: Headline) -> Group:
    """The status as a person reads it, the next command last."""
    from rich.console import Group
    from rich.text import Text

    good = head.exit_code == 0
    parts: list[Any] = [Text(plain(head.sentence, 600), style="bold green" if good else "bold red")]
    if "process" in shape:
        parts += [Text(""), *_lines(_daemon(shape))]
    if shape["here"] is not None:
        parts += [Text(""), *_lines(_folder(shape["here"]))]
        for cause in shape["here"]["causes"]:
            parts.append(Text(f"! {plain(cause['sentence'], 2000)}", style="yellow"))
            if cause["fix"]:
                parts.append(_to_copy(f"  fix: {plain(cause['fix'], 2000)}", "green"))
    parts += _lines(_hooks(shape))
    parts += _problems(shape)
    parts += [Text(""), _to_copy(f"next: {plain(shape['next'], 2000)}", "bold")]
    return Group(*parts)


def _to_copy(text: str, style: str) -> Text:
    """A line that the terminal itself wraps, so that it is copied whole."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _lines(pairs: list[tuple[str, str]]) -> list[Text]:
    from rich.text import Text

    lines = []
    for name, value in pairs:
        line = Text(f"{name:<15}", style="dim")
        line.append(plain(value, 600), style="not dim")
        lines.append(line)
    return lines


def _daemon(shape: dict[str, Any]) -> list[tuple[str, str]]:
    from claudemem_daemon.cli.screen import home

    process, socket, requests = shape["process"], shape["socket"], shape["requests"]
    configuration, memory = shape["configuration"], process["resident_kb"]
    mode = f"mode {socket['mode']:04o}" if socket["mode"] is not None else "gone"
    memory = f"{memory // 1024} MB" if memory else "? MB"
    ran = f"up {duration(process['uptime_seconds'])}, started by {process['started_by']}"
    missing = "" if configuration["exists"] else ", no such file: defaults"
    took = (
        f", p50 {requests['p50_ms']} ms, p95 {requests['p95_ms']} ms, p99 {requests['p99_ms']} ms"
        if requests["measured"]
        else ""
    )
    errors = "".join(f", {count} {code}" for code, count in sorted(requests["errors"].items()))
    lines = [
        ("process", f"{ran}, {memory}, Python {process['python']}"),
        (
            "socket",
            f"{home(socket['path'])}, {mode}"
            + (", from the service manager" if socket["inherited"] else ""),
        ),
        (
            "configuration",
            f"{home(configuration['path'])}, revision {configuration['revision']}{missing}",
        ),
        ("watcher", shape["watcher"]["backend"]),
        ("requests", f"{requests['total']}{took}{errors}"),
    ]
    last, rejected = requests["last_hook"], configuration["rejected"]
    if last is not None:
        when = age(last["when"] * 1000)
        words = f"{last['platform']} {plain(last['event'], 40)} {when}, {last['ms']:.1f} ms"
        lines.append(("last hook", words))
    if rejected:
        lines.append(("", f"last edit rejected {age(rejected['at'] * 1000)}"))
    for store in shape["stores"]:
        state = "ok" if store["ok"] else store["reason"]
        version = f", schema {store['schema_version']}" if store["schema_version"] else ""
        read = f", read in {store['read_ms']:.1f} ms" if store["read_ms"] is not None else ""
        lines.append(("store", f"{home(store['path'])}: {state}{version}{read}"))
    return lines


def _folder(here: dict[str, Any]) -> list[tuple[str, str]]:
    from claudemem_daemon.cli.screen import counted, home

    if here["repository"]:
        kind = f"{counted(here['worktrees'], 'linked worktree')} (`claudemem-daemon worktrees`)"
    else:
        kind = "no repository"
    lines = [("here", f"{home(here['path'])}: {kind}")]
    told = {cause["sentence"] for cause in here["causes"]}
    return lines if here["verdict"] in told else [*lines, ("", here["verdict"])]


def _hooks(shape: dict[str, Any]) -> list[tuple[str, str]]:
    from claudemem_daemon.cli.screen import counted

    since = shape["process"]["started_at"] if "process" in shape else time.time() - 86400
    recent = [HookFailure(**one) for one in shape["hook_failures"] if one["at"] >= since]
    if not recent:
        return []
    last = recent[-1]
    words = f"{counted(len(recent), 'hook')} failed, the last {age(last.at * 1000)}"
    return [("hooks", f"{words}: {last.platform} {last.reason} {plain(last.detail, 200)}")]


def _problems(shape: dict[str, Any]) -> list[Text]:
    """Of the daemon; what this folder's causes say already is not said again."""
    from rich.text import Text

    here = shape["here"]
    told = {cause["sentence"] for cause in here["causes"]} if here is not None else set()
    problems = [one for one in shape.get("problems", []) if one["sentence"] not in told]
    lines = [Text(""), Text("problems")] if problems else []
    for one in problems:
        words = f"  {one['code']} ({one['severity']}): {plain(one['sentence'], 400)}"
        lines.append(Text(words, style="red" if one["severity"] == "error" else "yellow"))
        lines.append(_to_copy(f"    fix: {plain(one['fix'], 1000)}", "green"))
    return lines
