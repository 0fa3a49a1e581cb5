"""The routes of the interface; each a few lines between the schema and the pipeline."""

from __future__ import annotations

import os
import time
from asyncio import Future
from contextlib import suppress
from functools import lru_cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from claudemem_daemon import PROTOCOL, __version__, lookup
from claudemem_daemon.deadline import Deadline
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
    json_response,
)
from claudemem_daemon.server.headers import OF_QUESTION, client_of, environment_of
from claudemem_daemon.server.hooks.handler import HookHandler
from claudemem_daemon.server.lookups import lookup_routes
from claudemem_daemon.server.schema import parse_body, parse_query
from claudemem_daemon.server.status import with_problems
from claudemem_daemon.shapes import as_json, warning_shapes
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool

MAX_PARSED = 512
RECHECK_SECONDS = 0.2
"""For a store that failed the last time, when somebody asks how it is."""


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
        self._question = lru_cache(MAX_PARSED)(_question)
        self._hooks = HookHandler(parts.pipeline, parts.sessions, parts.answers, parts.workers)
        self._rechecking: Future[None] | None = None

    def table(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route(INJECT, self.inject, methods=["GET"]),
            Route("/v1/query", self.query, methods=["POST"]),
            Route("/v1/explain", self.explain, methods=["POST"]),
            Route("/v1/hooks/{platform}", self.hook, methods=["POST"]),
            *lookup_routes(self._parts),
            Route("/v1/status", self.status, methods=["GET"]),
            Route("/v1/reload", self.reload, methods=["POST"]),
        ]

    async def healthz(self, _request: Request) -> Response:
        """By what was seen last: it looks at no path and waits for nothing."""
        pipeline = self._parts.pipeline
        troubled = any(not store.ok for store in pipeline.pool.describe())
        if troubled and (self._rechecking is None or self._rechecking.done()):
            self._rechecking = self._parts.workers.submit(lambda: recheck(pipeline.pool))
        degraded = troubled or pipeline.configuration.rejected
        return json_response(
            {
                "status": "degraded" if degraded else "ok",
                "version": __version__,
                "protocol": PROTOCOL,
                "pid": os.getpid(),
            }
        )

    async def inject(self, request: Request) -> Response:
        headers = tuple(pair for pair in _headers(request) if pair[0] in OF_QUESTION)
        question = self._question(request.scope["query_string"], headers)
        body = await self._parts.answers.get("context", question)
        return Response(body, headers={"Content-Type": TEXT})

    async def query(self, request: Request) -> Response:
        question = parse_body(await request.body()).question(_headers(request))
        return Response(await self._parts.answers.get("query", question), media_type=JSON)

    async def explain(self, request: Request) -> Response:
        body = parse_body(await request.body())
        question = body.question(_headers(request))

        def work(deadline: Deadline) -> bytes:
            pipeline = self._parts.pipeline
            return as_json(lookup.explained(pipeline, question, body.observation, deadline))

        answer = await self._parts.answers.work(question, work, like="explain")
        return Response(answer, media_type=JSON)

    async def hook(self, request: Request) -> Response:
        platform = request.scope["path"].removeprefix(HOOKS)
        headers = _headers(request)
        environ = environment_of(headers)
        body = await request.body()
        client = client_of(headers)
        delivery = await self._hooks.answer(platform, body, environ, client)
        answer = delivery.answer
        seconds = time.monotonic() - client.came
        self._parts.metrics.hook(platform, answer.event, answer.cwd, seconds)
        delivery.follow(request.scope["state"]["connection"], client)
        return Response(answer.body, media_type=JSON)

    async def status(self, _request: Request) -> Response:
        parts, requests = self._parts, self._parts.metrics.snapshot()

        def work(_deadline: Deadline) -> bytes:
            recheck(parts.pipeline.pool)
            return as_json(with_problems(parts.state(requests)))

        return Response(await parts.answers.work(Question(cwd=None), work), media_type=JSON)

    async def reload(self, request: Request) -> Response:
        # It says nothing to us, but a client that is answered while it still sends sees an error.
        await request.body()
        reload = self._parts.pipeline.configuration.reload
        done = await self._parts.answers.work(Question(cwd=None), lambda _deadline: reload())
        return json_response({"revision": done.revision, "warnings": warning_shapes(done.warnings)})


def _question(query: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> Question:
    return parse_query(query).question(headers)


def recheck(pool: StorePool) -> None:
    """Try stores that failed the last time again: trouble that has ended is no longer told."""
    for store in pool.describe():
        if not store.ok:
            with (
                suppress(StoreError),
                pool.reading(StoreRef(store.path, ""), Deadline.after(RECHECK_SECONDS)),
            ):
                pass


def _headers(request: Request) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    return headers
