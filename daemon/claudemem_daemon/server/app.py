"""The application: a fast lane for what was asked before, Starlette for everything else."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.answers import Answers, Key, key_of
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.log import Log
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.schema import QUESTION_HEADERS, parse_query
from claudemem_daemon.server.state import DaemonState
from claudemem_daemon.server.workers import Workers
from claudemem_daemon.shapes import as_json, error_shape

INJECT: Final = "/api/context/inject"
HOOKS: Final = "/v1/hooks/"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
MOST_ASKED: Final = 512
ROUTES: Final = frozenset(
    (
        "/healthz",
        INJECT,
        "/v1/query",
        "/v1/explain",
        "/v1/observations",
        "/v1/search",
        "/v1/projects",
        "/v1/status",
        "/v1/reload",
    )
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with; all of it lives as long as the daemon."""

    pipeline: Pipeline
    workers: Workers
    answers: Answers
    metrics: Metrics
    sessions: Sessions
    log: Log
    state: Callable[[], DaemonState]


class Asked:
    """Query strings that were asked before and the questions they are, so that the same hook
    asking again is not parsed and validated again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, ...], tuple[Question, Key]] = OrderedDict()

    def known(self, scope: Scope) -> tuple[Question, Key] | None:
        return self._known.get(_asking(scope))

    def question(self, scope: Scope) -> tuple[Question, Key]:
        """The question and its key. Raises `InvalidRequest`."""
        asking = _asking(scope)
        known = self._known.get(asking)
        if known is None:
            question = parse_query(scope["query_string"]).question(scope["headers"])
            known = self._known[asking] = (question, key_of("context", question))
            if len(self._known) > MOST_ASKED:
                self._known.popitem(last=False)
        return known


def _asking(scope: Scope) -> tuple[bytes, ...]:
    return (
        scope["query_string"],
        *(name + value for name, value in scope["headers"] if name in QUESTION_HEADERS),
    )


class Door:
    """The ASGI application that every request enters: counts, times, and lets nothing escape."""

    def __init__(self, parts: Parts, asked: Asked, inside: Starlette) -> None:
        self._parts = parts
        self._asked = asked
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        path: str = scope["path"]
        if path == INJECT and scope["method"] == "GET":
            known = self._asked.known(scope)
            body = self._parts.answers.ready(known[1]) if known is not None else None
            if body is not None:
                await send_body(send, 200, TEXT, body)
                self._parts.metrics.answered(INJECT, time.perf_counter() - began)
                return
        await self._walk(scope, receive, send, began)

    async def _walk(self, scope: Scope, receive: Receive, send: Send, began: float) -> None:
        """Counts every request, and the time of those alone that came whole: from then on."""
        started = False
        metrics, route = self._parts.metrics, route_of(scope["path"])

        async def receiving() -> Message:
            nonlocal began
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                began = time.perf_counter()
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._inside(scope, receiving, sending)
        except ClientDisconnect:
            metrics.left(route)
            return
        except Exception as error:  # noqa: BLE001 - a client gets an answer, never a traceback
            self._parts.log.failure(f"{scope['method']} {route}", error)
            if not started:
                metrics.failed("internal")
                shape = error_shape(
                    "internal", "this is a bug; the daemon's log has one line on it"
                )
                await send_body(send, 500, JSON, as_json(shape))
        metrics.answered(route, time.perf_counter() - began)


async def send_body(send: Any, status: int, media_type: str, body: bytes) -> None:
    headers = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def route_of(path: str) -> str:
    """The route's name for the counters; paths are a client's words and must not fill memory."""
    if path in ROUTES:
        return path
    return HOOKS + "{platform}" if path.startswith(HOOKS) else "other"


class Refusals:
    """Errors in the contract's form."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def ours(self, _request: Request, error: Exception) -> Response:
        known = cast(ClaudememError, error)
        return self._answer(known.http_status, known.code, known.message)

    async def http(self, request: Request, error: Exception) -> Response:
        """What Starlette's router refuses: no such path, or not with that method."""
        refused = cast(HTTPException, error)
        allow = (refused.headers or {}).get("Allow")
        if allow is not None and request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": f"{allow}, OPTIONS"})
        if refused.status_code == 404:
            return self._answer(404, "not_found", "no such route; GET /healthz is one")
        if refused.status_code == 405:
            message = f"{request.method[:20]} is not for this route; use {allow}"
            return self._answer(405, "method_not_allowed", message, {"Allow": allow or ""})
        return self._answer(refused.status_code, "http", str(refused.detail))

    def _answer(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> Response:
        self._metrics.failed(code)
        return Response(as_json(error_shape(code, message)), status, headers, JSON)
