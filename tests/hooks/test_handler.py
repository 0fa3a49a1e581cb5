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
from claudemem_daemon import hook, local
from claudemem_daemon.api import open_pipeline
from claudemem_daemon.hookfiles.commands import python_line
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.question import Question
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


def read_request(connection: socket.socket) -> tuple[bytes, bytes]:
    """Head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


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
    assert own == [
        "claudemem_daemon",
        "claudemem_daemon.__main__",
        "claudemem_daemon.hook",
        "claudemem_daemon.local",
    ]
    assert heavy == []


def _parent() -> str:
    return os.path.dirname(os.path.dirname(claudemem_daemon.__file__))


def test_it_runs_as_a_script_without_site(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        done = subprocess.run(
            [sys.executable, "-I", "-S", command()[0], "hook", "gemini-cli"],
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
    """What is no object is in the log."""
    with Daemon(tmp_path):
        done = run_hook(tmp_path, call)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert reasons(tmp_path) == ([] if b"cwd" in call else ["stdin"])


@pytest.mark.parametrize("kind", ["file", "fifo", "folder", "loop", "datagrams"])
def test_what_nobody_can_connect_to_is_no_daemon(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ".claude-mem" / "daemon"
    folder.mkdir(parents=True, mode=0o700)
    path = folder / "daemon.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        if kind == "file":
            path.touch()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path)
        else:
            datagrams.bind(str(path))
        call = CALL.replace(b'"/"', json.dumps(str(tmp_path)).encode())
        done = run_hook(tmp_path, call, CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
    assert b"no memory yet" in done.stdout
    assert reasons(tmp_path) == ["no_daemon"]


@pytest.mark.parametrize("arguments", [("nobody",), ("--halp",), ("claude-code", "x")])
def test_a_wrong_call_exits_0_and_says_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run_hook(tmp_path, CALL, *arguments)
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"claude-code" in done.stderr


def test_without_a_daemon_it_answers_by_itself(world: World) -> None:
    """Case daemon-down-blocks-session: no socket, and a socket that nobody listens on. The start of
    a session is one, also where the session brings its first prompt along."""
    home = world.home
    daemon = world.daemon
    app = world.repository("app")
    world.row("app", title="still there")
    daemon.kill()
    call = {"session_id": "s", "cwd": str(app), "hook_event_name": "SessionStart"}
    stale = run_hook(home, json.dumps(call).encode(), CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
    os.unlink(daemon.socket_path)
    call["prompt"] = "p"
    absent = run_hook(home, json.dumps(call).encode(), CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
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


def test_the_log_is_capped_and_keeps_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / ".claude-mem" / "daemon"
    folder.mkdir(parents=True, mode=0o700)
    lines = [f"{number}\tcodex\tbroken\t{'x' * 80}" for number in range(1000)]
    (folder / "hook.log").write_text("\n".join(lines) + "\n")
    run_hook(tmp_path, CALL, "nobody")
    assert (folder / "hook.log").stat().st_size <= local.MAX_LOG
    kept = (folder / "hook.log").read_text().splitlines()
    assert kept[-1].split("\t")[2:] == ["platform", "nobody"]
    assert kept[:-1] == lines[1000 - len(kept) + 1 :]
    assert len(kept) > 100


def test_the_log_says_why_even_where_no_daemon_ever_ran(tmp_path: Path) -> None:
    run_hook(tmp_path)
    assert reasons(tmp_path) == ["no_daemon"]
    for made in (tmp_path / ".claude-mem", tmp_path / ".claude-mem" / "daemon"):
        assert made.stat().st_mode & 0o777 == 0o700
    nowhere = tmp_path / "nowhere"
    assert run_hook(nowhere).returncode == 0
    assert not nowhere.exists()


@pytest.mark.parametrize("prepare", ["fifo", "folder", "link"])
def test_a_log_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path, prepare: str) -> None:
    folder = tmp_path / ".claude-mem" / "daemon"
    folder.mkdir(parents=True, mode=0o700)
    log = folder / "hook.log"
    if prepare == "fifo":
        os.mkfifo(log)
    elif prepare == "folder":
        log.mkdir()
    else:
        log.symlink_to(tmp_path / "target")
    done = run_hook(tmp_path, b"", CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "target").exists()


def test_a_signal_that_the_caller_blocks_still_ends_it(tmp_path: Path) -> None:
    """A mask is inherited, and the deadline is a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        with server(tmp_path, lambda connection: None):
            done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="300")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    assert (done.returncode, reasons(tmp_path)) == (0, ["deadline"])


