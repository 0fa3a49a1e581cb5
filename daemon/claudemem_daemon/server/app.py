"""The application that every request enters: counts, times, and lets nothing escape."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.server.answers import Answers
from claudemem_daemon.server.headers import come_from_a_browser
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.log import Log
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.protocol import BoundedProtocol
from claudemem_daemon.server.workers import Workers
from claudemem_daemon.shapes import as_json, error_shape

INJECT: Final = "/api/context/inject"
HOOKS: Final = "/v1/hooks/"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
V1: Final = ("query", "explain", "observations", "search", "projects", "status", "reload")
ROUTES: Final = frozenset(("/healthz", INJECT, *(f"/v1/{name}" for name in V1)))


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with; all of it lives as long as the daemon."""

    pipeline: Pipeline
    workers: Workers
    answers: Answers
    metrics: Metrics
    sessions: Sessions
    log: Log
    state: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Looks at paths: to be called in a worker."""


Handler = Callable[[Request], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True)
class Application:
    """`fast` answers the routes that are asked all day, by method and the path's beginning; what is
    not among them is for Starlette's router."""

    parts: Parts
    errors: ErrorAnswers
    fast: Mapping[tuple[str, str], Handler]
    router: Starlette

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics, route = self.parts.metrics, route_of(scope["path"])
        began, started = time.perf_counter(), False

        async def start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._answer(scope, receive, start)
        except ClientDisconnect:
            metrics.left(route)
            return
        except Exception as error:  # noqa: BLE001 - a client gets an answer, never a traceback
            if isinstance(error, RuntimeError) and _has_left(scope):
                # The transport says so in this way to whoever writes.
                metrics.left(route)
                return
            self.parts.log.failure(f"{scope['method']} {route}", error)
            metrics.failed("internal")
            if not started:
                response = await self.errors.unexpected(Request(scope), error)
                await response(scope, receive, send)
        metrics.answered(route, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        handler = self.fast.get((scope["method"], HOOKS if path.startswith(HOOKS) else path))
        if come_from_a_browser(scope["headers"]):
            response: ASGIApp = self.errors.answer(
                403, "forbidden", "web pages are not answered: no Origin, and Host: localhost"
            )
        elif handler is None:
            await self.router(scope, receive, send)
            return
        else:
            request = Request(scope, receive)
            try:
                response = await handler(request)
            except ClaudememError as error:
                response = await self.errors.ours(request, error)
        await response(scope, receive, send)


class Whole:
    """An answer of status 200, sent in one write where the connection allows."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self._body = body
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: BoundedProtocol = scope["state"]["connection"]
        if not connection.send_whole(self._media_type.encode(), self._body):
            response = Response(self._body, headers={"Content-Type": self._media_type})
            await response(scope, receive, send)


def _has_left(scope: Scope) -> bool:
    connection: BoundedProtocol = scope["state"]["connection"]
    return connection.transport.is_closing()


def route_of(path: str) -> str:
    """The route's name for the counters; paths are a client's words and must not fill memory."""
    if path in ROUTES:
        return path
    return HOOKS + "{platform}" if path.startswith(HOOKS) else "other"


@dataclass(frozen=True, slots=True)
class ErrorAnswers:
    """Errors in the contract's form."""

    metrics: Metrics

    async def ours(self, _request: Request, error: Exception) -> Response:
        known = cast(ClaudememError, error)
        return self.answer(known.http_status, known.code, known.message)

    async def unexpected(self, _request: Request, _error: Exception) -> Response:
        # Counted by who logs it: a client that has left comes here too.
        shape = error_shape("internal", "this is a bug; the daemon's log has one line on it")
        return Response(as_json(shape), 500, None, JSON)

    async def http(self, request: Request, error: Exception) -> Response:
        """What Starlette's router refuses: no such path, or not with that method."""
        refused = cast(HTTPException, error)
        allow = (refused.headers or {}).get("Allow")
        if allow is not None and request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": f"{allow}, OPTIONS"})
        if refused.status_code == 404:
            return self.answer(404, "not_found", "no such route; GET /healthz is one")
        if refused.status_code == 405:
            message = f"{request.method[:20]} is not for this route; use {allow}"
            return self.answer(405, "method_not_allowed", message, {"Allow": allow or ""})
        return self.answer(refused.status_code, "http", str(refused.detail))

    def answer(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> Response:
        self.metrics.failed(code)
        return Response(as_json(error_shape(code, message)), status, headers, JSON)
