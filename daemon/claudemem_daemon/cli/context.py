"""`context` and `query`, and how commands ask: the daemon, or this process by the same code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import (
    colours,
    json_option,
    make_question,
    plain,
    print_json,
    question_options,
    waiting,
)
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question

if TYPE_CHECKING:
    # Half the time of a command that the daemon answers, so imported only where none does.
    from claudemem_daemon.pipeline import Pipeline
    from claudemem_daemon.selection.by_id import Ref


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

    text: str = ask(
        question,
        lambda client: client.get("/api/context/inject", parameters_of(question)).decode(),
        lambda pipeline, until: pipeline.context(question, until).context.text,
    )
    if as_shape:
        print_json({"context": text, **_rows(question)})
        return
    if text:
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
    question = make_question(**options)
    shape = _rows(question)
    if as_shape:
        print_json(shape)
        return
    if shape["observations"]:
        screen.print_observations(shape["observations"])
    else:
        screen.say("no observations; `claudemem-daemon explain` says why")
    screen.warn(shape["warnings"])


def ask(
    question: Question,
    daemon: Callable[[Client], Any] | None,
    here: Callable[[Pipeline, Deadline], Any],
) -> Any:
    """The daemon's answer as JSON; where none listens, or it hangs, the same answer made here, inside
    the deadline of the settings. Where `daemon` is None, for commands that change nothing, none is
    asked and no store gets side files."""
    if daemon is not None:
        try:
            with waiting("asking the daemon"):
                return daemon(Client(os.environ))
        except Unreachable as error:
            if error.trouble not in ("not running", "stale socket"):
                print(f"claudemem-daemon: {error.message}; answered without it", file=sys.stderr)
    from claudemem_daemon.api import open_pipeline
    from claudemem_daemon.shapes import as_json

    with open_pipeline(os.environ, untouched=daemon is None) as pipeline, waiting("reading"):
        seconds = pipeline.configuration.snapshot(question).timeout_ms / 1000
        return json.loads(as_json(here(pipeline, Deadline.after(seconds))))


def explained(question: Question, row: Ref | None = None, *, daemon: bool = True) -> dict[str, Any]:
    """The answer of `/v1/explain`; `daemon` is whether one may be asked."""
    body = {**body_of(question), "observation": row.text if row is not None else None}

    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        from claudemem_daemon import lookup

        return lookup.explained(pipeline, question, row, until)

    def by_daemon(client: Client) -> Any:
        return client.post("/v1/explain", body)

    shape: dict[str, Any] = ask(question, by_daemon if daemon else None, here)
    return shape


def _rows(question: Question) -> dict[str, Any]:
    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        from claudemem_daemon.shapes import query_shape

        return query_shape(pipeline.ask(question, until))

    shape: dict[str, Any] = ask(
        question, lambda client: client.post("/v1/query", body_of(question)), here
    )
    return shape


def parameters_of(question: Question) -> dict[str, str]:
    """The question as a query string has it."""
    flags = {"full": question.full, "colors": question.human}
    given = body_of(question) | {name: "true" for name, asked in flags.items() if asked}
    return {
        name: ",".join(value) if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if value is not None and name != "env"
    }


def body_of(question: Question) -> dict[str, Any]:
    """The question as the body of a POST."""
    names = ("cwd", "scope", "limit", "types", "concepts")
    return {
        **{name: getattr(question, name) for name in names},
        "projects": list(question.projects) or None,
        "env": dict(question.env),
    }
