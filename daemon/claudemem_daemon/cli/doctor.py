"""`doctor`: everything checked from end to end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import explained
from claudemem_daemon.cli.options import cwd_option, json_option, make_question, waiting
from claudemem_daemon.diagnostics.doctor import as_json, examine, report
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.hookfiles.commands import launcher

_MARK = {
    "ok": ("ok     ", ""),
    "note": ("note   ", ""),
    "warning": ("warning", "yellow"),
    "error": ("FAILED ", "red"),
}
"""Severity -> word and colour."""


@click.command("doctor")
@cwd_option
@json_option
def doctor_command(cwd: str | None, as_shape: bool) -> int:
    """Check everything a person would: socket, service, settings, stores, hooks, a real question.

    Exits 1 when a check failed. Changes nothing.
    """
    question = make_question(cwd=cwd)
    program = launcher(os.environ, sys.argv[0])

    def explain(daemon: bool) -> Mapping[str, Any]:
        return explained(question, daemon=daemon)

    with waiting("checking"):
        checks = examine(os.environ, question, program, explain)
    block = report(checks)
    if as_shape:
        shape = {"checks": [as_json(check) for check in checks], "report": block}
        click.echo(json.dumps(shape, indent=2))
    else:
        _print(checks, block)
    return 1 if any(check.severity == "error" for check in checks) else 0


def _print(checks: tuple[Finding, ...], block: str) -> None:
    for check in checks:
        mark, style = _MARK[check.severity]
        ok = check.severity == "ok"
        message = screen.home(check.sentence) if ok else check.sentence
        screen.finding(f"{check.code}: {message}", check.fix, style, label=f"{mark}  ")
    screen.say("\nfor a bug report:\n", "dim")
    for line in block.splitlines():
        screen.say(f"    {line}", "dim")
