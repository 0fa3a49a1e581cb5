"""How commands ask: the daemon, or this process by the same code where none answers.

The pipeline is imported only where no daemon answers: it takes half the time of a command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from claudemem_daemon.cli.options import waiting
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question

if TYPE_CHECKING:
    from claudemem_daemon.pipeline import Pipeline


def context_of(question: Question) -> str:
    text: str = ask(
        question,
        lambda client: client.get("/api/context/inject", _parameters(question)).decode(),
        lambda pipeline, until: pipeline.context(question, until).context.text,
    )
    return text


def rows_of(question: Question) -> dict[str, Any]:
    """The answer of `/v1/query`."""

    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        from claudemem_daemon.shapes import query_shape

        return query_shape(pipeline.ask(question, until))

    shape: dict[str, Any] = ask(
        question, lambda client: client.post("/v1/query", _body(question)), here
    )
    return shape


def explained(question: Question, row: str | None = None, *, daemon: bool = True) -> dict[str, Any]:
    """The answer of `/v1/explain`; `daemon` is whether one may be asked."""

    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        from claudemem_daemon import lookup

        ref = lookup.parse_refs((row,))[0] if row is not None else None
        return lookup.explained(pipeline, question, ref, until)

    def by_daemon(client: Client) -> Any:
        return client.post("/v1/explain", _body(question) | {"observation": row})

    shape: dict[str, Any] = ask(question, by_daemon if daemon else None, here)
    return shape


def looked_up(route: str, question: Question, **given: str) -> dict[str, Any]:
    """The answer of `/v1/observations`, `/v1/search` or `/v1/projects`, which takes what is `given`
    besides the question."""

    def here(pipeline: Pipeline, until: Deadline) -> dict[str, Any]:
        from claudemem_daemon import lookup

        texts = {name: [text] for name, text in given.items()}
        return lookup.look_up(route, texts, pipeline, question, until)

    shape: dict[str, Any] = ask(
        question, lambda client: client.get_json(route, _parameters(question) | given), here
    )
    return shape


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


def _parameters(question: Question) -> dict[str, str]:
    """The question as a query string has it."""
    flags = {"full": question.full, "colors": question.human}
    given = _body(question) | {name: "true" for name, asked in flags.items() if asked}
    return {
        name: ",".join(value) if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if value is not None and name != "env"
    }


def _body(question: Question) -> dict[str, Any]:
    """The question as the body of a POST."""
    names = ("cwd", "scope", "limit", "types", "concepts")
    return {
        **{name: getattr(question, name) for name in names},
        "projects": list(question.projects) or None,
        "env": dict(question.env),
    }
