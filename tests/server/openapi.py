"""The interface as an OpenAPI document, made by pydantic: of what comes in from the schema that the
daemon validates with, of what goes out from the models below, which real answers are held against.

    python -m tests.server.openapi > docs/openapi.json
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema as core

from claudemem_daemon import PROTOCOL, __version__
from claudemem_daemon.server.schema import BODY, INJECT_NAMES


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Warning(Shape):  # noqa: A001 - the contract's word
    code: str
    message: str
    path: str | None = None
    key: str | None = None


class Observation(Shape):
    id: int | str
    ref: str
    project: str
    store: str
    type: str
    title: str
    subtitle: str
    narrative: str
    facts: list[str]
    concepts: list[str]
    files_read: list[str]
    files_modified: list[str]
    created_at: str
    created_at_epoch: int | None
    discovery_tokens: int
    memory_session_id: str
    platform_source: str | None


class Summary(Shape):
    id: int | str
    ref: str
    project: str
    store: str
    request: str
    investigated: str
    learned: str
    completed: str
    next_steps: str
    notes: str
    created_at: str
    created_at_epoch: int | None
    memory_session_id: str
    platform_source: str | None


class Project(Shape):
    key: str
    path: str | None
    role: str
    stores: list[str]
    observations: int


class Store(Shape):
    path: str
    ok: bool
    error: str | None
    schema_version: int | None


class Filters(Shape):
    types: list[str]
    concepts: list[str]
    limit: int
    scope: str
    platform_source: str | None
    sources: dict[str, dict[str, str | None]]


class QueryAnswer(Shape):
    observations: list[Observation]
    summaries: list[Summary]
    projects: list[Project]
    stores: list[Store]
    filters: Filters
    warnings: list[Warning]


class Shown(Shape):
    observations: list[Observation]
    summaries: list[Summary]
    missing: list[str]
    warnings: list[Warning]


class Found(Shape):
    observations: list[Observation]
    how: str
    warnings: list[Warning]


class StoreProject(Shape):
    key: str
    store: str
    rows: int
    newest: int | None
    ours: bool
    resembles: str | None
    why: str | None
    alias: str | None


class Projects(Shape):
    projects: list[StoreProject]
    warnings: list[Warning]


class Cause(Shape):
    code: str
    severity: str
    sentence: str
    fix: str


class Explained(BaseModel):
    """More keys than these may be there, and more may come."""

    repository: dict[str, str | None]
    settings: dict[str, Any]
    settings_path: str
    keys: list[dict[str, Any]]
    stores: list[dict[str, Any]]
    filters: Filters
    counts: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    observation: list[dict[str, Any]]
    verdict: str
    causes: list[Cause]
    warnings: list[Warning]


class Health(Shape):
    status: str
    version: str
    protocol: int
    pid: int


class Status(BaseModel):
    """All that `status --json` prints of the daemon; more keys may come."""

    schema_: int = 1
    status: str
    version: str
    problems: list[dict[str, str]]


class Reloaded(Shape):
    revision: int
    warnings: list[Warning]


class ErrorDetail(Shape):
    code: str
    message: str


class Error(Shape):
    error: ErrorDetail


ANSWERS: Final = (
    QueryAnswer, Shown, Found, Projects, Explained, Health, Status, Reloaded, Error,
)  # fmt: skip
LOOKUPS: Final[dict[str, tuple[type[BaseModel], tuple[str, ...]]]] = {
    "/v1/observations": (Shown, ("ids", "cwd", "projects", "scope")),
    "/v1/search": (Found, ("q", "cwd", "projects", "scope", "limit", "since")),
    "/v1/projects": (Projects, ("cwd", "projects", "limit", "since")),
}
NAMES: Final = {"platform_source": "platformSource"}
OWN_PARAMETERS: Final = {
    "ids": "Ids as answers print them (`ref`), with commas: 12,b7,S3",
    "q": "Words, each of which a row must hold",
    "since": "2d, 12h, 30m, 1w or an ISO date",
}


class Taken(GenerateJsonSchema):
    """The schemas of what functions of ours check."""

    def is_instance_schema(self, schema: core.IsInstanceSchema) -> dict[str, Any]:
        assert schema["cls"] is str
        return {"type": "string"}

    def tuple_schema(self, schema: core.TupleSchema) -> dict[str, Any]:
        assert schema["variadic_item_index"] == 0
        texts = {"type": "array", "items": self.generate_inner(schema["items_schema"][0])}
        return {"anyOf": [texts, {"type": "string"}]}

    def function_plain_schema(self, schema: core.PlainValidatorFunctionSchema) -> dict[str, Any]:
        assert schema["function"]["function"].__name__ == "_row"
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def body() -> dict[str, Any]:
    shape = Taken().generate(BODY)
    shape["properties"]["cwd"]["anyOf"][0]["pattern"] = "^/"
    return {
        **shape,
        "title": "Body",
        "description": "`POST /v1/query` and `/v1/explain`, and the query string of the inject route.",
    }


def document() -> dict[str, Any]:
    """The whole document."""
    models = [(model, "serialization") for model in ANSWERS]
    _, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # a list of literals
    paths: dict[str, Any] = {
        "/healthz": {"get": _answer(Health)},
        "/api/context/inject": {
            "get": {
                **_text("The context, as claude-mem's worker serves it"),
                "parameters": _parameters(dict.fromkeys(INJECT_NAMES.values())),
            }
        },
        "/v1/query": {"post": {**_answer(QueryAnswer), **_TAKES}},
        "/v1/explain": {"post": {**_answer(Explained), **_TAKES}},
        "/v1/hooks/{platform}": {
            "post": {
                **_text("The hook's standard output, ready to print"),
                "parameters": [_parameter("platform", where="path")],
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
            }
        },
        "/v1/status": {"get": _answer(Status)},
        "/v1/reload": {"post": _answer(Reloaded)},
    }
    for route, (model, names) in LOOKUPS.items():
        paths[route] = {"get": {**_answer(model), "parameters": _parameters(names)}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "claudemem-daemon",
            "version": f"{__version__} (protocol {PROTOCOL})",
            "description": "HTTP/1.1 over the Unix socket ~/.claude-mem/daemon/daemon.sock",
        },
        "servers": [{"url": "http://localhost"}],
        "paths": paths,
        "components": {"schemas": {**schemas["$defs"], "Body": body()}},
    }


def _parameters(names: Any) -> list[dict[str, Any]]:
    return [_parameter(NAMES.get(name, name)) for name in names]


def _parameter(name: str, where: str = "query") -> dict[str, Any]:
    shape: dict[str, Any] = {"name": name, "in": where, "schema": {"type": "string"}}
    if name in OWN_PARAMETERS:
        shape["description"] = OWN_PARAMETERS[name]
    return shape | ({"required": True} if where == "path" or name in ("ids", "q") else {})


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


_TAKES: Final = {"requestBody": {"required": True, "content": _content("Body")}}


def _answer(model: type[BaseModel]) -> dict[str, Any]:
    refusal = {"description": "What is wrong, in one line", "content": _content("Error")}
    answer = {"description": "The answer", "content": _content(model.__name__)}
    return {"responses": {"200": answer, "default": refusal}}


def _text(description: str) -> dict[str, Any]:
    shape = _answer(Error)
    content = {"text/plain": {"schema": {"type": "string"}}}
    shape["responses"]["200"] = {"description": description, "content": content}
    return shape


def text() -> str:
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
