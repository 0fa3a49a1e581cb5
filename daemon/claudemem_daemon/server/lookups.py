"""The routes that look rows up: `/v1/observations`, `/v1/search`, `/v1/projects`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from claudemem_daemon import lookup
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.app import JSON, Parts
from claudemem_daemon.server.schema import parse_query
from claudemem_daemon.shapes import as_json

Given = dict[str, list[str]]
"""The parameters that only these routes have."""
Work = Callable[[Deadline], dict[str, Any]]


def lookup_routes(parts: Parts) -> list[Route]:
    def route(path: str, work_of: Callable[[Pipeline, Question, Given], Work]) -> Route:
        async def answer(request: Request) -> Response:
            query: bytes = request.scope["query_string"]
            question = parse_query(query).question(request.scope["headers"])
            given = parse_qs(query.decode("latin-1"), errors="surrogateescape", max_num_fields=1000)
            work = work_of(parts.pipeline, question, given)
            body = await parts.answers.work(question, lambda at: as_json(work(at)), like="lookup")
            return Response(body, media_type=JSON)

        return Route(path, answer, methods=["GET"])

    return [
        route("/v1/observations", _observations),
        route("/v1/search", _search),
        route("/v1/projects", _projects),
    ]


def _observations(pipeline: Pipeline, question: Question, given: Given) -> Work:
    return partial(lookup.shown, pipeline, question, lookup.parse_refs(given.get("ids", ())))


def _search(pipeline: Pipeline, question: Question, given: Given) -> Work:
    return partial(lookup.searched, pipeline, question, " ".join(given.get("q", ())), _since(given))


def _projects(pipeline: Pipeline, question: Question, given: Given) -> Work:
    return partial(lookup.projects, pipeline, question, _since(given))


def _since(given: Given) -> int | None:
    return lookup.parse_since(given.get("since", [None])[-1])
