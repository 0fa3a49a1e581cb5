"""The routes of the interface; each a few lines between the schema and the pipeline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from claudemem_daemon import PROTOCOL, __version__, lookup
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import ClaudememError, DeadlineExceeded
from claudemem_daemon.question import Question
from claudemem_daemon.server.answers import PIPELINE_SHARE, key_of
from claudemem_daemon.server.app import INJECT, JSON, TEXT, Asked, Door, Parts, Refusals
from claudemem_daemon.server.hooks.handler import HookHandler, read_client
from claudemem_daemon.server.lookups import Lookups
from claudemem_daemon.server.schema import header_environment, parse_body
from claudemem_daemon.server.status import build_status
from claudemem_daemon.shapes import as_json, warning_shapes

T = TypeVar("T")


def make_app(parts: Parts) -> Door:
    """The whole application."""
    asked = Asked()
    routes = Routes(parts, asked)
    refusals = Refusals(parts.metrics)
    inside = Starlette(
        routes=routes.table(),
        exception_handlers={ClaudememError: refusals.ours, HTTPException: refusals.http},
    )
    inside.router.redirect_slashes = False
    return Door(parts, asked, inside)


class Routes:
    """One method a route."""

    def __init__(self, parts: Parts, asked: Asked) -> None:
        self._parts = parts
        self._asked = asked
        self._hooks = HookHandler(parts.pipeline, parts.sessions, parts.workers.submit)

    def table(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route(INJECT, self.inject, methods=["GET"]),
            Route("/v1/query", self.query, methods=["POST"]),
            Route("/v1/explain", self.explain, methods=["POST"]),
            Route("/v1/hooks/{platform}", self.hook, methods=["POST"]),
            *Lookups(self._parts, self._within).table(),
            Route("/v1/status", self.status, methods=["GET"]),
            Route("/v1/reload", self.reload, methods=["POST"]),
        ]

    async def healthz(self, _request: Request) -> Response:
        pool = self._parts.pipeline.pool
        rejected = self._parts.pipeline.configuration.state().rejected is not None
        degraded = rejected or any(not store.ok for store in pool.describe())
        return _json(
            {
                "status": "degraded" if degraded else "ok",
                "version": __version__,
                "protocol": PROTOCOL,
                "pid": os.getpid(),
            }
        )

    async def inject(self, request: Request) -> Response:
        question, key = self._asked.question(request.scope)
        body = await self._parts.answers.get("context", question, key)
        return Response(body, headers={"Content-Type": TEXT})

    async def query(self, request: Request) -> Response:
        question = parse_body(await request.body()).question(_raw(request))
        key = key_of("query", question)
        return Response(await self._parts.answers.get("query", question, key), media_type=JSON)

    async def explain(self, request: Request) -> Response:
        body = parse_body(await request.body())
        question = body.question(_raw(request))
        pipeline = self._parts.pipeline
        seconds = self._parts.answers.seconds(question)
        deadline = Deadline.after(seconds * PIPELINE_SHARE)

        def work() -> bytes:
            return as_json(lookup.explained(pipeline, question, body.observation, deadline))

        return Response(await self._within(seconds, work), media_type=JSON)

    async def hook(self, request: Request) -> Response:
        platform = request.path_params["platform"]
        environ = header_environment(_raw(request))
        body = await request.body()
        began = time.perf_counter()
        parts = self._parts
        client = read_client(_raw(request))
        seconds = min(parts.answers.seconds(Question(cwd="/", env=environ)), client.seconds)
        deadline = Deadline.after(seconds * PIPELINE_SHARE)
        async with self._until(seconds):
            delivery = await self._hooks.answer(platform, body, environ, deadline)
        answer = delivery.answer
        parts.metrics.hook(platform, answer.event, answer.cwd, time.perf_counter() - began)
        client.follow(request.scope["state"]["connection"], delivery)
        return Response(answer.body, media_type=JSON)

    async def status(self, _request: Request) -> Response:
        return _json(build_status(self._parts.state()))

    async def reload(self, request: Request) -> Response:
        # It says nothing to us, but a client that is answered while it still sends sees an error.
        await request.body()
        seconds = self._parts.answers.seconds(Question(cwd="/"))
        done = await self._within(seconds, self._parts.pipeline.configuration.reload)
        self._parts.answers.clear()
        return _json({"revision": done.revision, "warnings": warning_shapes(done.warnings)})

    async def _within(self, seconds: float, work: Callable[[], T]) -> T:
        """Run in a worker; raises `DeadlineExceeded` when nothing came of it in time."""
        async with self._until(seconds):
            return await self._parts.workers.submit(work)

    @asynccontextmanager
    async def _until(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise DeadlineExceeded(
                f"no answer within {seconds:g} s; a store or a folder does not respond"
            ) from None


def _json(shape: Any) -> Response:
    return Response(as_json(shape), media_type=JSON)


def _raw(request: Request) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    return headers
