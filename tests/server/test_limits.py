"""What a client may do to us: nothing that others notice."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from claudemem_daemon.server.app import INJECT
from claudemem_daemon.server.protocol import MAX_BODY, MAX_CONNECTIONS, MAX_HEAD, MAX_HOOK_BODY
from tests.support.daemon import Daemon, Reply, eventually, read_all
from tests.support.stores import add_observation, make_store


def parse(data: bytes) -> list[Reply]:
    """The answers in a stream, all framed by Content-Length."""
    replies = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = int(headers["content-length"])
        replies.append(Reply(int(lines[0].split()[1]), headers, rest[:length]))
        assert len(rest) >= length, "an answer was cut"
        data = rest[length:]
    return replies


@contextlib.contextmanager
def flat_memory(daemon: Daemon, most_kb: int = 8192) -> Iterator[None]:
    assert daemon.reachable()
    before = daemon.memory_kb()
    yield
    assert daemon.memory_kb() - before < most_kb


def pour(connection: socket.socket, start: bytes, chunk: bytes, megabytes: int) -> bytes:
    """Send `start`, then `chunk` again and again, until the daemon has had enough."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        connection.sendall(start)
        while sent < megabytes << 20:
            connection.sendall(chunk)
            sent += len(chunk)
    assert sent < megabytes << 20, "it took everything"
    return read_all(connection)


@pytest.mark.parametrize(
    ("start", "chunk", "status"),
    [
        (b"GET /", b"a" * 65536, 431),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 65536, 431),
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 10000, 431),
        (b"", b"\r\n" * 32768, 431),
        (b"", b"\0" * 65536, 400),
        (
            b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n",
            b" " * 65536,
            413,
        ),
        (
            b"POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + b" " * 65536 + b"\r\n",
            413,
        ),
        (
            b"POST /v1/hooks/claude-code HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + b" " * 65536 + b"\r\n",
            413,
        ),
    ],
    ids=["line", "header", "headers", "newlines", "zeros", "announced", "chunked", "hook"],
)
def test_an_endless_request_is_cut_off(
    daemon: Daemon, start: bytes, chunk: bytes, status: int
) -> None:
    """Case oversized-or-endless-request."""
    with flat_memory(daemon), daemon.connect() as connection:
        replies = parse(pour(connection, start, chunk, 1024))
    # A client that goes on sending may lose the answer with the connection, but gets no other.
    assert [reply.status for reply in replies] in ([status], [])
    if replies:
        assert replies[0].error in ("too_large", "bad_request")
    assert daemon.reachable()


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/v1/query", MAX_BODY, 400),
        ("/v1/query", MAX_BODY + 1, 413),
        ("/v1/explain", MAX_BODY + 1, 413),
        ("/v1/reload", MAX_BODY + 1, 413),
        ("/v1/hooks/claude-code", MAX_BODY + 1, 200),
        ("/v1/hooks/claude-code", MAX_HOOK_BODY + 1, 413),
        ("/nowhere", MAX_BODY + 1, 413),
    ],
)
def test_the_cap_of_a_body_is_exact(
    shared_daemon: Daemon, path: str, size: int, status: int
) -> None:
    body = b'{"hook_event_name": "Stop", "cwd": "/", "x": "' + b"x" * (size - 48) + b'"}'
    body = body[:-2].ljust(size - 2, b"x") + b'"}'
    assert len(body) == size
    if status == 400:
        body = body.replace(b'"cwd": "/"', b'"cwd": "r"')
    reply = shared_daemon.post(path, body)
    assert reply.status == status
    if status != 200:
        assert reply.error == ("too_large" if status == 413 else "invalid_request")


