"""Every route from outside: good questions, wrong ones, and what a user of curl would expect."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon import PROTOCOL, __version__
from claudemem_daemon.client import Client
from claudemem_daemon.errors import DaemonError
from tests.support.daemon import Daemon, eventually, read_all, run_to_end
from tests.support.files import needs_names_of_bytes
from tests.support.stores import add_observation, make_store


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"nonsense", "not JSON"),
        (b'{"cwd": "/tmp",}', "not JSON"),
        (b'{"cwd": NaN}', "not JSON"),
        # How deep is too deep is the interpreter's own: later ones read these, and they are wrong.
        (b"[" * 30_000 + b"]" * 30_000, ("nested too deep", "must be one JSON object")),
        (b'{"cwd":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001, ("nested too deep", "cwd: ")),
        (b'{"cwd": "/a", "cwd": "/b"}', "'cwd' is given twice"),
        (b'{"limit": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[]", "one JSON object"),
        (b'"text"', "one JSON object"),
        (b"null", "one JSON object"),
        (b"{}", "cwd"),
        (b'{"cwd": null}', "cwd"),
        (b'{"cwd": ""}', "cwd: an absolute path"),
        (b'{"cwd": "relative"}', "cwd: an absolute path"),
        (b'{"cwd": "~/x"}', "cwd: an absolute path"),
        (b'{"cwd": 1}', "cwd: Input should be an instance of str"),
        (b'{"cwd": ["/tmp"]}', "cwd: Input should be an instance of str"),
        (b'{"cwd": "/a\\u0000b"}', "cwd: a path cannot hold a NUL"),
        (b'{"cwd": "/\\ud800"}', "cwd: it holds half a character"),
        (b'{"cwd": "/' + b"a" * 5000 + b'"}', "cwd: a path has at most"),
        (b'{"cwd": "/tmp", "projects": ["a"]}', "not both"),
        (b'{"projects": []}', "projects"),
        (b'{"projects": [1]}', "projects.0: Input should be an instance of str"),
        (b'{"projects": {"a": 1}}', "projects: Input should be a valid tuple"),
        (b'{"cwd": "/tmp", "limit": -1}', "limit"),
        (b'{"cwd": "/tmp", "limit": 1.5}', "limit"),
        (b'{"cwd": "/tmp", "limit": true}', "limit"),
        (b'{"cwd": "/tmp", "limit": "many"}', "limit"),
        (
            b'{"cwd": "/tmp", "scope": "everything"}',
            "scope: Input should be 'all', 'parent' or 'self'",
        ),
        (b'{"cwd": "/tmp", "scope": ["all"]}', "scope: Input should be"),
        (b'{"cwd": "/tmp", "types": 7}', "types"),
        (b'{"cwd": "/tmp", "env": []}', "env"),
        (b'{"cwd": "/tmp", "env": {"A": []}}', "env"),
        (b'{"cwd": "/tmp", "platform_source": 5}', "platform_source"),
    ],
)
@pytest.mark.parametrize("route", ["/v1/query", "/v1/explain"])
def test_a_wrong_question_is_told_what_is_wrong(
    shared_daemon: Daemon, route: str, body: bytes, says: str | tuple[str, ...]
) -> None:
    """Case oversized-or-endless-request: invalid, deeply nested, duplicate keys."""
    reply = shared_daemon.post(route, body)
    assert reply.status == 400
    assert reply.error == "invalid_request"
    message = reply.json()["error"]["message"]
    assert any(each in message for each in ([says] if isinstance(says, str) else says))
    assert "\n" not in message
    assert len(message) < 300
    assert reply.headers["content-type"] == "application/json"
    assert shared_daemon.reachable()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "cwd"),
        ("cwd=", "cwd"),
        ("cwd=relative", "cwd: an absolute path"),
        ("cwd=/tmp&cwd=/var", "given twice"),
        ("cwd=/tmp&projects=a", "not both"),
        ("projects=,", "projects"),
        ("cwd=/tmp&limit=x", "limit"),
        ("cwd=/tmp&limit=-1", "limit"),
        ("cwd=/tmp&full=perhaps", "full"),
        ("cwd=/tmp&scope=none", "scope"),
        ("cwd=%00", "NUL"),
    ],
)
def test_a_wrong_query_string_is_told_what_is_wrong(
    shared_daemon: Daemon, query: str, says: str
) -> None:
    for _ in range(2):
        reply = shared_daemon.get(f"/api/context/inject?{query}")
        assert (reply.status, reply.error) == (400, "invalid_request")
        assert says in reply.json()["error"]["message"]


@pytest.mark.parametrize("route", ["/v1/query", "/v1/explain"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"cwd": "/nonexistent"}',
        b'\xef\xbb\xbf{"cwd": "/nonexistent"}',
        b'{"cwd": "/nonexist\xff\xfe"}',
        b'{"cwd": "/nonexist\\udcff"}',
        b'{"cwd": "/a\\nb", "unknown": {"of": ["a", "newer", "client"]}}',
        b'{"projects": ["a", "b/c"], "limit": 0}',
        b'{"projects": "a,b", "types": [], "concepts": null}',
        b'{"cwd": "/nonexistent", "limit": 1000000000, "env": {"CLAUDE_MEM_MODE": "code", "X": 1}}',
    ],
)
def test_an_odd_question_is_answered(shared_daemon: Daemon, route: str, body: bytes) -> None:
    for media_type in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        reply = shared_daemon.post(route, body, {"Content-Type": media_type})
        assert reply.status == 200, reply.body
        reply.body.decode("ascii")
        assert isinstance(reply.json(), dict)


def test_a_path_of_a_megabyte_is_refused(shared_daemon: Daemon) -> None:
    """Case oversized-or-endless-request: a request whose cwd has 1 MB."""
    path = "/" + "a" * (1 << 20)
    assert shared_daemon.post("/v1/query", {"cwd": path}).error == "too_large"
    assert shared_daemon.reachable()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/healthz/", 404, "not_found"),
        ("GET", "//healthz", 404, "not_found"),
        ("GET", "/v1/../v1/status", 404, "not_found"),
        ("GET", "/v1/query", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("DELETE", "/v1/status", 405, "method_not_allowed"),
        ("GET", "/v1/reload", 405, "method_not_allowed"),
        ("POST", "/v1/hooks/nobody", 404, "not_found"),
    ],
)
def test_a_wrong_door_is_told_so(
    shared_daemon: Daemon, method: str, path: str, status: int, code: str
) -> None:
    body = b"{}" if method == "POST" else None
    reply = shared_daemon.request(method, path, body)
    assert (reply.status, reply.error) == (status, code)
    if status == 405:
        assert reply.headers["allow"]


@pytest.mark.parametrize("body", [b"", b"garbage", b"[]", b'{"hook_event_name": "Nonsense"}'])
def test_a_hook_gets_nothing_to_print_rather_than_an_error(
    shared_daemon: Daemon, body: bytes
) -> None:
    reply = shared_daemon.post("/v1/hooks/claude-code", body)
    assert (reply.status, reply.body) == (200, b"")


def test_head_and_options_are_as_http_has_them(shared_daemon: Daemon) -> None:
    get = shared_daemon.get("/healthz")
    head = shared_daemon.request("HEAD", "/healthz")
    assert head.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == get.headers["content-length"]
    options = shared_daemon.request("OPTIONS", "/v1/query")
    assert options.status == 204
    assert options.headers["allow"] == "POST, OPTIONS"
    assert options.body == b""


@pytest.mark.parametrize(
    "path", ["/healthz", "/nowhere", "/v1/status", "/api/context/inject?cwd=/"]
)
def test_every_answer_says_which_daemon_it_is_from(shared_daemon: Daemon, path: str) -> None:
    """Case old-daemon-after-upgrade."""
    reply = shared_daemon.get(path)
    assert reply.headers["claudemem-daemon-version"] == __version__
    assert reply.headers["claudemem-daemon-protocol"] == str(PROTOCOL)
    assert "server" not in reply.headers
    assert "date" not in reply.headers


def test_health_has_the_published_shape(shared_daemon: Daemon) -> None:
    assert shared_daemon.get("/healthz").json() == {
        "status": "ok",
        "version": __version__,
        "protocol": PROTOCOL,
        "pid": shared_daemon.pid,
    }


def test_a_rejected_edit_degrades_until_it_is_mended(daemon: Daemon, home: Path) -> None:
    settings = home / ".claude-mem" / "settings.json"
    settings.write_text("{ broken")
    eventually(
        lambda: daemon.get("/healthz").json()["status"] == "degraded", "it is told at /healthz"
    )
    settings.write_text("{}")
    eventually(lambda: daemon.get("/healthz").json()["status"] == "ok", "it is well again")


@pytest.fixture
def store(home: Path) -> str:
    return make_store(home / ".claude-mem" / "claude-mem.db")


def rows(daemon: Daemon, **body: Any) -> list[dict[str, Any]]:
    reply = daemon.post("/v1/query", body)
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.json()["observations"]
    return found


def test_a_row_has_the_published_fields(daemon: Daemon, store: str) -> None:
    add_observation(store, project="p", title="Grüße 🌍", narrative="n")
    (row,) = rows(daemon, projects=["p"])
    assert set(row) == {
        "id", "project", "store", "type", "title", "subtitle", "narrative", "facts", "concepts",
        "files_read", "files_modified", "created_at", "created_at_epoch", "discovery_tokens",
        "memory_session_id", "platform_source", "ref",
    }  # fmt: skip
    assert row["title"] == "Grüße 🌍"
    assert row["store"] == store
    answer = daemon.post("/v1/query", {"projects": ["p"]}).json()
    assert set(answer) == {
        "observations", "summaries", "projects", "stores", "filters", "warnings",
    }  # fmt: skip
    assert set(answer["stores"][0]) == {"path", "ok", "error", "schema_version"}
    assert set(answer["projects"][0]) == {"key", "path", "role", "stores", "observations"}


def test_the_same_question_is_answered_from_memory_byte_for_byte(
    daemon: Daemon, store: str
) -> None:
    add_observation(store, project="p", title="first")
    path = "/api/context/inject?projects=p"
    first = daemon.get(path)
    # Files that changed a moment ago prove nothing; soon they do.
    eventually(lambda: kept_after(daemon, path) > 0, "an answer is kept")
    assert daemon.get(path).body == first.body
    assert first.headers["content-type"] == "text/plain; charset=utf-8"


def kept_after(daemon: Daemon, path: str) -> int:
    daemon.get(path)
    state = daemon.get("/v1/status").json()
    text = json.dumps(state)
    return text.count(path.partition("?")[0])


def test_a_write_is_in_the_very_next_answer(daemon: Daemon, store: str) -> None:
    for number in range(50):
        add_observation(store, project="p", title=f"row-{number}")
        assert f"row-{number}" in daemon.get("/api/context/inject?projects=p&limit=5").text
        assert rows(daemon, projects=["p"], limit=1)[0]["title"] == f"row-{number}"


def test_a_changed_setting_is_in_the_next_answer(daemon: Daemon, store: str, home: Path) -> None:
    for number in range(5):
        add_observation(store, project="p", title=f"row-{number}")
    settings = home / ".claude-mem" / "settings.json"
    for limit in (1, 3, 2, 4):
        settings.write_text(json.dumps({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": limit}))
        assert len(rows(daemon, projects=["p"])) == limit


def test_the_callers_environment_is_its_own(daemon: Daemon, store: str) -> None:
    for number in range(5):
        add_observation(store, project="p", title=f"row-{number}")
    query = "/api/context/inject?projects=p"
    wanted = {"Claudemem-Env": "CLAUDE_MEM_CONTEXT_OBSERVATIONS=%31"}
    plain = daemon.get(query)
    assert "row-0" in plain.text
    for _ in range(2):
        narrow = daemon.request("GET", query, headers=wanted)
        assert "row-4" in narrow.text
        assert "row-3" not in narrow.text
        assert daemon.get(query).body == plain.body
    env = {"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 2}
    assert len(rows(daemon, projects=["p"], env=env)) == 2


@needs_names_of_bytes
def test_a_folder_that_is_no_utf8_is_found(daemon: Daemon, store: str, home: Path) -> None:
    odd = os.path.join(os.fsencode(home), b"odd-\xff")
    os.mkdir(odd)
    reply = daemon.get("/api/context/inject", {"cwd": odd})
    assert reply.status == 200
    reply.body.decode("utf-8")
    reply = daemon.post("/v1/query", b'{"cwd": "' + odd + b'"}')
    assert reply.status == 200
    assert reply.json()["projects"][0]["key"].startswith("odd-")


def test_curl_with_a_plain_url_works(daemon: Daemon, store: str) -> None:
    add_observation(store, project="ünï", title="found")
    done = daemon.curl("http://localhost/api/context/inject?projects=ünï,other")
    assert done.returncode == 0
    assert "found" in done.stdout
    done = daemon.curl(
        "-G", "--data-urlencode", "projects=ünï", "http://localhost/api/context/inject"
    )
    assert "found" in done.stdout


def test_reload_tells_revision_and_warnings(daemon: Daemon, home: Path) -> None:
    first = daemon.post("/v1/reload").json()
    assert set(first) == {"revision", "warnings"}
    (home / ".claude-mem" / "settings.json").write_text('{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "x"}')
    second = daemon.post("/v1/reload", b"").json()
    assert second["revision"] > first["revision"]
    assert [warning["key"] for warning in second["warnings"]] == ["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]


def test_reload_waits_for_the_body_it_does_not_need(shared_daemon: Daemon) -> None:
    """A client whose body comes in a second piece is not hung up on."""
    with shared_daemon.connect() as connection:
        connection.sendall(
            b"POST /v1/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
        )
        for _ in range(50):
            assert shared_daemon.get("/healthz").status == 200
        connection.sendall(b"null")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_the_client_reads_a_refusal_that_came_before_all_was_sent(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with closing(socket.socket(socket.AF_UNIX)) as server, ThreadPoolExecutor(1) as thread:
        server.bind(path)
        server.listen(1)

        def refuse() -> None:
            with server.accept()[0] as connection:
                connection.recv(10)
                connection.sendall(
                    b"HTTP/1.1 413 Too Large\r\nContent-Length: 35\r\n\r\n"
                    b'{"error":{"message":"over 64 KiB"}}'
                )

        refusing = thread.submit(refuse)
        client = Client({"HOME": str(tmp_path), "CLAUDEMEM_DAEMON_SOCKET": path})
        with pytest.raises(DaemonError, match="over 64 KiB"):
            client.post("/v1/query", {"cwd": "x" * 4_000_000})
        refusing.result(timeout=60)


def test_others_are_answered_while_a_store_is_locked(
    daemon: Daemon, store: str, home: Path
) -> None:
    """Case busy-daemon-taken-for-dead: a slow store is one store's matter."""
    make_store(home / "locked.db", journal="delete")
    add_observation(home / "locked.db", project="p", title="out of reach")
    add_observation(store, project="p", title="within reach")
    stores = {"*": [str(home / "locked.db")]}
    (home / ".claude-mem" / "settings.json").write_text(
        json.dumps({"CLAUDE_MEM_DAEMON_STORES": stores, "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 3000})
    )
    assert len(rows(daemon, projects=["p"])) == 2
    with closing(sqlite3.connect(home / "locked.db", isolation_level=None)) as writer:
        # Else its rows are known, and no lock keeps them back.
        writer.execute("INSERT INTO schema_versions (version, applied_at) VALUES (999, '')")
        writer.execute("BEGIN EXCLUSIVE")
        with ThreadPoolExecutor(6) as clients:
            asking = [
                clients.submit(daemon.post, "/v1/query", {"projects": ["p"], "limit": limit})
                for limit in range(10, 16)
            ]
            assert daemon.get("/healthz").status == 200
            assert daemon.get("/v1/status").status == 200
            done = run_to_end(daemon.environ, "run")
            assert f"already running, pid {daemon.pid}" in done.stderr
            for one in asking:
                answer = one.result().json()
                assert [row["title"] for row in answer["observations"]] == ["within reach"]
                assert answer["warnings"]
        writer.execute("COMMIT")
    assert len(rows(daemon, projects=["p"])) == 2


def test_the_deadline_of_settings_json_counts_for_every_client(daemon: Daemon, home: Path) -> None:
    """Each of them waits for a store that is locked as long as the file says, and no longer."""
    store = make_store(home / ".claude-mem" / "claude-mem.db", journal="delete")
    settings = home / ".claude-mem" / "settings.json"
    for wait in (3_000, 300):
        settings.write_text(json.dumps({"CLAUDE_MEM_DAEMON_TIMEOUT_MS": wait}))
        assert Client(daemon.environ).timeout == max(2_000, wait + 500) / 1000
        shown = daemon.post("/v1/explain", {"projects": ["/"]}).json()["settings"]
        assert shown["CLAUDE_MEM_DAEMON_TIMEOUT_MS"]["value"] == wait
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        add = "INSERT INTO schema_versions (version, applied_at) VALUES (999, '')"
        writer.execute(add)
        for route in ("/v1/query", "/v1/explain"):
            answer = daemon.post(route, {"projects": ["p"]})
            assert answer.status in (200, 504)
            text = answer.text
            assert "store_busy" in text or "0.3 s" in text or "store_slow" in text
        writer.execute("ROLLBACK")


def test_trouble_that_has_ended_is_no_longer_told(daemon: Daemon, home: Path) -> None:
    store = make_store(home / ".claude-mem" / "claude-mem.db", journal="delete")
    good = Path(store).read_bytes()
    Path(store).write_bytes(b"no database at all" * 100)
    assert daemon.post("/v1/query", {"projects": ["p"]}).json()["warnings"]
    assert daemon.get("/healthz").json()["status"] == "degraded"
    assert not daemon.get("/v1/status").json()["stores"][0]["ok"]
    Path(store).write_bytes(good)
    # Nobody asks for rows; to look at the status is enough.
    told = eventually(
        lambda: [one for one in daemon.get("/v1/status").json()["stores"] if one["ok"]],
        "the store is well",
    )
    assert told[0]["path"] == store
    eventually(lambda: daemon.get("/healthz").json()["status"] == "ok", "the daemon is well")
