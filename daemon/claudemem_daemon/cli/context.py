"""`context` and `query`: the text that a hook gives to an assistant, and the rows behind it."""

from __future__ import annotations

import sys
from typing import Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import context_of, explained, rows_of
from claudemem_daemon.cli.options import (
    colours,
    explain_command_line,
    json_option,
    make_question,
    plain,
    print_json,
    question_options,
)
from claudemem_daemon.context.sanitize import tagless
from claudemem_daemon.errors import InvalidRequest


@click.command("context")
@question_options
@click.option("--full", is_flag=True, help="No limit, no size cap, every row in full.")
@click.option("--json", "as_shape", is_flag=True, help="The text and the rows as JSON.")
@click.option(
    "--human", is_flag=True, help="For people; with colours in a terminal, unless NO_COLOR is set."
)
def context_command(as_shape: bool, human: bool, full: bool, **options: Any) -> None:
    """Show the text that a hook puts in front of a prompt in this folder.

    Where it is empty, standard error says why.
    """
    if as_shape and human:
        raise InvalidRequest("give --json or --human, not both")
    question = make_question(**options, full=full, human=human)
    text = context_of(question)
    if as_shape:
        print_json({"context": text, **rows_of(question)})
        return
    if text:
        if human and not sys.stdout.isatty():
            text = tagless(text)
        click.echo(text.encode("utf-8", "replace").decode(), color=colours())
    why = explained(question)
    if not why["causes"] and not any(count["included"] for count in why["counts"]):
        screen.say(plain(why["verdict"], 2000), "bold", errors=True)
    # In a terminal the text above is read by the same person.
    screen.causes(why, errors=True, told=text if sys.stdout.isatty() else "")


@click.command("query")
@question_options
@json_option
def query_command(as_shape: bool, **options: Any) -> None:
    """List the observations behind the context, newest first."""
    shape = rows_of(make_question(**options))
    if as_shape:
        print_json(shape)
        return
    if shape["observations"]:
        screen.print_observations(shape["observations"])
    else:
        screen.say(f"no observations; `{explain_command_line()}` says why")
    screen.warn(shape["warnings"])
