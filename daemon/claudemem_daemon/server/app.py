"""The application that every request enters: counts, times, and lets nothing escape."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.server.answers import Answers
from claudemem_daemon.server.headers import come_from_a_browser
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.log import Log
from claudemem_daemon.server.messages import Request, Response, refusal
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.workers import Workers

INJECT: Final = "/api/context/inject"
HOOKS: Final = "/v1/hooks/"
HOOK: Final = HOOKS + "{platform}"
ROUTES: Final[Mapping[str, str]] = {
    "/healthz": "GET",
    INJECT: "GET",
    "/v1/observations": "GET",
    "/v1/search": "GET",
    "/v1/projects": "GET",
    "/v1/status": "GET",
    "/v1/query": "POST",
    "/v1/explain": "POST",
    "/v1/reload": "POST",
    HOOK: "POST",
}
"""The method of each route; where that is GET, HEAD is as well."""

Handler = Callable[[Request], Awaitable[Response]]


class Parts(NamedTuple):
    """What the routes work with; all of it lives as long as the daemon."""

    pipeline: Pipeline
    workers: Workers
    answers: Answers
    metrics: Metrics
    sessions: Sessions
    log: Log
    state: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Looks at paths: to be called in a worker."""


@dataclass(frozen=True, slots=True)
class Application:
    """`handlers` has one for each route."""

    metrics: Metrics
    log: Log
    handlers: Mapping[str, Handler]

    async def answer(self, request: Request) -> Response:
        """Never raises: a client gets an answer, never a traceback."""
        began, route = time.perf_counter(), route_of(request.path)
        try:
            response = await self._answer(request, route)
        except ClaudememError as error:
            response = self.refuse(error.http_status, error.code, error.message)
        except Exception as error:  # noqa: BLE001 - told to the log, in one line
            self.log.failure(f"{request.method} {route}", error)
            response = self.refuse(
                500, "internal", "this is a bug; the daemon's log has one line on it"
            )
        self.metrics.answered(route, time.perf_counter() - began)
        return response

    def refuse(self, status: int, code: str, message: str, allow: str = "") -> Response:
        self.metrics.failed(code)
        return refusal(status, code, message, allow)

    def left(self, path: str) -> None:
        """A request to `path` that never came whole: how long its client took is no latency of ours."""
        self.metrics.left(route_of(path))

    async def _answer(self, request: Request, route: str) -> Response:
        if come_from_a_browser(request.headers):
            return self.refuse(
                403, "forbidden", "web pages are not answered: no Origin, and Host: localhost"
            )
        method = ROUTES.get(route)
        if method is None:
            return self.refuse(404, "not_found", "no such route; GET /healthz is one")
        if request.method == method or (method, request.method) == ("GET", "HEAD"):
            return await self.handlers[route](request)
        allow = "GET, HEAD" if method == "GET" else method
        if request.method == "OPTIONS":
            return Response(b"", status=204, allow=f"{allow}, OPTIONS")
        message = f"{request.method[:20]} is not for this route; use {allow}"
        return self.refuse(405, "method_not_allowed", message, allow)


def route_of(path: str) -> str:
    """The route's name for the counters; paths are a client's words and must not fill memory."""
    if path in ROUTES:
        return path
    return HOOK if path.startswith(HOOKS) else "other"
