"""The fast door never gets in the way: exit 0, inside the deadline, one object or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import claudemem_daemon
from claudemem_daemon import hook
from tests.cases.world import World
from tests.support.daemon import Daemon, clean_environ, command

CALL = json.dumps(
    {"session_id": "s", "cwd": "/", "hook_event_name": "SessionStart", "source": "startup"}
).encode()


def run_hook(
    home: Path, call: bytes = CALL, *arguments: str, **env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*command(), "hook", *(arguments or ("claude-code",))],
        input=call,
        env=clean_environ(home, **env),
        capture_output=True,
        check=False,
        timeout=30,
    )


@contextlib.contextmanager
def server(home: Path, behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener in the daemon's place that does as `behave` says with each connection."""
    folder = home / ".claude-mem" / "daemon"
    folder.mkdir(parents=True, mode=0o700)
    path = str(folder / "daemon.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            with contextlib.suppress(OSError):
                behave(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield path
    finally:
        # Wakes accept(), which a close alone does not.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            connection.close()
        thread.join(10)


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head


def answering(body: bytes, *, length: int | None = None, status: str = "200 OK") -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


def reasons(home: Path) -> list[str]:
    log = home / ".claude-mem" / "daemon" / "hook.log"
    return [line.split("\t")[2] for line in log.read_text().splitlines()] if log.exists() else []


def test_nothing_outside_the_standard_library_is_imported_on_the_way(tmp_path: Path) -> None:
    """Everything that is loaded when the answer is there belongs to Python, but for the door."""
    with Daemon(tmp_path) as daemon:
        script = (
            "import sys, os\n"
            "from claudemem_daemon.__main__ import main\n"
            "sys.argv = ['claudemem-daemon', 'hook', 'claude-code']\n"
            "code = main()\n"
            "known = {*sys.stdlib_module_names, '__main__'}\n"
            "own = sorted(m for m in sys.modules if m.split('.')[0] not in known)\n"
            "heavy = {'json', 'socket', 're', 'typing', 'enum', 'signal'} & set(sys.modules)\n"
            "os.write(2, repr((code, own, sorted(heavy))).encode())\n"
        )
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                f"import sys; sys.path.insert(0, {_parent()!r})\n{script}",
            ],
            input=CALL,
            env=clean_environ(daemon.home),
            capture_output=True,
            check=False,
        )
    code, own, heavy = eval(done.stderr)  # our own repr
    assert code == 0
    assert own == ["claudemem_daemon", "claudemem_daemon.__main__", "claudemem_daemon.hook"]
    assert heavy == []


def _parent() -> str:
    return os.path.dirname(os.path.dirname(claudemem_daemon.__file__))


