"""The command line: which commands there are, and what an error ends in."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from claudemem_daemon import __version__
from claudemem_daemon.errors import ClaudememError

if TYPE_CHECKING:
    from claudemem_daemon.cli.options import Serve

PROGRAM: Final = "claudemem-daemon"
COMPLETE: Final = "_CLAUDEMEM_DAEMON_COMPLETE"
"""The variable in which a shell asks for completions."""

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("demo", "See it work in a temporary folder. Needs git."),
    "service": ("service", "Install, show or remove the systemd or launchd service."),
    "hooks": ("hooks", "Install, print or remove an assistant's hook entries."),
    "allow": ("trust", "Allow reading a store that a checkout brings along."),
    "deny": ("trust", "Take `allow` back."),
    "context": ("context", "Show the text that a hook puts in front of a prompt."),
    "query": ("context", "List the observations behind that text."),
    "explain": ("explain", "Say why these rows are shown and not others."),
    "show": ("lookups", "Show rows in full, by their ids."),
    "search": ("lookups", "Find rows by words."),
    "projects": ("lookups", "List the project keys in the stores."),
    "worktrees": ("worktrees", "List the worktrees with their keys, stores and rows."),
    "status": ("status", "Say how the daemon is and what to do next."),
    "doctor": ("doctor", "Check everything from end to end."),
    "config": ("config", "List every setting, its value and its source."),
    "logs": ("running", "Show what the daemon wrote down."),
    "start": ("running", "Start the daemon in the background."),
    "stop": ("running", "Stop the daemon."),
    "reload": ("running", "Make the daemon read its settings again."),
    "run": ("running", "Run the daemon in the foreground."),
    "hook": ("hooks", "Answer one hook, from standard input."),
    "completion": ("manual", "Print shell completion for bash, zsh or fish."),
    "man": ("manual", "Print the manual page as roff."),
}
"""Command -> (module below cli, one line for `--help`). A module is imported when its command is
used, so that completion and `--help` answer at once."""

SECTIONS: Final[Mapping[str, str]] = {
    "demo": "Set up",
    "context": "Read the memory",
    "status": "Find out what is wrong",
    "start": "Run the daemon by hand",
    "completion": "Shell",
}
"""The first command of each section of `--help` -> its title."""


class LazyGroup(click.Group):
    """Knows its commands by name; imports none before it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"claudemem_daemon.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        width = max(map(len, COMMANDS))
        for name, (_, line) in COMMANDS.items():
            if name in SECTIONS:
                formatter.write(f"\n{SECTIONS[name]}:\n")
            formatter.write(f"  {name:<{width}}  {line}\n")


@click.group(
    cls=LazyGroup,
    # Names alone, for "did you mean".
    commands={name: click.Command(name) for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """One memory for a repository and all its git worktrees.

    A local daemon that answers claude-mem hooks over a Unix socket. It only ever reads stores,
    settings and repositories.

    \b
    First:  claudemem-daemon demo
    Then:   claudemem-daemon service install
            claudemem-daemon hooks install claude-code
    """


def run(serve: Serve) -> int:
    """Run the command line, with `serve` for the daemon itself; every error is one line on standard
    error and an exit code. Where the reader of a pipe has left, as `head` does, it ends as git does:
    by SIGPIPE, so that a script can tell "cut short" from "failed"."""
    instruction = os.environ.get(COMPLETE)
    try:
        if instruction:
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, PROGRAM, COMPLETE, instruction)
        return _run(serve)
    except BrokenPipeError:
        return _end_by_sigpipe()


def _run(serve: Serve) -> int:
    # Not by click's `main`, which makes an exit code 1 of a broken pipe.
    try:
        with cli.make_context(PROGRAM, sys.argv[1:], obj=serve) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt, EOFError):
        click.echo(err=True)
        return 130
    except ClaudememError as error:
        return _say(error.message, error.exit_code)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("CLAUDEMEM_DAEMON_DEBUG"):
            raise
        if isinstance(error, OSError):
            _give_output_up()
            where = f"{error.filename}: " if error.filename else ""
            return _say(f"{where}{error.strerror or error}", 1)
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return _say(f"unexpected {what} (a bug; CLAUDEMEM_DAEMON_DEBUG=1 shows where)", 1)
    return result if isinstance(result, int) else 0


def _end_by_sigpipe() -> int:
    """Python ignores the signal until here: a daemon that hangs up on us is no reason to end."""
    _give_output_up()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPIPE,))
    os.kill(os.getpid(), signal.SIGPIPE)
    return 128 + signal.SIGPIPE


def _give_output_up() -> None:
    """What is still buffered cannot be written and must not complain again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(message: str, code: int) -> int:
    encoding = sys.stderr.encoding or "utf-8"
    text = message.encode(encoding, "backslashreplace").decode(encoding)
    from claudemem_daemon.cli.options import colours

    click.secho(f"{PROGRAM}: {text}", fg="red", err=True, color=colours(sys.stderr))
    return code
