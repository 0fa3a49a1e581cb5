"""`status`: how the daemon is, for people and for scripts."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import click

from claudemem_daemon import __version__
from claudemem_daemon.cli.options import folder, path_text, plain
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.diagnostics import headline
from claudemem_daemon.diagnostics.age import age, duration
from claudemem_daemon.diagnostics.headline import Headline
from claudemem_daemon.diagnostics.hooklog import HookFailure, read_log
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.repository.model import Repository
from claudemem_daemon.repository.resolver import Repositories

WATCH_SECONDS = 2.0


@click.command("status")
@click.option("--json", "as_shape", is_flag=True, help="As JSON, with keys to rely on.")
@click.option("--watch", is_flag=True, help="Refresh in place until Ctrl-C.")
def status_command(as_shape: bool, watch: bool) -> int:
    """How the daemon is, and the one thing to do next.

    Exits 0 when all is well, 1 when something is wrong, 3 when no daemon runs. Changes nothing.
    """
    if not watch:
        text, code = _look(as_shape)
        click.echo(text)
        return code
    before = ""
    code = 0
    in_place = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        while True:
            text, code = _look(as_shape)
            if in_place and not as_shape:
                # Home, every line cleared to its end, then what is below.
                click.echo("\x1b[H" + text.replace("\n", "\x1b[K\n") + "\x1b[K\x1b[J")
            elif text != before:
                click.echo(text)
            before = text
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return code


def _look(as_shape: bool) -> tuple[str, int]:
    failures = read_log(os.environ)
    try:
        shape: dict[str, Any] = json.loads(Client(os.environ).get("/v1/status"))
        head = headline.of_answer(shape)
    except Unreachable as error:
        shape = {"schema": 1, "status": error.trouble, "client_version": __version__}
        head = headline.of_silence(error)
    if as_shape:
        shape |= {
            "headline": head.sentence,
            "next": head.next,
            "client_version": __version__,
            "hook_failures": [
                {"at": one.at, "platform": one.platform, "reason": one.reason, "detail": one.detail}
                for one in failures
            ],
        }
        return json.dumps(shape, indent=2), head.exit_code
    lines = [head.sentence]
    if head.next is not None:
        lines.append(f"  next: {head.next}")
    if "process" in shape:
        lines += _body(shape)
    lines += _here()
    lines += _hooks(shape, failures)
    lines += _problems(shape, head)
    return "\n".join(plain(line, 400) if "\x1b" in line else line for line in lines), head.exit_code


def _body(shape: dict[str, Any]) -> list[str]:
    process, socket, requests = shape["process"], shape["socket"], shape["requests"]
    configuration, watcher = shape["configuration"], shape["watcher"]
    memory = process["resident_kb"]
    lines = [
        "",
        (
            f"process        up {duration(process['uptime_seconds'])},"
            f" started by {process['started_by']}, {memory // 1024 if memory else '?'} MB,"
            f" Python {process['python']}"
        ),
        f"socket         {path_text(socket['path'])}, "
        + (f"mode {socket['mode']:04o}" if socket["mode"] is not None else "gone")
        + (", from the service manager" if socket["inherited"] else ""),
        f"configuration  {path_text(configuration['path'])}, revision {configuration['revision']}"
        + ("" if configuration["exists"] else ", no such file: defaults"),
        f"watcher        {watcher['backend']}",
        f"requests       {requests['total']}"
        + (
            f", p50 {requests['p50_ms']} ms, p95 {requests['p95_ms']} ms, p99 {requests['p99_ms']} ms"
            if requests["measured"]
            else ""
        )
        + "".join(f", {count} {code}" for code, count in sorted(requests["errors"].items())),
    ]
    last = requests["last_hook"]
    if last is not None:
        lines.append(
            f"last hook      {last['platform']} {plain(last['event'], 40)}"
            f" {age(last['when'] * 1000)}, {last['ms']:.1f} ms"
        )
    rejected = configuration["rejected"]
    if rejected:
        lines.append(f"               last edit rejected {age(rejected['at'] * 1000)}")
    for store in shape["stores"]:
        state = "ok" if store["ok"] else store["reason"]
        version = f", schema {store['schema_version']}" if store["schema_version"] else ""
        read = f", read in {store['read_ms']:.1f} ms" if store["read_ms"] is not None else ""
        lines.append(f"store          {path_text(store['path'])}: {state}{version}{read}")
    return lines


def _here() -> list[str]:
    """The repository of this folder, looked at from here."""
    try:
        repository: Repository = Repositories(os.environ.get("HOME")).resolve(folder(None))
    except ClaudememError:
        return []
    if repository.kind == "none":
        return ["", f"here           {path_text(repository.cwd)}: no repository"]
    count = len(repository.worktrees)
    where = repository.main.path if repository.main else repository.common_dir or ""
    return [
        "",
        (
            f"here           {path_text(where)}, {count} linked worktree{'' if count == 1 else 's'}"
            " (`claudemem-daemon worktrees`)"
        ),
    ]


def _hooks(shape: dict[str, Any], failures: tuple[HookFailure, ...]) -> list[str]:
    since = shape["process"]["started_at"] if "process" in shape else time.time() - 86400
    recent = [one for one in failures if one.at >= since]
    if not recent:
        return []
    newest = recent[-1]
    return [
        (
            f"hooks          {len(recent)} gave nothing, the last {age(newest.at * 1000)}:"
            f" {newest.platform} {newest.reason} {plain(newest.detail, 200)}"
        )
    ]


def _problems(shape: dict[str, Any], head: Headline) -> list[str]:
    problems = shape.get("problems", [])
    if not problems:
        return []
    lines = ["", "problems"]
    for one in problems:
        lines.append(f"  {one['code']} ({one['severity']}): {plain(one['sentence'], 400)}")
        if one["fix"] != head.next:
            lines.append(f"    {plain(one['fix'], 300)}")
    return lines
