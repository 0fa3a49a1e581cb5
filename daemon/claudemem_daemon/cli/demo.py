"""`demo`: the README's first command."""

from __future__ import annotations

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

    coloured = colours()

    def bold(text: str) -> str:
        return click.style(text, bold=True) if coloured else text

    with Sandbox() as sandbox:
        return 1 if Walkthrough(sandbox, click.echo, bold).run() else 0
