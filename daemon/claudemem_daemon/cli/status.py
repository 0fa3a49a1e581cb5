"""`status`: how the daemon is and what is wrong in this folder, for people and for scripts."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from claudemem_daemon import __version__
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import explained
from claudemem_daemon.cli.options import json_option, make_question, waiting
from claudemem_daemon.cli.status_page import print_page
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.diagnostics.causes import rows_here
from claudemem_daemon.diagnostics.hook_checks import read_log
from claudemem_daemon.diagnostics.problems import Headline, of_answer, of_silence
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.service.manager import has_manager

WATCH_SECONDS = 2.0
PROGRAMS = frozenset(
    ("chmod", "claudemem-daemon", "export", "fuser", "kill", "launchctl", "ls", "mv", "pipx", "psql",
     "python3", "sed", "sqlite3", "sudo", "systemctl", "unset")
)  # fmt: skip
"""What a fix that is a command begins with."""


@click.command("status")
@json_option
@click.option("--watch", is_flag=True, help="Refresh in place until Ctrl-C.")
def status_command(as_shape: bool, watch: bool) -> int:
    """Say how the daemon is, what is wrong in this folder, and the one thing to do next.

    Exits 0 when the daemon is well, 1 when something is wrong with it, 3 when none runs. Changes
    nothing.
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
        print_page(shape, head)


def _watch(as_shape: bool) -> int:
    """Once more every few seconds, in a terminal in place."""
    out = screen.screen()
    in_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not as_shape
    # An exception would be lost where Python ignores those, as at the end of an object.
    interrupted, interrupting = socket.socketpair()
    interrupting.setblocking(False)
    signal.set_wakeup_fd(interrupting.fileno())
    signal.signal(signal.SIGINT, lambda *_: None)
    with out.screen(hide_cursor=False) if in_terminal else nullcontext():
        while True:
            shape, head = _status()
            if in_terminal:
                out.clear()
            _print(shape, head, as_shape=as_shape)
            if select.select([interrupted], [], [], WATCH_SECONDS)[0]:
                return head.exit_code


def _status() -> tuple[dict[str, Any], Headline]:
    """Everything that `status --json` prints, and the first line."""
    failures = read_log(os.environ)
    client = Client(os.environ)
    shape: dict[str, Any]
    try:
        with waiting("asking the daemon"):
            client.get_json("/healthz")
        # First, so that the daemon knows how this folder's stores are.
        here = _here(daemon=True)
        shape = client.get_json("/v1/status")
        head = of_answer(shape)
    except Unreachable as error:
        here = _here(daemon=False)
        shape = {"schema": 1, "status": error.trouble}
        head = of_silence(error, managed=has_manager(os.environ))
    shape |= {
        "headline": head.sentence,
        "next": head.next or _next(here, shape.get("problems", [])),
        "client_version": __version__,
        "hook_failures": [failure._asdict() for failure in failures],
        "hooks_not_allowed": {
            name: list(skipped)
            for name, platform in PLATFORMS.items()
            if (skipped := installed(platform, os.environ).untrusted)
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
        "rows": rows_here(shape),
        "other_rows": sum(shape["others"].values()),
    }


def _next(here: dict[str, Any] | None, problems: Sequence[dict[str, str]]) -> str:
    """The command to run where the daemon answers."""
    causes = here["causes"] if here is not None else []
    fixes = [str(found["fix"]) for found in (*causes, *problems)]
    commands = [fix for fix in fixes if fix.partition(" ")[0] in PROGRAMS]
    if commands:
        return commands[0]
    if causes:
        return "claudemem-daemon explain"
    elsewhere = here is not None and here["other_rows"] and not here["rows"]
    return f"claudemem-daemon {'projects' if elsewhere else 'context'}"
