"""`context` and `query`, and how commands ask: the daemon, or this process by the same code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from claudemem_daemon import lookup
from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli.options import (
    colours,
    make_question,
    plain,
    question_options,
    waiting,
)
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.lookup import Ref
from claudemem_daemon.shapes import as_json, query_shape

T = TypeVar("T")


@click.command("context")
@question_options
@click.option("--full", is_flag=True, help="No limit, no size cap, every row in full.")
@click.option("--json", "as_shape", is_flag=True, help="The text and the rows as JSON.")
@click.option(
    "--human", is_flag=True, help="For people; in a terminal with colours, unless NO_COLOR is set."
)
def context_command(as_shape: bool, human: bool, full: bool, **options: Any) -> None:
    """The text that a hook puts in front of a prompt in this folder.

    Where it is empty, standard error says why.
    """
    if as_shape and human:
        raise click.UsageError("--json and --human are two different outputs: give one of them")
    question = make_question(**options, full=full, human=human)

    def text_here(pipeline: Pipeline, deadline: Deadline) -> bytes:
        text = pipeline.context(question, deadline).context.text
        return text.encode("utf-8", "replace")

    text = ask(question, lambda client: client.get(_INJECT, parameters_of(question)), text_here)
    if as_shape:
        shape = _rows(question)
        click.echo(as_json({"context": text.decode(), **shape}))
        return
    if text:
        click.echo(text.decode("utf-8", "replace"), color=colours())
    from claudemem_daemon.cli import screen

    why = explained(question)
    if not text and not why["causes"]:
        screen.say(plain(why["verdict"], 2000), "bold", errors=True)
    screen.causes(why, errors=True)


@click.command("query")
@question_options
@click.option("--json", "as_shape", is_flag=True, help="The whole answer as JSON.")
def query_command(as_shape: bool, **options: Any) -> None:
    """The observations behind the context, newest first."""
    question = make_question(**options)
    shape = _rows(question)
    if as_shape:
        click.echo(as_json(shape))
        return
    from claudemem_daemon.cli import screen

    if shape["observations"]:
        screen.print_observations(shape["observations"])
    else:
        screen.say("no observations; `claudemem-daemon explain` says why")
    screen.warn(shape["warnings"])


_INJECT = "/api/context/inject"


def ask(
    question: Question,
    daemon: Callable[[Client], T],
    here: Callable[[Pipeline, Deadline], T],
) -> T:
    """The daemon's answer; where none listens, or it hangs, the same answer made here."""
    try:
        with waiting("asking the daemon"):
            return daemon(Client(os.environ))
    except Unreachable as error:
        if error.trouble not in ("not running", "stale socket"):
            print(f"claudemem-daemon: {error.message}; answered without it", file=sys.stderr)
    return answer_here(question, here)


def answer_here(
    question: Question, here: Callable[[Pipeline, Deadline], T], *, untouched: bool = False
) -> T:
    """An answer made in this process, inside the deadline of the settings."""
    with open_pipeline(os.environ, untouched=untouched) as pipeline, waiting("reading"):
        seconds = pipeline.configuration.snapshot(question).timeout_ms / 1000
        return here(pipeline, Deadline.after(seconds))


def explained(question: Question, row: Ref | None = None, *, daemon: bool = True) -> dict[str, Any]:
    """The answer of `/v1/explain`, also where no daemon listens. Without `daemon`, for
    commands that change nothing, none is asked and no store gets side files."""
    body = {**body_of(question), "observation": row.text if row is not None else None}

    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        shape: dict[str, Any] = json.loads(
            as_json(lookup.explained(pipeline, question, row, until))
        )
        return shape

    if not daemon:
        return answer_here(question, here, untouched=True)
    return ask(question, lambda client: client.post("/v1/explain", body), here)


def _rows(question: Question) -> dict[str, Any]:
    def here(pipeline: Pipeline, deadline: Deadline) -> dict[str, Any]:
        shape: dict[str, Any] = json.loads(as_json(query_shape(pipeline.ask(question, deadline))))
        return shape

    answer: dict[str, Any] = ask(
        question, lambda client: client.post("/v1/query", body_of(question)), here
    )
    return answer


def parameters_of(question: Question) -> dict[str, str]:
    """The question as a query string has it."""
    given = {
        "cwd": question.cwd,
        "projects": ",".join(question.projects) or None,
        "scope": question.scope,
        "limit": None if question.limit is None else str(question.limit),
        "types": None if question.types is None else ",".join(question.types),
        "concepts": None if question.concepts is None else ",".join(question.concepts),
        "full": "true" if question.full else None,
        "colors": "true" if question.human else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def body_of(question: Question) -> dict[str, Any]:
    """The question as the body of a POST."""
    return {
        "cwd": question.cwd,
        "projects": list(question.projects) or None,
        "scope": question.scope,
        "limit": question.limit,
        "types": question.types,
        "concepts": question.concepts,
        "env": dict(question.env),
    }
