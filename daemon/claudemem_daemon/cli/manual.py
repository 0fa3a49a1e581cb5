"""`man` and `completion`: from the same source as `--help`."""

from __future__ import annotations

import inspect

import click
from click.shell_completion import get_completion_class

from claudemem_daemon import __version__
from claudemem_daemon.cli.main import COMPLETE, PROGRAM


@click.command("man")
@click.pass_context
def man_command(ctx: click.Context) -> None:
    """Print the manual page as roff: `claudemem-daemon man | man -l -`."""
    click.echo(manual(ctx.find_root()), nl=False)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for your shell.

    \b
    bash  eval "$(claudemem-daemon completion bash)" in ~/.bashrc
    zsh   eval "$(claudemem-daemon completion zsh)" in ~/.zshrc, after compinit
    fish  claudemem-daemon completion fish | source, in ~/.config/fish/config.fish
    """
    known = get_completion_class(shell)
    if known is None:
        raise click.UsageError(f"no completion for {shell}")
    root = ctx.find_root()
    click.echo(known(root.command, {}, PROGRAM, COMPLETE).source())


_HEAD = f"""\
.TH CLAUDEMEM-DAEMON 1 "" "claudemem-daemon {__version__}" "User Commands"
.SH NAME
claudemem-daemon \\- one memory for a repository and all its git worktrees
.SH SYNOPSIS
.B claudemem-daemon
COMMAND [OPTIONS]
.SH DESCRIPTION"""
_END = """\
.SH EXIT STATUS
0 good, 1 failed, 2 wrong usage, 3 no daemon (status, reload, stop). hook exits 0 always.
Where the reader of a pipe leaves early it ends by SIGPIPE, as git does: 141 for a shell.
.SH FILES
.TP
.I ~/.claude-mem/settings.json
Settings; a change is in force within a second.
.TP
.I ~/.claude-mem/daemon/
Our own folder: daemon.sock, daemon.lock, trusted.json, hook.log, daemon.log.
.SH ENVIRONMENT
.TP
.B CLAUDEMEM_DAEMON_HOME
Moves our own folder.
.TP
.B CLAUDEMEM_DAEMON_SOCKET
The socket, if it is not daemon.sock in our own folder.
"""


def manual(root: click.Context) -> str:
    """The page of the whole command tree, a section of roff a command."""
    commands = _commands(root.command, root, PROGRAM)
    return "\n".join((_HEAD, _roff(root.command.help or ""), ".SH COMMANDS", *commands, _END))


def _commands(group: click.Command, ctx: click.Context, name: str) -> list[str]:
    lines: list[str] = []
    if not isinstance(group, click.Group):
        return lines
    for sub in group.list_commands(ctx):
        command = group.get_command(ctx, sub)
        if command is None:
            continue
        with click.Context(command, parent=ctx, info_name=sub) as inside:
            usage = " ".join(command.collect_usage_pieces(inside))
            lines += [".SS", _roff(f"{name} {sub} {usage}".strip()), _roff(command.help or "")]
            for parameter in command.get_params(inside):
                record = parameter.get_help_record(inside)
                if record is not None and "--help" not in parameter.opts:
                    lines += [".TP", f".B {_roff(record[0])}", _roff(record[1]) or "\\&"]
            lines += _commands(command, inside, f"{name} {sub}")
    return lines


def _roff(text: str) -> str:
    """Plain text as roff: nothing in it is a request or an escape. A paragraph that click is not to
    wrap keeps its lines."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).replace("\\", "\\e").replace("-", "\\-").split("\n\n"):
        lines = [
            f"\\&{line}" if line[:1] in (".", "'") else line for line in paragraph.splitlines()
        ]
        if lines[:1] == ["\b"]:
            lines = [".nf", *lines[1:], ".fi"]
        paragraphs.append("\n".join(lines))
    return "\n.PP\n".join(paragraphs)