def test_output_that_nobody_takes_is_given_up(tmp_path: Path) -> None:
    """A pipe that is full: the write waits, the deadline does not."""
    body = json.dumps({"x": "y" * 300_000}).encode()

    def behave(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answering(body))

    with server(tmp_path, behave):
        process = subprocess.Popen(
            [*command(), "hook", "raw"],
            env=clean_environ(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="500"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(CALL)
        process.stdin.close()
        assert process.wait(15) == 0
        process.stdout.close()
    assert reasons(tmp_path) == ["deadline"]


def test_settings_that_are_a_pipe_do_not_hold_it(tmp_path: Path) -> None:
    (tmp_path / ".claude-mem").mkdir()
    os.mkfifo(tmp_path / ".claude-mem" / "settings.json")
    done = run_hook(tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert reasons(tmp_path)[0] == "no_daemon"


@pytest.mark.parametrize("platform", ["claude-code", "copilot-cli", "gemini-cli", "codex"])
def test_without_a_daemon_a_prompt_waits_for_no_news(tmp_path: Path, platform: str) -> None:
    """Nobody knows what is new, and finding that out would load half the package each time."""
    call = json.dumps({"cwd": "/", "session_id": "s", "prompt": "p"}).encode()
    script = (
        f"import sys; sys.path.insert(0, {_parent()!r})\n"
        "from claudemem_daemon import hook\n"
        f"hook.main([{platform!r}], None)\n"
        "sys.stderr.write(' '.join(m for m in sys.modules if m.startswith('claudemem_daemon.')))"
    )
    argv = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(
        argv, input=call, env=clean_environ(tmp_path), capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b"", b"claudemem_daemon.local claudemem_daemon.hook")


def test_without_a_daemon_a_prompt_gets_all_where_that_is_set(world: World) -> None:
    home = world.home
    daemon = world.daemon
    app = world.repository("app")
    world.row("app", title="still there")
    daemon.kill()
    world.settings(
        {"CLAUDE_MEM_DAEMON_PROMPT_CONTEXT": "full", "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 20000}
    )
    fields = {"session_id": "s", "cwd": str(app), "hook_event_name": "UserPromptSubmit"}
    done = run_hook(home, json.dumps({**fields, "prompt": "p"}).encode())
    assert b"still there" in done.stdout


def test_the_script_answers_in_process_too(world: World) -> None:
    """`-S` hides the libraries until they are needed."""
    home = world.home
    app = world.repository("app")
    world.row("app", title="still there")
    assert world.daemon.stop() == 0
    call = json.dumps({"session_id": "s", "cwd": str(app), "hook_event_name": "SessionStart"})
    done = subprocess.run(
        [sys.executable, "-I", "-S", command()[0], "hook", "claude-code"],
        input=call.encode(),
        env=clean_environ(home, CLAUDE_MEM_DAEMON_TIMEOUT_MS="20000"),
        capture_output=True,
        check=False,
    )
    assert b"still there" in done.stdout


def test_of_a_large_prompt_only_the_beginning_goes_along(tmp_path: Path) -> None:
    """It still tells that there was a prompt, and whether a person wrote it."""
    bodies: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        bodies.append(read_request(connection)[1])
        connection.sendall(answering(b"{}"))

    fields = {"cwd": "/", "attachments": ["x" * 100_000], "roots": ["/"], "n": 5}
    call = json.dumps({**fields, "prompt": "<task-notification>" + "漢" * 300_000}).encode()
    with server(tmp_path, behave):
        assert run_hook(tmp_path, call).stdout == b"{}\n"
    sent = json.loads(bodies[0])
    assert sent.pop("prompt").startswith("<task-notification>漢")
    assert sent == {"cwd": "/", "roots": ["/"], "n": 5}
    assert len(bodies[0]) < 10_000


def test_the_callers_settings_go_along(tmp_path: Path) -> None:
    heads: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        heads.append(read_request(connection)[0])
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
    paths = {local.socket_path(clean_environ(home)) for home in homes}
    assert len(paths) == 2
    assert all(len(os.fsencode(path)) <= local.SUN_PATH_MAX for path in paths)
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
    assert not local.private_dir(str(shared))
    assert not local.private_dir(str(link))
    shared.chmod(0o700)
    assert local.private_dir(str(shared))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not local.private_dir(str(shared))


def test_the_deadline_of_the_settings_file_counts(tmp_path: Path) -> None:
    folder = tmp_path / ".claude-mem"
    folder.mkdir()
    (folder / "settings.json").write_text('{"env": {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}}')
    began = time.monotonic()
    with server(tmp_path, lambda connection: None):
        run_hook(tmp_path)
    # Not a measure of speed: without the setting it would be the default.
    assert time.monotonic() - began < hook.DEFAULT_TIMEOUT_MS / 1000


@pytest.mark.parametrize(
    ("environ", "settings", "expected"),
    [
        ({}, {}, 1500),
        ({}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}, 200),
        ({}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 99_999}, 60_000),
        ({}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "1e3"}, 1500),
        ({}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 49}, 1500),
        ({}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": True}, 1500),
        ({"CLAUDE_MEM_DAEMON_TIMEOUT_MS": ""}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}, 200),
        ({"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "300"}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}, 300),
        ({"CLAUDE_MEM_DATA_DIR": "."}, {"CLAUDE_MEM_DAEMON_TIMEOUT_MS": "200"}, 200),
    ],
)
def test_hook_and_daemon_read_the_same_deadline(
    tmp_path: Path, environ: dict[str, str], settings: dict[str, object], expected: int
) -> None:
    folder = tmp_path / ".claude-mem"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    seen = {"HOME": str(tmp_path), **environ}
    with open_pipeline(seen) as pipeline:
        asked = Question(cwd="/", env=environ)
        assert pipeline.configuration.snapshot(asked).timeout_ms == expected
    assert hook.timeout_ms(seen) == expected


def test_the_hook_gives_up_before_its_assistant_does(tmp_path: Path) -> None:
    """Whatever deadline was set for answers; an assistant that gives up says so to its user."""
    for known in PLATFORMS.values():
        allowed = known.timeout * (1 if known.name == "gemini-cli" else 1000)
        assert allowed > hook.MAX_WAIT_MS
    with server(tmp_path, lambda connection: None):
        done = run_hook(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="99999999")
    assert (done.returncode, done.stdout) == (0, b"")
    (line,) = (tmp_path / ".claude-mem" / "daemon" / "hook.log").read_text().splitlines()
    assert line.split("\t")[2:] == ["deadline", f"{hook.MAX_WAIT_MS / 1000:g} s"]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["claude-code", "--help"]])
