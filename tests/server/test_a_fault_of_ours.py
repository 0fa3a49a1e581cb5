"""A fault of the program itself: an answer in the contract's form on every route, and one line of log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon

BROKEN = """
import sys
from claudemem_daemon.__main__ import main
from claudemem_daemon.pipeline import Pipeline
def fail(*_given, **_named):
    raise TypeError("a secret of a row")
Pipeline.resolved = fail
sys.argv[0] = "claudemem-daemon"
main()
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("home")
    with Daemon(home, program=[sys.executable, "-c", BROKEN]) as running:
        yield running


@pytest.mark.parametrize(
    "route",
    [
        "/api/context/inject?cwd=/",
        "/v1/search?q=a&cwd=/",
        "/v1/observations?ids=1&cwd=/",
        "/v1/projects?cwd=/",
    ],
)
def test_a_get_is_answered_in_the_form_of_errors(broken: Daemon, route: str) -> None:
    answer = broken.get(route)
    assert answer.status == 500
    assert answer.json()["error"]["code"] == "internal"


@pytest.mark.parametrize("route", ["/v1/query", "/v1/explain"])
def test_a_post_is_answered_in_the_form_of_errors(broken: Daemon, route: str) -> None:
    answer = broken.post(route, {"cwd": "/"})
    assert answer.status == 500
    assert answer.json()["error"]["code"] == "internal"


def test_a_hook_gets_nothing_or_an_object(broken: Daemon) -> None:
    body = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/", "source": "startup"}
    answer = broken.post("/v1/hooks/claude-code", body)
    assert answer.status == 500
    assert json.loads(answer.body)["error"]["code"] == "internal"


def test_the_log_has_a_line_without_the_text_of_a_row(broken: Daemon) -> None:
    broken.post("/v1/query", {"cwd": "/"})
    assert "TypeError" in broken.errors()
    assert "Traceback" not in broken.errors()
    assert "a secret of a row" not in broken.errors()
    assert broken.get("/healthz").status == 200
