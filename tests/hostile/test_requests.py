"""Requests made from the published interface, right and wrong, against a real daemon: each gets an
answer of the contract's form, and none is a fault of ours. Clients that leave are no event."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.daemon import Daemon, Reply, command, read_all
from tests.support.stores import add_observation, add_summary, make_store

DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8")
)
BODY = DOCUMENT["components"]["schemas"]["Body"]["properties"]
ROUTES = [
    (method.upper(), path, operation)
    for path, operations in sorted(DOCUMENT["paths"].items())
    for method, operation in sorted(operations.items())
]
FAULT = re.compile(r"Traceback|failed:|Error\b|Exception")

WORDS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["", "0", "-1", "app", "/", "1,S1,b7", "true", "2d", "all", "self", "9" * 400]),
    st.sampled_from(["\0", "../..", "%00", "app\n# x", "é" * 3000, "/dev/zero", "/proc/self/mem"]),
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=8,
)
ENV = st.dictionaries(
    st.sampled_from(
        [
            *(
                "CLAUDE_MEM_DATA_DIR",
                "CLAUDE_MEM_MODE",
                "CLAUDE_MEM_MODES_DIR",
                "CLAUDE_CONFIG_DIR",
            ),
            *("CLAUDE_MEM_DAEMON_STORES", "CLAUDE_MEM_DAEMON_ALIASES", "CLAUDE_MEM_DAEMON_SCOPE"),
            *("CLAUDE_MEM_CONTEXT_OBSERVATIONS", "CLAUDE_MEM_EXCLUDED_PROJECTS", "x", "TZ"),
        ]
    ),
    st.one_of(WORDS, st.sampled_from(['{"*": ["/dev/zero", "/"]}', '{"a": "b"}', "[", "{}"])),
    max_size=4,
)


def fill(home: str | Path) -> None:
    store = make_store(Path(home) / ".claude-mem" / "claude-mem.db")
    for number in range(30):
        add_observation(store, project="app", title=f"row {number}")
    add_summary(store, project="app")


@pytest.fixture(scope="module")
def running(shared_daemon: Daemon) -> Iterator[Daemon]:
    """One with rows in its store; what it wrote is looked at in the end."""
    fill(shared_daemon.home)
    yield shared_daemon
    assert not FAULT.search(shared_daemon.errors()), shared_daemon.errors()


@pytest.fixture
def as_installed(home: Path) -> Iterator[Daemon]:
    """Out of development mode, in which the event loop records a stack for each of its steps."""
    fill(home)
    with Daemon(home, program=command()) as daemon:
        yield daemon
        assert not FAULT.search(daemon.errors()), daemon.errors()


def check(reply: Reply, path: str) -> None:
    assert reply.status < 500 or (reply.status == 504 and reply.error == "deadline"), reply.body
    assert b"Traceback" not in reply.body
    if reply.status >= 400:
        assert reply.error
    elif reply.headers["content-type"].startswith("application/json") and reply.body:
        assert isinstance(reply.json(), dict), path
    else:
        reply.body.decode("utf-8")


@given(data=st.data())
def test_whatever_the_interface_allows_or_forbids_is_answered(
    running: Daemon, data: st.DataObject
) -> None:
    method, path, operation = data.draw(st.sampled_from(ROUTES))
    parameters = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    query = data.draw(st.dictionaries(st.sampled_from([*sorted(parameters), "x"]), WORDS))
    platform = st.sampled_from(["claude-code", "cursor", "raw", "x", "%2e%2e", ""])
    target = path.replace("{platform}", data.draw(platform))
    if query:
        target += "?" + "&".join(
            f"{name}={quote(value, safe='', errors='replace')}" for name, value in query.items()
        )
    body: bytes | None = None
    if method == "POST":
        known = st.dictionaries(st.sampled_from(sorted(BODY)), ANYTHING, max_size=5)
        shape = data.draw(
            st.one_of(
                ANYTHING,
                known,
                known.map(lambda one: {**one, "projects": ["app"]}),
                st.builds(lambda one, env: {**one, "env": env, "cwd": "/"}, known, ENV),
                st.fixed_dictionaries(
                    {
                        "hook_event_name": st.sampled_from(
                            ["SessionStart", "UserPromptSubmit", "x"]
                        ),
                        "session_id": ANYTHING,
                        "cwd": st.one_of(ANYTHING, st.just("/")),
                        "transcript_path": ANYTHING,
                        "source": ANYTHING,
                    }
                ),
            )
        )
        body = json.dumps(shape).encode()
        if data.draw(st.booleans()):
            body = data.draw(st.binary(max_size=60))
    reply = running.request(method, target, body)
    check(reply, target)


@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(["GET", "POST", "\0", "X"]))
def test_bytes_that_are_no_request_are_told_so(
    running: Daemon, chunks: list[bytes], method: str
) -> None:
    data = b"".join((method.encode(), b" ", *chunks, b"\r\n\r\n"))
    with running.connect() as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2"))


def hang_up(daemon: Daemon, request: bytes, *, sent: int, reset: bool) -> None:
    """Send a part of a request and leave, by FIN or with unread data in the socket."""
    with daemon.connect() as connection:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(request[:sent])


def test_clients_that_vanish_leave_no_line(running: Daemon, pytestconfig: pytest.Config) -> None:
    """In the middle of a head, of a body, before and during the answer."""
    body = json.dumps({"projects": ["app"], "limit": 100_000}).encode()
    head = b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    hook = json.dumps({"hook_event_name": "SessionStart", "session_id": "v", "cwd": "/"}).encode()
    requests = [
        head + body,
        b"POST /v1/hooks/claude-code HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
        % (len(hook), hook),
        b"GET /api/context/inject?projects=app HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5,
    ]
    before = running.errors()
    dice = random.Random(0)
    for _ in range(20_000 if pytestconfig.getoption("long") else 300):
        request = dice.choice(requests)
        sent = len(request) if dice.random() < 0.5 else dice.randrange(len(request))
        hang_up(running, request, sent=sent, reset=dice.random() < 0.5)
    assert running.get("/healthz").json()["status"] == "ok"
    assert running.errors() == before


def test_a_normal_client_is_answered_beside_all_of_them(
    as_installed: Daemon, pytestconfig: pytest.Config
) -> None:
    """500 that say nothing, some that read nothing, some that ask for all, some that send a byte at a
    time, some that leave."""
    running = as_installed
    ended = threading.Event()
    wrong: list[object] = []

    def greedy() -> None:
        while not ended.is_set():
            with running.connect() as connection:
                ask = b"GET /api/context/inject?projects=app&full=true HTTP/1.1\r\nHost: a\r\n\r\n"
                connection.sendall(ask * 30)  # and reads none of it
                ended.wait(0.02)

    def many() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            reply = running.post("/v1/query", {"projects": ["app", f"p{number}"], "limit": 9_999})
            if reply.status not in (200, 503, 504):
                wrong.append(reply)

    request = b"GET /api/context/inject?projects=app HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def slow() -> None:
        while not ended.is_set():
            # It may have to make room for others.
            with suppress(ConnectionError), running.connect() as connection:
                for byte in request:
                    connection.sendall(bytes([byte]))
                    if ended.wait(0.02):
                        return

    def vanishing() -> None:
        while not ended.wait(0.01):
            hang_up(running, request, sent=len(request), reset=True)

    threads = [
        threading.Thread(target=client)
        for client in (greedy, greedy, many, many, slow, slow, vanishing)
    ]
    idle: list[socket.socket] = []
    took: list[float] = []
    try:
        for thread in threads:
            thread.start()
        idle.extend(running.connect() for _ in range(500))
        for _ in range(5_000 if pytestconfig.getoption("long") else 60):
            began = time.perf_counter()
            reply = running.get("/api/context/inject?projects=app")
            took.append((time.perf_counter() - began) * 1000)
            assert reply.status == 200
            assert "row 29" in reply.text
    finally:
        ended.set()
        for connection in idle:
            connection.close()
        for thread in threads:
            thread.join()
    assert wrong == []
    took.sort()
    middle, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    print(f"{len(took)} answers: median {middle:.1f}, p99 {p99:.1f}, longest {took[-1]:.1f} ms")
    assert os.path.exists(running.socket_path)
