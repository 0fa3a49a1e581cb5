"""docs/openapi.json is what the models say, and the models are what the daemon answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from claudemem_daemon.server.app import ROUTES
from tests.cases.world import World
from tests.server import openapi

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_document_is_made_from_the_models() -> None:
    """`python -m tests.server.openapi > docs/openapi.json` makes it anew."""
    assert DOCUMENT.read_text(encoding="utf-8") == openapi.text()


def test_every_route_is_in_it() -> None:
    assert set(openapi.document()["paths"]) == {*ROUTES, "/v1/hooks/{platform}"}


@pytest.mark.parametrize(
    ("method", "route", "model"),
    [
        ("GET", "/healthz", openapi.Health),
        ("POST", "/v1/query", openapi.QueryAnswer),
        ("POST", "/v1/explain", openapi.Explained),
        ("GET", "/v1/observations?ids=1,S1,9", openapi.Shown),
        ("GET", "/v1/search?q=title", openapi.Found),
        ("GET", "/v1/projects", openapi.Projects),
        ("GET", "/v1/status", openapi.Status),
        ("POST", "/v1/reload", openapi.Reloaded),
        ("GET", "/v1/nothing", openapi.Error),
        ("GET", "/v1/observations?ids=x", openapi.Error),
    ],
)
def test_an_answer_is_what_the_document_says(
    world: World, method: str, route: str, model: type[BaseModel]
) -> None:
    daemon = world.daemon
    app = world.repository("app", "app-a")
    world.row("app", title="a title")
    world.row("before", title="another", files_read=["a"])
    world.summary("app")
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "odd"})
    if method == "POST":
        answer = daemon.post(route, {"cwd": str(app)})
    else:
        separator = "&" if "?" in route else "?"
        answer = daemon.get(f"{route}{separator}cwd={app}")
    model.model_validate_json(answer.body, strict=True)
