"""The Python interface: the daemon's answers without a daemon."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, get_args

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.local import caller_environment, state_dir
from claudemem_daemon.memo import Memo
from claudemem_daemon.pipeline import MAX_STEPS_WEIGHT, Pipeline
from claudemem_daemon.question import Question, Scope, contradiction
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.selection.model import Observation
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.trust import Trust


def generate_context(
    *,
    cwd: str | os.PathLike[str] | None = None,
    projects: Iterable[str] | None = None,
    scope: Scope | None = None,
    limit: int | None = None,
    full: bool = False,
    human: bool = False,
) -> str:
    """The text that a hook would put in front of a prompt in `cwd` (default: the current folder),
    or for the named project keys. Empty when there is nothing to show.

    Raises `claudemem_daemon.errors.ClaudememError` only for a question that makes no sense;
    unreadable stores are named in the text.
    """
    question = _question(cwd, projects, scope=scope, limit=limit, full=full, human=human)
    with open_pipeline(os.environ) as pipeline:
        return pipeline.context(question, _deadline(pipeline, question)).context.text


def query_observations(
    *,
    cwd: str | os.PathLike[str] | None = None,
    projects: Iterable[str] | None = None,
    scope: Scope | None = None,
    limit: int | None = None,
    types: Iterable[str] | None = None,
    concepts: Iterable[str] | None = None,
    platform_source: str | None = None,
) -> tuple[Observation, ...]:
    """The observations behind `generate_context`, newest first; epochs in milliseconds."""
    question = _question(
        cwd,
        projects,
        scope=scope,
        limit=limit,
        types=_list("types", types),
        concepts=_list("concepts", concepts),
        platform_source=platform_source,
    )
    with open_pipeline(os.environ) as pipeline:
        return pipeline.ask(question, _deadline(pipeline, question)).selection.observations


def open_pipeline(environ: Mapping[str, str], *, untouched: bool = False) -> closing[Pipeline]:
    """For a `with` statement: a pipeline with the same parts as the daemon's; `untouched` is for the
    pool."""
    return closing(build_pipeline(environ, untouched=untouched))


def build_pipeline(environ: Mapping[str, str], *, untouched: bool = False) -> Pipeline:
    """Wire the parts; reads nothing yet and creates nothing."""
    steps = Memo(max_weight=MAX_STEPS_WEIGHT)
    return Pipeline(
        Configuration(environ, steps),
        Repositories(environ.get("HOME"), steps),
        Trust(os.path.join(state_dir(environ), "trusted.json"), steps),
        StorePool(untouched=untouched),
        steps,
    )


def _deadline(pipeline: Pipeline, question: Question) -> Deadline:
    return Deadline.after(pipeline.configuration.snapshot(question).timeout_ms / 1000)


def _list(name: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        raise InvalidRequest(f"{name} is a list of texts, not one text")
    texts = None if given is None else tuple(given)
    if not all(isinstance(text, str) for text in texts or ()):
        raise InvalidRequest(f"{name} is a list of texts alone")
    return texts


def _question(
    cwd: str | os.PathLike[str] | None, projects: Iterable[str] | None, **others: Any
) -> Question:
    names = _list("projects", projects)
    scope, limit = others["scope"], others["limit"]
    if scope is not None and scope not in get_args(Scope):
        raise InvalidRequest(f"scope is one of {', '.join(get_args(Scope))}, not {scope!r}")
    # True is a number to Python.
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidRequest(f"limit is a whole number from 0 on, not {limit!r}")
    wrong = contradiction(cwd, names)
    if wrong is not None:
        raise InvalidRequest(wrong)
    folder = (
        None if names else os.path.abspath(os.fsdecode(cwd) if cwd is not None else os.getcwd())
    )
    # The caller's environment is that of this process.
    return Question(folder, names or (), caller_environment(os.environ), **others)
