"""`demo`: the README's first command."""

from __future__ import annotations

import os
import shlex
import sys

import click

from claudemem_daemon.cli.options import colours


@click.command("demo")
def demo_command() -> int:
    """See it work, in a temporary folder, without claude-mem and without a network.

    Makes a real repository with worktrees and a store, starts a real daemon, asks it as a hook does,
    removes a worktree, edits settings.json, and checks every answer. Needs git. Exits 1 if anything
    was not as said.
    """
    from claudemem_daemon.demo.sandbox import Sandbox
    from claudemem_daemon.demo.walkthrough import Walkthrough
    from claudemem_daemon.hookfiles.commands import launcher

    bold = (lambda text: click.style(text, bold=True)) if colours() else str
    with Sandbox() as sandbox:
        program = shlex.quote(launcher(os.environ, sys.argv[0]))
        return 1 if Walkthrough(sandbox, click.echo, bold).run(program) else 0