def test_the_cap_of_the_head_holds_for_small_pieces_too(shared_daemon: Daemon) -> None:
    piece = b"a" * 1000
    head = b"GET /healthz?" + piece * (MAX_HEAD // 1000 - 1) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    assert parse(shared_daemon.raw(head + b"GET /healthz HTTP/1.0\r\n\r\n"))[0].status == 200
    replies = parse(shared_daemon.raw(b"GET /?", *[piece] * 40, b" HTTP/1.1\r\nHost: a\r\n\r\n"))
    assert [reply.status for reply in replies] == [431]


def test_an_answer_is_the_same_whether_others_were_asked_with_it(
    daemon: Daemon, home: Path
) -> None:
    store = home / ".claude-mem" / "claude-mem.db"
    make_store(store)
    add_observation(store, project="p", title="first")
    target = b"/api/context/inject?projects=p"
    last = b"GET %s HTTP/1.0\r\n\r\n" % target
    (alone,) = parse(daemon.raw(last))
    together = parse(daemon.raw(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target * 3 + last))
    assert alone.headers["connection"] == together[-1].headers["connection"] == "close"
    assert [reply.body for reply in together] == [alone.body] * 4
    assert b"first" in alone.body
    for reply in together[:3]:
        assert reply.headers.items() == alone.headers.items() - {("connection", "close")}


def test_five_hundred_idle_connections_keep_nobody_out(daemon: Daemon) -> None:
    """Case oversized-or-endless-request."""
    with contextlib.ExitStack() as stack:
        for number in range(500):
            connection = stack.enter_context(contextlib.closing(daemon.connect()))
            if number % 2:
                connection.sendall(b"GET /heal")
            if number % 50 == 0:
                assert daemon.reachable()
        for _ in range(10):
            assert daemon.get("/healthz").status == 200
        assert daemon.get("/v1/status").status == 200


def test_an_idle_connection_is_closed(daemon: Daemon) -> None:
    """Case oversized-or-endless-request."""
    with daemon.connect() as silent, daemon.connect() as slow:
        slow.sendall(b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert read_all(silent) == b""
        assert [reply.status for reply in parse(read_all(slow))] == [408]


@pytest.mark.parametrize("leaves", [True, False])
def test_the_time_of_an_upload_that_never_ends_is_no_latency(daemon: Daemon, leaves: bool) -> None:
    before = daemon.get("/v1/status").json()["requests"]
    half = b"POST /v1/query HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    with daemon.connect() as connection:
        connection.sendall(half)
        if not leaves:
            (refused,) = parse(read_all(connection))
            assert (refused.status, refused.error) == (408, "timeout")

    def counted() -> bool:
        routes = daemon.get("/v1/status").json()["requests"]["routes"]
        return bool(routes.get("/v1/query", 0))

    eventually(counted, "the request is counted")
    after = daemon.get("/v1/status").json()["requests"]
    asked_for_status = after["routes"]["/v1/status"] - before["routes"].get("/v1/status", 0)
    assert after["measured"] - before["measured"] == asked_for_status
    assert after["errors"] == ({} if leaves else {"timeout": 1})


def test_more_requests_than_anyone_sends_at_once_are_refused(daemon: Daemon) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    with flat_memory(daemon):
        replies = parse(daemon.raw(one * 20_000))
    assert [reply.status for reply in replies] == [200] * (len(replies) - 1) + [503]
    assert daemon.reachable()


@pytest.mark.parametrize("count", [2, 10, 60])
def test_joined_requests_are_answered_in_order(shared_daemon: Daemon, count: int) -> None:
    """Case large-answer-truncated: two requests in one write."""
    paths = [("/healthz", 200), ("/nowhere", 404)] * (count // 2)
    sent = b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path, _ in paths[:-1])
    last = f"GET {paths[-1][0]} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
    replies = parse(shared_daemon.raw(sent + last))
    assert [reply.status for reply in replies] == [status for _, status in paths]


def test_joined_requests_with_bodies_do_not_mix(shared_daemon: Daemon) -> None:
    """Case large-answer-truncated."""
    bodies = [b'{"cwd": "relative"}', b"nonsense", b"[]"]
    sent = b"".join(
        b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in bodies
    )
    replies = parse(shared_daemon.raw(sent + b"GET /healthz HTTP/1.0\r\n\r\n"))
    messages = [reply.json()["error"]["message"] for reply in replies[:3]]
    assert "cwd" in messages[0]
    assert "not JSON" in messages[1]
    assert "object" in messages[2]
    assert replies[3].status == 200


def test_a_request_may_arrive_byte_by_byte(shared_daemon: Daemon) -> None:
    """Case large-answer-truncated: split requests."""
    body = json.dumps({"cwd": "/nonexistent-ü"}, ensure_ascii=False).encode()
    whole = (
        b"POST /v1/query HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    replies = parse(shared_daemon.raw(*[whole[at : at + 1] for at in range(len(whole))]))
    assert [reply.status for reply in replies] == [200]


def test_a_large_answer_arrives_whole_at_a_slow_reader(daemon: Daemon, home: Path) -> None:
    """Case large-answer-truncated: 300 KB with multi-byte characters, read in pieces of one byte."""
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    words = "Größe 🌍 " * 600
    for number in range(40):
        add_observation(store, project="p", title=f"title-{number}", narrative=words)
    settings = home / ".claude-mem" / "settings.json"
    settings.write_text('{"CLAUDE_MEM_CONTEXT_FULL_COUNT": "50"}')
    with daemon.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.sendall(
            b"GET /api/context/inject?projects=p&full=true HTTP/1.1\r\nHost: a\r\n"
            b"Connection: close\r\n\r\n"
        )
        data = bytearray()
        while piece := connection.recv(1):
            data += piece
    (reply,) = parse(bytes(data))
    assert reply.status == 200
    assert len(reply.body) > 300_000
    assert all(f"title-{number}" in reply.text for number in range(40))


def test_who_does_not_read_is_answered_no_further(daemon: Daemon, home: Path) -> None:
    """Of sixty answers of 300 KB, a client that takes none is sent a few."""
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    for number in range(40):
        add_observation(store, project="p", title=f"title-{number}", narrative="word " * 1500)
    settings = home / ".claude-mem" / "settings.json"
    settings.write_text('{"CLAUDE_MEM_CONTEXT_FULL_COUNT": "50"}')
    path = "/api/context/inject?projects=p&full=true"
    asked = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    length = len(daemon.get(path).body)
    assert length > 300_000
    with daemon.connect() as connection:
        connection.sendall(asked * 59 + asked.replace(b"Host", b"Connection: close\r\nHost"))
        for _ in range(200):
            assert len(daemon.get(path).body) == length
        routes = daemon.get("/v1/status").json()["requests"]["routes"]
        assert routes[INJECT] < 1 + 200 + 10
        replies = parse(read_all(connection))
    assert [(reply.status, len(reply.body)) for reply in replies] == [(200, length)] * 60


def test_a_client_may_close_its_side_after_asking(shared_daemon: Daemon) -> None:
    with shared_daemon.connect() as connection:
        connection.sendall(b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        replies = parse(read_all(connection))
    assert [reply.status for reply in replies] == [200]


def test_a_client_that_leaves_is_forgotten(daemon: Daemon) -> None:
    for _ in range(MAX_CONNECTIONS + 50):
        with daemon.connect() as connection:
            connection.sendall(
                b'POST /v1/query HTTP/1.1\r\nContent-Length: 14\r\n\r\n{"cwd":"/tmp"}'
            )
    eventually(lambda: daemon.get("/v1/status").status == 200, "it answers")
    assert "failed" not in daemon.errors()


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\nnonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe\x80 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"POST /v1/query HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/query HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/query HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /v1/query HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    ],
)
def test_what_is_no_request_is_told_so(shared_daemon: Daemon, sent: bytes) -> None:
    replies = parse(shared_daemon.raw(sent))
    assert [reply.status for reply in replies] in ([400], [404], [413])
    assert replies[0].error in ("bad_request", "not_found", "too_large")
    assert "failed" not in shared_daemon.errors()


def test_an_offer_to_upgrade_is_passed_over(shared_daemon: Daemon) -> None:
    sent = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    assert parse(shared_daemon.raw(sent))[0].status == 200


def test_an_old_client_is_answered_and_hung_up_on(shared_daemon: Daemon) -> None:
    replies = parse(shared_daemon.raw(b"GET /healthz HTTP/1.0\r\n\r\n"))
    assert [reply.status for reply in replies] == [200]


def test_a_client_that_waits_for_the_go_ahead_gets_it(
    shared_daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "body").write_text(json.dumps({"cwd": "/tmp", "filler": "x" * 4096}))
    done = shared_daemon.curl(
        "-H", "Expect: 100-continue", "--data", f"@{tmp_path}/body", "http://localhost/v1/query"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["observations"] == []


def test_curl_reads_why_its_request_was_too_big(shared_daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b" " * (3 << 20))
    done = shared_daemon.curl("--data-binary", f"@{tmp_path}/body", "http://localhost/v1/query")
    assert json.loads(done.stdout)["error"]["code"] == "too_large", done.stderr
