"""The routes that look rows up: `/v1/observations`, `/v1/search`, `/v1/projects`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from claudemem_daemon import lookup
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question
from claudemem_daemon.server.app import JSON, Parts
from claudemem_daemon.server.schema import parse_query
from claudemem_daemon.shapes import as_json


class Lookups:
    """One method a route."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def table(self) -> list[Route]:
        return [
            Route("/v1/observations", self.observations, methods=["GET"]),
            Route("/v1/search", self.search, methods=["GET"]),
            Route("/v1/projects", self.projects, methods=["GET"]),
        ]

    async def observations(self, request: Request) -> Response:
        question, given = _parsed(request)
        refs = lookup.parse_refs(given.get("ids", ()))
        pipeline = self._parts.pipeline
        return await self._answer(
            question, lambda until: lookup.shown(pipeline, question, refs, until)
        )

    async def search(self, request: Request) -> Response:
        question, given = _parsed(request)
        words, since = " ".join(given.get("q", ())), _since(given)
        pipeline = self._parts.pipeline
        return await self._answer(
            question, lambda until: lookup.searched(pipeline, question, words, since, until)
        )

    async def projects(self, request: Request) -> Response:
        question, given = _parsed(request)
        since = _since(given)
        pipeline = self._parts.pipeline
        return await self._answer(
            question, lambda until: lookup.projects(pipeline, question, since, until)
        )

    async def _answer(
        self, question: Question, work: Callable[[Deadline], dict[str, Any]]
    ) -> Response:
        body = await self._parts.answers.work(
            question, lambda until: as_json(work(until)), like="lookup"
        )
        return Response(body, media_type=JSON)


def _parsed(request: Request) -> tuple[Question, dict[str, list[str]]]:
    """The question, and the parameters that only these routes have."""
    query: bytes = request.scope["query_string"]
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    question = parse_query(query).question(headers)
    given = parse_qs(query.decode("latin-1"), errors="surrogateescape", max_num_fields=1_000)
    return question, given


def _since(given: dict[str, list[str]]) -> int | None:
    return lookup.parse_since(given.get("since", [None])[-1])
