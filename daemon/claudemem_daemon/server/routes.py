"""The routes of the interface; each a few lines between the schema and the pipeline."""

from __future__ import annotations

import os
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

from claudemem_daemon import PROTOCOL, __version__, lookup
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.problems import find_problems
from claudemem_daemon.errors import StoreError
from claudemem_daemon.question import Question
from claudemem_daemon.server.app import HOOK, HOOKS, INJECT, Application, Handler, Parts
from claudemem_daemon.server.headers import OF_QUESTION, client_of, environment_of
from claudemem_daemon.server.hooks.handler import HookHandler
from claudemem_daemon.server.messages import TEXT, Request, Response
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
    return Application(parts.metrics, parts.log, Routes(parts).handlers())


class Routes:
    """One method a route."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # The same hook asking again is not parsed and validated again.
        self._question = lru_cache(MAX_PARSED)(parse_query)
        self._hooks = HookHandler(
            parts.pipeline, parts.sessions, parts.answers, parts.workers, parts.metrics
        )
        self._rechecking: Future[None] | None = None

    def handlers(self) -> dict[str, Handler]:
        return {
            "/healthz": self.healthz,
            INJECT: self.inject,
            "/v1/observations": self.look_up,
            "/v1/search": self.look_up,
            "/v1/projects": self.look_up,
            "/v1/status": self.status,
            "/v1/query": self.query,
            "/v1/explain": self.explain,
            "/v1/reload": self.reload,
            HOOK: self.hook,
        }

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
        return Response(as_json(shape))

    async def inject(self, request: Request) -> Response:
        headers = tuple(pair for pair in request.headers if pair[0] in OF_QUESTION)
        question = self._question(request.query, headers)
        body = await self._parts.answers.get("context", question)
        return Response(body, TEXT)

    async def query(self, request: Request) -> Response:
        question, _ = parse_body(request.body, request.headers)
        return Response(await self._parts.answers.get("query", question))

    async def explain(self, request: Request) -> Response:
        question, row = parse_body(request.body, request.headers)

        def work(deadline: Deadline) -> dict[str, Any]:
            return lookup.explained(self._parts.pipeline, question, row, deadline)

        return await self._by_worker(question, work, like="explain")

    async def look_up(self, request: Request) -> Response:
        question = parse_query(request.query, request.headers)
        path, pipeline = request.path, self._parts.pipeline

        def work(deadline: Deadline) -> dict[str, Any]:
            text = request.query.decode("latin-1")
            given = parse_qs(text, errors="surrogateescape", max_num_fields=1000)
            if path == "/v1/observations":
                refs = lookup.parse_refs(given.get("ids", ()))
                return lookup.shown(pipeline, question, refs, deadline)
            since = lookup.parse_since(given.get("since", [None])[-1])
            if path == "/v1/projects":
                return lookup.projects(pipeline, question, since, deadline)
            words = " ".join(given.get("q", ()))
            return lookup.searched(pipeline, question, words, since, deadline)

        return await self._by_worker(question, work, like="lookup")

    async def hook(self, request: Request) -> Response:
        platform, headers = request.path.removeprefix(HOOKS), request.headers
        environ, client = environment_of(headers), client_of(headers)
        return await self._hooks.answer(platform, request.body, environ, client)

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

    async def reload(self, _request: Request) -> Response:
        def work(_deadline: Deadline) -> dict[str, Any]:
            done = self._parts.pipeline.configuration.reload()
            return {"revision": done.revision, "warnings": warning_shapes(done.warnings)}

        return await self._by_worker(Question(cwd=None), work)

    async def _by_worker(
        self, question: Question, work: Callable[[Deadline], Any], like: str | None = None
    ) -> Response:
        answers = self._parts.answers
        body = await answers.work(question, lambda deadline: as_json(work(deadline)), like)
        return Response(body)


def recheck(pool: StorePool) -> None:
    """Try stores that failed the last time again: trouble that has ended is no longer told."""
    for store in pool.describe():
        if not store.ok:
            with (
                suppress(StoreError),
                pool.reading(StoreRef(store.path, ""), Deadline.after(RECHECK_SECONDS)),
            ):
                pass
