"""Options that several commands share, and how a stranger's text is printed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from threading import Timer
from typing import IO, Any

import click

from claudemem_daemon.context.sanitize import TAG, one_line, tagless
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.local import caller_environment
from claudemem_daemon.question import Question, contradiction
from claudemem_daemon.settings.parsers import ids

PATIENCE = 1.0
"""Seconds."""

Serve = Callable[[MutableMapping[str, str]], int]
"""Runs the daemon in an environment; returns its exit code."""


NUMBER = click.IntRange(min=0)
cwd_option = click.option(
    "--cwd",
    type=click.Path(readable=False),
    help="Folder to answer for (default: the current one).",
)
projects_option = click.option(
    "--projects", metavar="LIST", help="Comma-separated project keys instead of a folder."
)
scope_option = click.option(
    "--scope",
    type=click.Choice(["all", "parent", "self"]),
    help="Every worktree's rows, the main checkout's and this one's, or this one's alone.",
)
limit_option = click.option("--limit", type=NUMBER, metavar="NUMBER", help="How many rows at most.")
types_option = click.option(
    "--types", metavar="LIST", help="Comma-separated list of allowed types."
)
concepts_option = click.option(
    "--concepts", metavar="LIST", help="Comma-separated concepts; a row needs one."
)
since_option = click.option(
    "--since", metavar="TIME", help="Only what is newer: 2d, 12h, 30m, 1w or 2026-01-31."
)
json_option = click.option("--json", "as_shape", is_flag=True, help="The whole answer as JSON.")


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return cwd_option(projects_option(command))


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return place_options(scope_option(limit_option(types_option(concepts_option(command)))))


def make_question(
    *,
    cwd: str | None,
    projects: str | None = None,
    scope: Any = None,
    limit: int | None = None,
    types: str | None = None,
    concepts: str | None = None,
    full: bool = False,
    human: bool = False,
) -> Question:
    """The question the options ask; raises `InvalidRequest` when they contradict each other."""
    names = _names(projects)
    wrong = contradiction(cwd, names, "--")
    if wrong is not None:
        raise InvalidRequest(wrong)
    return Question(
        cwd=None if names else folder(cwd), projects=names or (), scope=scope, limit=limit,
        types=_ids("types", types), concepts=_ids("concepts", concepts),
        env=caller_environment(os.environ),
        full=full, human=human,
    )  # fmt: skip


def explain_command_line(*row: str) -> str:
    """`explain` about the same question as this command's, as a shell takes it."""
    given = click.get_current_context().params
    options = [
        part
        for name in ("cwd", "projects", "scope", "limit", "types", "concepts")
        if (value := given.get(name)) is not None
        for part in (f"--{name}", str(value))
    ]
    return shlex.join(["claudemem-daemon", "explain", *options, *row])


def narrowed() -> str:
    """The options of this command that leave out what there is, as the beginning of a sentence that
    says that nothing was found; empty without any."""
    given = click.get_current_context().params
    options = [
        part
        for name in ("projects", "scope", "since", "limit")
        if (value := given.get(name)) not in (None, "") and (name != "limit" or value == 0)
        for part in (f"--{name}", str(value))
    ]
    return f"with {plain(shlex.join(options), 300)}, " if options else ""


def folder(cwd: str | None) -> str:
    """The folder asked about, absolute; a link stays the link it is."""
    if cwd is None:
        try:
            here = os.getcwd()
        except OSError:
            raise InvalidRequest("the current folder is gone; name one with --cwd") from None
        logical = os.environ.get("PWD", "")
        # A shell in a symbolic link knows its name, and so do the rows written from it.
        same = logical.startswith("/") and os.path.realpath(logical) == here
        return logical if same else here
    return os.path.abspath(os.path.expanduser(cwd))


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _ids(option: str, text: str | None) -> tuple[str, ...] | None:
    """In every form that the setting has; None for an empty text."""
    try:
        wanted: tuple[str, ...] | None = None if text is None else ids(text, "").value
    except ValueError as error:
        raise InvalidRequest(f"--{option}: {error}") from None
    return wanted


def colours(stream: IO[str] | None = None) -> bool:
    """Whether standard output (or `stream`) is a person's terminal that takes them; no-color.org's
    variable says no for all programs."""
    return (
        (stream or sys.stdout).isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Show a person that something is at work, once it takes longer than they wait unasked."""
    context = click.get_current_context(silent=True)
    as_shape = context is not None and context.params.get("as_shape")
    if as_shape or not (colours() and sys.stderr.isatty()):
        yield
        return
    with ExitStack() as spinner:

        def start() -> None:
            from rich.console import Console

            spinner.enter_context(Console(stderr=True).status(words))

        timer = Timer(PATIENCE, start)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def plain(text: str, limit: int = 200) -> str:
    """A stranger's text: one line, no escape sequence, printable, and cut for a terminal. In a pipe,
    which may lead to an assistant, nothing is cut and no tag opens."""
    shown = one_line(text, limit) if sys.stdout.isatty() else tagless(one_line(text))
    return shown.encode("utf-8", "replace").decode()


def pasteable(text: str) -> str:
    """A fix or a command, whole, as it is pasted into a shell or into settings.json. In a pipe no tag
    opens: `<` is written as JSON or a shell's quotes allow it, with the same meaning."""
    line = " ".join(map(one_line, text.split(" ")))
    if not sys.stdout.isatty():
        in_quotes = "\\x3c" if " $'" in line else "<''"
        escaped = "\\u003c" if line.startswith(('put "', '"')) else in_quotes
        line = TAG.sub(lambda _: escaped, line)
    return line.encode("utf-8", "replace").decode()


def path_text(path: str) -> str:
    """A path as a person reads it: odd bytes and control characters escaped; in a pipe no tag opens."""
    if not path.isprintable():
        raw = os.fsencode(path).decode("utf-8", "backslashreplace")
        path = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in raw)
    return path if sys.stdout.isatty() else tagless(path)


def print_json(shape: object) -> None:
    """One line of ASCII."""
    click.echo(json.dumps(shape, separators=(",", ":")))


def setting_text(value: object) -> str:
    """A setting's value as settings.json has it, lists as comma lists."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False) if value != {} else ""