def test_help_is_an_answer(tmp_path: Path, arguments: list[str]) -> None:
    done = run_hook(tmp_path, b"", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Usage: claudemem-daemon hook PLATFORM\n")
    assert all(name.encode() in done.stdout for name in local.PLATFORMS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("before", ["exec </tmp", "ulimit -n 4", "exec <&-", "exec >&-"])
def test_where_python_itself_cannot_start_the_installed_line_holds(
    tmp_path: Path, before: str
) -> None:
    line = python_line("claude-code", command()[0])
    done = subprocess.run(
        ["sh", "-c", f"{before}; {line}"],
        env=clean_environ(tmp_path),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_moved_data_dir_is_followed_for_the_deadline(tmp_path: Path) -> None:
    (tmp_path / ".claude-mem").mkdir()
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "settings.json").write_text('{"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 700}')
    usual = tmp_path / ".claude-mem" / "settings.json"
    for spelled in ("~/moved", str(tmp_path / "moved")):
        usual.write_text(json.dumps({"env": {"CLAUDE_MEM_DATA_DIR": spelled}}))
        assert hook.timeout_ms({"HOME": str(tmp_path)}) == 700
    assert hook.timeout_ms({"HOME": "/", "CLAUDE_MEM_DATA_DIR": str(tmp_path / "moved")}) == 700


def test_places_depend_on_home_alone(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert local.state_dir({"HOME": home + "/"}) == f"{home}/.claude-mem/daemon"
    assert local.state_dir({"HOME": home, "CLAUDEMEM_DAEMON_HOME": "x"}) == local.state_dir(
        {"HOME": home}
    )
    assert local.state_dir({"HOME": home, "CLAUDEMEM_DAEMON_HOME": "~/s/"}) == f"{home}/s"
    assert local.socket_path({"HOME": home, "CLAUDEMEM_DAEMON_SOCKET": "/x.sock"}) == "/x.sock"
    assert local.socket_path({"HOME": home, "CLAUDEMEM_DAEMON_SOCKET": "x.sock"}) == (
        f"{home}/.claude-mem/daemon/daemon.sock"
    )
    by_password_file = local.state_dir({})
    assert (
        by_password_file == local.state_dir({"HOME": ""}) == local.state_dir({"HOME": "relative"})
    )
    assert by_password_file.startswith("/")
