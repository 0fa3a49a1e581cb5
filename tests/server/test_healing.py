"""What is taken away from a running daemon, it puts back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import claudemem_daemon
from tests.support.daemon import Daemon, eventually, run_to_end
from tests.support.stores import add_observation, make_store


def lock_holder(daemon: Daemon) -> str:
    with open(daemon.state_dir + "/daemon.lock", encoding="ascii") as file:
        return file.read()


def test_an_unlinked_socket_is_bound_again(daemon: Daemon) -> None:
    """Case pid-alive-but-not-serving."""
    for _ in range(3):
        os.unlink(daemon.socket_path)
        eventually(daemon.reachable, "the socket is there again")
    assert os.lstat(daemon.socket_path).st_mode & 0o777 == 0o600
    assert daemon.stop() == 0
    assert not os.path.exists(daemon.socket_path)


@pytest.mark.parametrize("level", ["daemon", ".claude-mem"])
def test_a_deleted_state_folder_comes_back_with_lock_and_socket(
    daemon: Daemon, home: Path, level: str
) -> None:
    """Case tmp-cleanup-removes-socket."""
    victim = home / ".claude-mem" if level == ".claude-mem" else home / ".claude-mem" / "daemon"
    shutil.rmtree(victim, ignore_errors=True)
    eventually(daemon.reachable, "the socket is there again")
    eventually(lambda: os.path.exists(daemon.state_dir + "/daemon.lock"), "the lock is there again")
    assert os.lstat(daemon.state_dir).st_mode & 0o777 == 0o700
    done = run_to_end(daemon.environ, "run")
    assert f"already running, pid {daemon.pid}" in done.stderr
    # The new folder is guarded like the old one.
    os.unlink(daemon.socket_path)
    eventually(daemon.reachable, "the socket is there once more")


def test_a_folder_moved_away_is_made_anew(daemon: Daemon, home: Path) -> None:
    os.rename(daemon.state_dir, home / "moved")
    eventually(daemon.reachable, "the socket is there again")
    assert lock_holder(daemon).startswith(f"{daemon.pid} ")


def test_the_short_folder_comes_back(home: Path) -> None:
    """Case tmp-cleanup-removes-socket: only the fallback for long names is in a folder that is
    cleaned; the lock is not."""
    deep = home / ("x" * 90)
    deep.mkdir()
    with Daemon(deep) as daemon:
        os.unlink(daemon.socket_path)
        eventually(daemon.reachable, "the socket is there again")
        assert lock_holder(daemon).startswith(f"{daemon.pid} ")


def test_a_file_in_the_sockets_place_stays_and_is_told(daemon: Daemon) -> None:
    os.unlink(daemon.socket_path)
    eventually(daemon.reachable, "the socket is there again")
    daemon.signal(signal.SIGSTOP)
    os.unlink(daemon.socket_path)
    Path(daemon.socket_path).write_text("precious")
    daemon.signal(signal.SIGCONT)
    eventually(lambda: "is a file that is not a socket" in daemon.errors(), "it says why")
    assert Path(daemon.socket_path).read_text() == "precious"
    os.unlink(daemon.socket_path)
    eventually(daemon.reachable, "the socket is there again")


def test_a_daemon_whose_place_was_taken_gives_way(daemon: Daemon, home: Path) -> None:
    daemon.signal(signal.SIGSTOP)
    shutil.rmtree(home / ".claude-mem")
    with Daemon(home) as successor:
        daemon.signal(signal.SIGCONT)
        assert daemon.process.wait(20) == 0
        assert "another daemon took the place" in daemon.errors()
        assert successor.get("/healthz").json()["pid"] == successor.pid


def test_a_full_disk_does_not_stop_the_answers(home: Path) -> None:
    """The log cannot be written: RLIMIT_FSIZE of 0 is a full disk for everything but sockets."""
    script = (
        "import os, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    with Daemon(home, prefix=[sys.executable, "-c", script]) as daemon:
        os.unlink(daemon.socket_path)
        eventually(daemon.reachable, "the socket is there again")


def test_the_code_may_be_replaced_under_a_running_daemon(home: Path, tmp_path: Path) -> None:
    """Case old-daemon-after-upgrade: no import happens late, and status tells both versions."""
    package = Path(claudemem_daemon.__file__).parent
    copy = tmp_path / "lib" / "claudemem_daemon"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.argv[1:2] = []\n"
        "from claudemem_daemon.__main__ import main; sys.exit(main())\n"
    )
    program = [sys.executable, "-B", "-c", script, str(copy.parent)]
    with Daemon(home, program=program) as daemon:
        assert daemon.get("/v1/status").status == 200
        shutil.rmtree(copy)
        asked = {"cwd": str(tmp_path), "a field of a newer client": 1}
        for _ in range(2):
            assert daemon.get("/healthz").headers["claudemem-daemon-version"]
            assert daemon.post("/v1/query", asked).status == 200
            assert daemon.post("/v1/explain", asked).status == 200
            assert daemon.get("/api/context/inject", {"cwd": str(tmp_path)}).status == 200
            hook = {"hook_event_name": "SessionStart", "cwd": str(tmp_path), "session_id": "s"}
            assert daemon.post("/v1/hooks/claude-code", hook).status == 200
            assert daemon.post("/v1/reload").status == 200
            assert daemon.get("/v1/status").status == 200
        assert daemon.get("/nowhere").error == "not_found"
        daemon.signal(signal.SIGHUP)
        assert daemon.reachable()
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.errors()


def test_a_stop_waits_for_an_answer_that_is_being_read(daemon: Daemon) -> None:
    with daemon.connect() as connection:
        connection.sendall(b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n\r\n{")
        daemon.signal(signal.SIGTERM)
        eventually(lambda: not os.path.exists(daemon.socket_path), "it is stopping")
        connection.sendall(b'"cwd": "/tmp"}'[1:])
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 ")
    assert daemon.process.wait(20) == 0


def test_a_client_that_never_finishes_does_not_hold_up_a_stop(daemon: Daemon) -> None:
    with daemon.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert daemon.stop() == 0


def test_no_wake_ups_while_nothing_is_asked(daemon: Daemon) -> None:
    """Context switches of every thread, over a second in which nothing happens."""
    if sys.platform != "linux":
        pytest.skip("reads /proc, which only Linux has")

    def switches() -> int:
        total = 0
        for thread in os.listdir(f"/proc/{daemon.pid}/task"):
            with open(f"/proc/{daemon.pid}/task/{thread}/status", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
        return total

    assert daemon.reachable()

    def quiet() -> bool:
        before = switches()
        subprocess.run(["sleep", "1"], check=True)
        return switches() - before <= 1

    eventually(quiet, "a second passes without a wake-up")


def test_a_stop_under_load_is_clean(home: Path) -> None:
    """Every client gets a whole answer or finds nobody; the exit code is that of a clean stop."""
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    for number in range(100):
        add_observation(store, project="p", title=f"row-{number}", narrative="x" * 500)
    with Daemon(home) as daemon:
        done = threading.Event()

        def ask(client: int) -> int:
            answered = 0
            while not done.is_set():
                body = {"projects": ["p"], "limit": (client * 13 + answered) % 90 + 1}
                try:
                    reply = daemon.post("/v1/query", body)
                except OSError:
                    return answered
                assert reply.status == 200
                assert len(reply.json()["observations"]) == body["limit"]
                answered += 1
            return answered

        with ThreadPoolExecutor(6) as clients:
            asking = [clients.submit(ask, client) for client in range(6)]
            eventually(lambda: daemon.get("/v1/status").json()["requests"]["total"] > 50, "load")
            assert daemon.stop() == 0
            done.set()
            assert sum(one.result() for one in asking) > 0
        assert "failed" not in daemon.errors()
        assert "Traceback" not in daemon.errors()
