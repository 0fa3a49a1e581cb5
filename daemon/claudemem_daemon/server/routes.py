"""The routes of the interface; each a few lines between the schema and the pipeline."""

from __future__ import annotations

import os
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from claudemem_daemon import PROTOCOL, __version__, lookup
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.problems import find_problems
from claudemem_daemon.errors import ClaudememError, StoreError
from claudemem_daemon.question import Question
from claudemem_daemon.server.app import (
    HOOKS,
    INJECT,
    JSON,
    TEXT,
    Application,
    ErrorAnswers,
    Parts,
    Whole,
)
from claudemem_daemon.server.headers import OF_QUESTION, client_of, environment_of
from claudemem_daemon.server.hooks.handler import HookHandler
from claudemem_daemon.server.schema import parse_body, parse_query
from claudemem_daemon.shapes import as_json, warning_shapes
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool

MAX_PARSED: Final = 512
RECHECK_SECONDS: Final = 0.2
"""For a store that failed the last time, when somebody asks how it is."""
SCHEMA: Final = 1
"""Of `/v1/status`: grows when a key changes its meaning; new keys may come at any time."""


def make_app(parts: Parts) -> Application:
    """The whole application."""
    routes = Routes(parts)
    errors = ErrorAnswers(parts.metrics)
    router = Starlette(
        routes=routes.table(),
        exception_handlers={
            ClaudememError: errors.ours,
            HTTPException: errors.http,
            # Else Starlette answers with plain text.
            Exception: errors.unexpected,
        },
    )
    router.router.redirect_slashes = False
    fast = {("GET", INJECT): routes.inject, ("POST", HOOKS): routes.hook}
    return Application(parts, errors, fast, router)


class Routes:
    """One method a route."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # The same hook asking again is not parsed and validated again.
        self._parse_query = lru_cache(MAX_PARSED)(parse_query)
        self._hooks = HookHandler(
            parts.pipeline, parts.sessions, parts.answers, parts.workers, parts.metrics
        )
        self._rechecking: Future[None] | None = None

    def table(self) -> list[Route]:
        get = (
            ("/healthz", self.healthz),
            (INJECT, self.inject),
            ("/v1/observations", self.look_up),
            ("/v1/search", self.look_up),
            ("/v1/projects", self.look_up),
            ("/v1/status", self.status),
        )
        post = (
            ("/v1/query", self.query),
            ("/v1/explain", self.explain),
            (HOOKS + "{platform}", self.hook),
            ("/v1/reload", self.reload),
        )
        return [
            Route(path, handler, methods=[method])
            for method, routes in (("GET", get), ("POST", post))
            for path, handler in routes
        ]

    async def healthz(self, _request: Request) -> Response:
        """By what was seen last: it looks at no path and waits for nothing."""
        pipeline = self._parts.pipeline
        troubled = any(not store.ok for store in pipeline.pool.describe())
        if troubled and (self._rechecking is None or self._rechecking.done()):
            self._rechecking = self._parts.workers.submit(lambda: recheck(pipeline.pool))
        degraded = troubled or pipeline.configuration.rejected
        shape = {
            "status": "degraded" if degraded else "ok",
            "version": __version__,
            "protocol": PROTOCOL,
            "pid": os.getpid(),
        }
        return Response(as_json(shape), media_type=JSON)

    async def inject(self, request: Request) -> Whole:
        headers = tuple(pair for pair in request.scope["headers"] if pair[0] in OF_QUESTION)
        question = self._parse_query(request.scope["query_string"], headers)
        body = await self._parts.answers.get("context", question)
        return Whole(body, TEXT)

    async def query(self, request: Request) -> Response:
        question, _ = parse_body(await request.body(), request.scope["headers"])
        return Response(await self._parts.answers.get("query", question), media_type=JSON)

    async def explain(self, request: Request) -> Response:
        question, observation = parse_body(await request.body(), request.scope["headers"])

        def work(deadline: Deadline) -> dict[str, Any]:
            return lookup.explained(self._parts.pipeline, question, observation, deadline)

        return await self._by_worker(question, work, like="explain")

    async def look_up(self, request: Request) -> Response:
        query: bytes = request.scope["query_string"]
        question = parse_query(query, request.scope["headers"])
        path, pipeline = request.scope["path"], self._parts.pipeline

        def work(deadline: Deadline) -> dict[str, Any]:
            given = parse_qs(query.decode("latin-1"), errors="surrogateescape", max_num_fields=1000)
            return lookup.look_up(path, given, pipeline, question, deadline)

        return await self._by_worker(question, work, like="lookup")

    async def hook(self, request: Request) -> Whole:
        headers = request.scope["headers"]
        platform = request.scope["path"].removeprefix(HOOKS)
        body = await request.body()
        client = client_of(headers)
        connection = request.scope["state"]["connection"]
        environ = environment_of(headers)
        answer = await self._hooks.answer(platform, body, environ, client, connection)
        return Whole(answer, JSON)

    async def status(self, _request: Request) -> Response:
        parts, requests = self._parts, self._parts.metrics.snapshot()

        def work(_deadline: Deadline) -> dict[str, Any]:
            recheck(parts.pipeline.pool)
            state = parts.state(requests)
            problems = find_problems(state)
            degraded = any(problem.severity != "note" for problem in problems)
            return {
                "schema": SCHEMA,
                "status": "degraded" if degraded else "ok",
                **state,
                "problems": [problem._asdict() for problem in problems],
            }

        return await self._by_worker(Question(cwd=None), work)

    async def reload(self, request: Request) -> Response:
        # It says nothing to us, but a client that is answered while it still sends sees an error.
        await request.body()

        def work(_deadline: Deadline) -> dict[str, Any]:
            done = self._parts.pipeline.reload()
            return {"revision": done.revision, "warnings": warning_shapes(done.warnings)}

        return await self._by_worker(Question(cwd=None), work)

    async def _by_worker(
        self, question: Question, work: Callable[[Deadline], Any], like: str | None = None
    ) -> Response:
        answers = self._parts.answers
        body = await answers.work(question, lambda deadline: as_json(work(deadline)), like)
        return Response(body, media_type=JSON)


def recheck(pool: StorePool) -> None:
    """Try stores that failed the last time again: trouble that has ended is no longer told."""
    for store in pool.describe():
        if not store.ok:
            with (
                suppress(StoreError),
                pool.reading(StoreRef(store.path, ""), Deadline.after(RECHECK_SECONDS)),
            ):
                pass
