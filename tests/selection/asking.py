"""Questions put to real stores, without a repository or a daemon around them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.by_id import parse_ref
from claudemem_daemon.selection.explain import Explanation, explain
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.selection.select import select
from claudemem_daemon.settings.checkout_env import CheckoutEnv
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.model import Located, StoreRef
from claudemem_daemon.stores.pool import StorePool

QUESTION = Question(cwd=None, projects=("app",))


def exact(key: str, *, bare: bool = False) -> ProjectKey:
    return ProjectKey(
        key, "exact", "worktree" if "/" in key or bare else "main", None, "told", bare
    )


def prefix(key: str) -> ProjectKey:
    return ProjectKey(key, "prefix", "removed", None, "removed ones")


def make_keys(
    *keys: ProjectKey | str, excluded: Sequence[str] = (), checkouts: Sequence[str] = ()
) -> ProjectKeys:
    full = tuple(exact(one) if isinstance(one, str) else one for one in keys)
    return ProjectKeys(full, tuple(excluded), "app", tuple(checkouts), ())


def make_settings(**values: Any) -> Settings:
    """Built-in defaults with nothing restricted, but for what is given."""
    configuration = Configuration({"HOME": "/nowhere", "PATH": os.environ["PATH"]})
    settings = configuration.snapshot(QUESTION)
    free: dict[str, Any] = {"types_restricted": False, "concepts_restricted": False}
    for name in ("types", "concepts"):
        if name in values:
            free[f"{name}_restricted"] = True
    return dataclasses.replace(settings, **{**free, **values})


def located(*paths: str) -> Located:
    return Located(tuple(StoreRef(path, "told") for path in paths), (), (), ())


def resolve(
    question: Question, settings: Settings, keys: ProjectKeys, stores: Located
) -> ResolvedQuestion:
    return ResolvedQuestion(question, settings, None, keys, stores, CheckoutEnv(question.env))


@contextmanager
def open_pool() -> Iterator[StorePool]:
    pool = StorePool(idle_seconds=60)
    try:
        yield pool
    finally:
        pool.close()


def ask(
    *paths: str,
    keys: ProjectKeys | None = None,
    question: Question = QUESTION,
    pool: StorePool | None = None,
    within: float = 20.0,
    **settings: Any,
) -> Selection:
    """The selection of one question to these stores; by default for the key `app`."""
    wanted = keys if keys is not None else make_keys("app")
    resolved = resolve(question, make_settings(**settings), wanted, located(*paths))
    deadline = Deadline.after(within)
    if pool is not None:
        return select(resolved, pool, deadline)
    with open_pool() as own:
        return select(resolved, own, deadline)


def ask_why(
    *paths: str,
    observation: int | None = None,
    keys: ProjectKeys | None = None,
    question: Question = QUESTION,
    within: float = 20.0,
    **settings: Any,
) -> Explanation:
    wanted = keys if keys is not None else make_keys("app")
    resolved = resolve(question, make_settings(**settings), wanted, located(*paths))
    row = parse_ref(str(observation)) if observation is not None else None
    deadline = Deadline.after(within)
    with open_pool() as pool:
        selection = select(resolved, pool, deadline)
        shown = len(selection.observations)
        return explain(resolved, selection, shown, pool, deadline, row)


def ids(selection: Selection) -> list[int]:
    return [one.id for one in selection.observations]