def test_it_runs_as_a_script_without_site(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        done = subprocess.run(
            [sys.executable, "-I", "-S", hook.__file__, "gemini-cli"],
            input=CALL,
            env=clean_environ(daemon.home),
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0
    assert json.loads(done.stdout) is not None


@pytest.mark.parametrize(
    "call",
    [b"", b"garbage", b"[]", b"{", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"cwd": 5}', b"null"],
)
def test_any_input_exits_0_and_prints_nothing_odd(tmp_path: Path, call: bytes) -> None:
    with Daemon(tmp_path):
        done = run_hook(tmp_path, call)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("arguments", [("nobody",), ("--help",), ("claude-code", "x")])
def test_a_wrong_call_exits_0_and_says_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run_hook(tmp_path, CALL, *arguments)
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"claude-code" in done.stderr


def test_without_a_daemon_it_answers_by_itself(tmp_path: Path) -> None:
    """Case daemon-down-blocks-session: no socket, and a socket that nobody listens on."""
    home, root = tmp_path / "home", tmp_path / "w"
    home.mkdir()
    root.mkdir()
    with Daemon(home) as daemon:
        world = World(home, root, daemon)
        app = world.repository("app")
        world.row("app", title="still there")
        daemon.kill()
        call = json.dumps({"session_id": "s", "cwd": str(app), "hook_event_name": "SessionStart"})
        stale = run_hook(home, call.encode(), CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
        os.unlink(daemon.socket_path)
        absent = run_hook(home, call.encode(), CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
    for done in (stale, absent):
        assert done.returncode == 0
        assert "still there" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert reasons(home) == ["no_daemon", "no_daemon"]


def test_a_listener_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Case daemon-down-blocks-session: accepts and is silent."""
    with server(tmp_path, lambda connection: None):
        done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="300")
    assert (done.returncode, done.stdout) == (0, b"")
    assert reasons(tmp_path) == ["deadline"]


def test_one_byte_a_second_is_given_up(tmp_path: Path) -> None:
    """Case hook-timeout-unit: each byte is in time, the whole is not."""
    done_with = threading.Event()

    def drip(connection: socket.socket) -> None:
        for byte in answering(b"{}" * 5000):
            if done_with.wait(0.2):
                return
            connection.sendall(bytes([byte]))

    with server(tmp_path, drip):
        done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="700")
        done_with.set()
    assert (done.returncode, done.stdout) == (0, b"")
    assert reasons(tmp_path) == ["deadline"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "broken"),
        (b"garbage\r\n\r\n", "broken"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "broken"),
        (answering(b'{"a": 1', length=7), "broken"),
        (answering(b'{"a": 1}', length=500), "broken"),
        (answering(b"{} {}"), "broken"),
        (answering(b"[1]"), "broken"),
        (answering(b"plain text"), "broken"),
        (answering(b'{"error": {}}', status="500 Internal Server Error"), "http"),
        (answering(b"{}", length=10**12), "broken"),
    ],
)
def test_half_an_answer_is_no_answer(tmp_path: Path, answer: bytes, reason: str) -> None:
    def behave(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)
        connection.close()

    with server(tmp_path, behave):
        done = run_hook(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert reasons(tmp_path) == [reason]


def test_a_large_answer_in_small_pieces_arrives_whole(tmp_path: Path) -> None:
    """Case large-answer-truncated."""
    body = json.dumps({"x": "漢字😀" * 30_000}, ensure_ascii=False).encode()

    def behave(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        read_request(connection)
        data = answering(body)
        for start in range(0, len(data), 997):
            connection.sendall(data[start : start + 997])

    with server(tmp_path, behave):
        done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
    assert done.stdout == body + b"\n"


def test_a_stopped_daemon_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    """Case pid-alive-but-not-serving."""
    with Daemon(tmp_path) as daemon:
        daemon.signal(signal.SIGSTOP)
        done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="300")
        daemon.signal(signal.SIGCONT)
    assert (done.returncode, done.stdout) == (0, b"")
    assert reasons(tmp_path) == ["deadline"]


def test_standard_input_that_stays_open_does_not_hold_the_prompt(tmp_path: Path) -> None:
    """A whole object is enough; without one the deadline ends the wait."""
    with Daemon(tmp_path):
        for call, timeout in ((CALL, "20000"), (b'{"half', "300")):
            process = subprocess.Popen(
                [*command(), "hook", "gemini-cli"],
                env=clean_environ(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS=timeout),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(call)
            process.stdin.flush()
            assert process.wait(15) == 0
            process.stdin.close()
            process.stdout.close()


def test_closed_streams_gone_folders_and_no_home_are_survived(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {command()[0]} hook claude-code"
    for redirect in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"{script} {redirect}"],
            env={"PATH": os.environ["PATH"], "CLAUDEMEM_DAEMON_HOME": str(tmp_path / "state")},
            input=CALL,
            capture_output=True,
            check=False,
        )
        gone.mkdir()
        assert done.returncode == 0, (redirect, done.stderr)


def test_a_reader_that_left_is_survived(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Daemon(tmp_path):
        process = subprocess.Popen(
            [*command(), "hook", "gemini-cli"],
            env=clean_environ(tmp_path),
            stdin=subprocess.PIPE,
            stdout=writing,
        )
        os.close(writing)
        process.communicate(CALL)
    assert process.returncode == 0


def test_the_log_is_capped(tmp_path: Path) -> None:
    folder = tmp_path / ".claude-mem" / "daemon"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "hook.log").write_text("x" * (hook.MAX_LOG + 1))
    run_hook(tmp_path, CALL, "nobody")
    assert (folder / "hook.log").stat().st_size < 200


def test_a_large_prompt_goes_without_its_text(tmp_path: Path) -> None:
    heads: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        heads.append(read_request(connection))
        connection.sendall(answering(b"{}"))

    call = json.dumps({"cwd": "/", "prompt": "p" * 1_000_000}).encode()
    with server(tmp_path, behave):
        assert run_hook(tmp_path, call).stdout == b"{}\n"
    assert b"Content-Length: 12\r\n" in heads[0] + b"\r\n"


def test_the_callers_settings_go_along(tmp_path: Path) -> None:
    heads: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        heads.append(read_request(connection))
        connection.sendall(answering(b"{}"))

    with server(tmp_path, behave):
        run_hook(tmp_path, CLAUDE_MEM_MODE="a b\n%", SECRET="no")
    assert b"Claudemem-Env: CLAUDE_MEM_MODE=a%20b%0A%25" in heads[0]
    assert b"SECRET" not in heads[0]


def test_client_and_daemon_agree_whatever_the_session_says(tmp_path: Path) -> None:
    """Case runtime-dir-differs-client-server."""
    with Daemon(tmp_path, environ={"XDG_RUNTIME_DIR": str(tmp_path)}):
        for runtime in ("", "/nowhere", "/"):
            done = run_hook(tmp_path, CALL, "gemini-cli", XDG_RUNTIME_DIR=runtime)
            assert done.stdout.strip() not in (b"",)
    assert reasons(tmp_path) == []


def test_two_long_homes_have_two_short_sockets(tmp_path: Path) -> None:
    """Case sun-path-too-long: bytes count, not characters."""
    homes = [tmp_path / ("é" * 45 + end) for end in ("one", "two")]
    for home in homes:
        home.mkdir()
    paths = {hook.socket_path(clean_environ(home)) for home in homes}
    assert len(paths) == 2
    assert all(len(os.fsencode(path)) <= hook.SUN_PATH_MAX for path in paths)
    with Daemon(homes[0]) as one, Daemon(homes[1]) as two:
        assert one.get("/healthz").json()["pid"] == one.pid
        assert two.get("/healthz").json()["pid"] == two.pid


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case shared-tmp-dir-squatting: a link, and a folder open to others."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not hook.private_dir(str(shared))
    assert not hook.private_dir(str(link))
    shared.chmod(0o700)
    assert hook.private_dir(str(shared))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not hook.private_dir(str(shared))


def test_the_deadline_of_the_settings_file_counts(tmp_path: Path) -> None:
    folder = tmp_path / ".claude-mem"
    folder.mkdir()
    (folder / "settings.json").write_text('{"env": {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}}')
    began = time.monotonic()
    with server(tmp_path, lambda connection: None):
        run_hook(tmp_path)
    # Not a measure of speed: without the setting it would be the default.
    assert time.monotonic() - began < hook.DEFAULT_TIMEOUT_MS / 1000
