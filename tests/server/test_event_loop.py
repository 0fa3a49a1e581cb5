"""Nothing on the event loop touches a path: a file system that hangs stops nobody else."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from claudemem_daemon import dependencies
from claudemem_daemon.api import build_pipeline
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.server.answers import Answers
from claudemem_daemon.server.app import Application, Parts
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.log import Log
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.routes import make_app
from claudemem_daemon.server.workers import Workers
from tests.support.daemon import Daemon, eventually
from tests.support.stores import add_observation, make_store

TOUCHING = ("stat", "lstat", "open", "listdir", "scandir", "readlink", "access")


class Connection:
    """In place of the protocol's."""

    def when_delivered(self, told: Callable[[bool], None], *, acknowledged: bool) -> None:
        del acknowledged
        told(True)

    def send_whole(self, media_type: bytes, body: bytes) -> bool:
        del media_type, body
        return False


@pytest.fixture
def pipeline(home: Path) -> Iterator[Pipeline]:
    make_store(home / ".claude-mem" / "claude-mem.db")
    (home / "app" / ".git").mkdir(parents=True)
    (home / "share").mkdir()
    built = build_pipeline(os.environ)
    yield built
    built.close()


def application(pipeline: Pipeline) -> Application:
    workers = Workers()

    def state(_requests: object) -> NoReturn:
        raise AssertionError("not asked here")

    answers = Answers(pipeline, workers)
    return make_app(Parts(pipeline, workers, answers, Metrics(), Sessions(), Log(None), state))


async def ask(
    app: Application, method: str, target: str, body: object = None, **headers: str
) -> tuple[int, bytes]:
    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {"connection": Connection()},
    }
    sent: list[dict[str, Any]] = []
    messages = iter([{"type": "http.request", "body": json.dumps(body).encode()}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    call = cast(Callable[..., Awaitable[None]], app)
    await call(scope, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


def test_no_route_touches_a_path_on_the_event_loop(
    pipeline: Pipeline, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[tuple[str, object]] = []
    loop_thread = threading.get_ident()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: object, *rest: Any, **named: Any) -> Any:
            if threading.get_ident() == loop_thread and not isinstance(path, int):
                touched.append((function.__name__, path))
            return function(path, *rest, **named)

        return call

    async def every() -> None:
        app = application(pipeline)
        cwd = str(home / "app")
        start = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": cwd}
        prompt = {**start, "hook_event_name": "UserPromptSubmit", "prompt": "and now?"}
        for name in TOUCHING:
            monkeypatch.setattr(os, name, watched(getattr(os, name)))
        monkeypatch.setattr(builtins, "open", watched(open))
        for _ in range(2):
            for request in (
                ("GET", "/healthz"),
                ("GET", f"/api/context/inject?cwd={cwd}"),
                ("POST", "/v1/query", {"cwd": cwd}),
                ("POST", "/v1/explain", {"cwd": cwd}),
                ("POST", "/v1/hooks/claude-code", start),
                ("POST", "/v1/hooks/claude-code", prompt),
                ("GET", f"/v1/search?q=x&cwd={cwd}"),
                ("GET", f"/v1/projects?cwd={cwd}"),
                ("POST", "/v1/reload"),
            ):
                status, body = await ask(app, *request)
                assert status == 200, (request, body)

    asyncio.run(every())
    if "coverage" in sys.modules:  # it looks at the folders of a module that is new to it
        touched = [each for each in touched if each[0] != "lstat"]
    assert touched == []


def test_a_share_that_hangs_stops_no_other_answer(
    pipeline: Pipeline, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    stat = dependencies._stat

    def hanging(path: str) -> Any:
        if path.startswith(str(home / "share")) or "/share/" in path:
            gate.wait(60)
        return stat(path)

    monkeypatch.setattr(dependencies, "_stat", hanging)
    (home / ".claude-mem" / "settings.json").write_text(
        json.dumps({"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 60_000})
    )

    async def others() -> None:
        app = application(pipeline)
        await ask(app, "GET", f"/api/context/inject?cwd={home}/app")
        stuck = [
            asyncio.ensure_future(
                ask(app, "POST", "/v1/query", {"cwd": f"{home}/share", "limit": n})
            )
            for n in range(20)
        ]
        await asyncio.sleep(0)  # they ask before the others
        for number in range(20):
            assert (await ask(app, "GET", "/healthz"))[0] == 200
            add_observation(
                home / ".claude-mem" / "claude-mem.db", project="app", title=f"row {number}"
            )
            status, body = await ask(app, "POST", "/v1/query", {"cwd": f"{home}/app"})
            assert (status, json.loads(body)["observations"][0]["title"]) == (200, f"row {number}")
        assert not any(one.done() for one in stuck)
        gate.set()
        assert {status for status, _ in await asyncio.gather(*stuck)} == {200}

    try:
        asyncio.run(others())
    finally:
        gate.set()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"host": ""}, 200),
        ({"host": "daemon:80"}, 200),
        ({"host": "127.0.0.1"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example:80"}, 403),
        ({"host": "[::1]"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost", "origin": "http://localhost"}, 403),
    ],
)
@pytest.mark.parametrize(
    "route", [("GET", "/healthz"), ("GET", "/api/context/inject?projects=p"), ("POST", "/v1/query")]
)
def test_a_browser_is_refused(
    pipeline: Pipeline, route: tuple[str, str], headers: dict[str, str], status: int
) -> None:
    answered, body = asyncio.run(ask(application(pipeline), *route, {"projects": ["p"]}, **headers))
    assert answered == status
    if status == 403:
        assert json.loads(body)["error"]["code"] == "forbidden"


@pytest.mark.parametrize("half", [b"GET /healthz HTT", None])
@pytest.mark.parametrize(
    "route", ["/v1/query", "/v1/explain", "/v1/hooks/claude-code", "/v1/reload"]
)
def test_a_client_that_hangs_up_leaves_no_line_in_the_log(
    daemon: Daemon, route: str, half: bytes | None
) -> None:
    whole = json.dumps({"cwd": "/", "hook_event_name": "SessionStart", "session_id": "s"}).encode()
    head = f"POST {route} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    for sent in (half or head + whole[:9], head + whole):
        with daemon.connect() as connection:
            connection.sendall(sent)
    eventually(lambda: daemon.get("/v1/status").json()["requests"]["connections"] == 1, "they went")
    (line,) = (Path(daemon.state_dir) / "daemon.log").read_text().splitlines()
    assert "answers on" in line
