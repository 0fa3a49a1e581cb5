"""Under a service manager: sockets from outside, and what it is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from claudemem_daemon.server.protocol import welcome
from tests.support.daemon import PATIENCE, Daemon, eventually, run_to_end

AS_SYSTEMD = (
    "import os, sys\n"
    "fd = int(sys.argv[1])\n"
    "os.dup2(fd, 3)\n"
    "os.environ['LISTEN_PID'] = str(os.getpid() + int(sys.argv[2]))\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
"""What systemd does between fork and exec: descriptor 3, and the pid of who is meant by it."""


def as_systemd(fd: int, *, pid_off_by: int = 0) -> list[str]:
    return [sys.executable, "-c", AS_SYSTEMD, str(fd), str(pid_off_by)]


@pytest.fixture
def listener(home: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(home / "from-systemd.sock"))
        sock.listen()
        yield sock


@pytest.fixture
def notified(home: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(home / "notify.sock"))
        sock.settimeout(PATIENCE)
        yield sock


def activated(home: Path, listener: socket.socket, **environ: str) -> Daemon:
    return Daemon(
        home,
        environ={
            "LISTEN_FDS": "1",
            "CLAUDEMEM_DAEMON_SOCKET": str(home / "from-systemd.sock"),
            **environ,
        },
        prefix=as_systemd(listener.fileno()),
        pass_fds=[listener.fileno()],
    )


def test_an_inherited_socket_is_used_and_left_alone(home: Path, listener: socket.socket) -> None:
    """Case socket-activation-unlink: no LISTEN_FDNAMES is needed."""
    with activated(home, listener) as daemon:
        status = daemon.get("/v1/status")
        assert status.status == 200
        assert not (home / ".claude-mem/daemon/daemon.sock").exists()


def test_the_file_of_an_inherited_socket_outlives_the_daemon(
    home: Path, listener: socket.socket
) -> None:
    """Case socket-activation-unlink."""
    path = home / "from-systemd.sock"
    inode = path.stat().st_ino
    with activated(home, listener) as daemon:
        assert daemon.stop() == 0
        assert path.stat().st_ino == inode
        with closing(daemon.connect()):
            # It is in the queue that the service manager still listens on.
            assert daemon.process.poll() == 0


def test_nobody_we_start_inherits_socket_or_variables(home: Path, listener: socket.socket) -> None:
    """Case socket-activation-unlink."""
    if sys.platform != "linux":
        pytest.skip("reads /proc, which only Linux has")
    with activated(home, listener) as daemon:
        with open(f"/proc/{daemon.pid}/fdinfo/3", encoding="ascii") as file:
            flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
        assert flags & os.O_CLOEXEC


def test_variables_for_another_process_are_ignored(home: Path, listener: socket.socket) -> None:
    """Case socket-activation-unlink: wrong LISTEN_PID, so it binds as usual."""
    daemon = Daemon(
        home,
        environ={"LISTEN_FDS": "1"},
        prefix=as_systemd(listener.fileno(), pid_off_by=1),
        pass_fds=[listener.fileno()],
    )
    with daemon:
        assert daemon.socket_path == str(home / ".claude-mem/daemon/daemon.sock")
        assert daemon.reachable()


@pytest.mark.parametrize(
    ("count", "kind", "says"),
    [
        ("2", "listener", "one is wanted"),
        ("x", "listener", "not a number"),
        ("1", "file", "not a socket"),
        ("1", "udp", "not a Unix stream socket"),
        ("1", "unbound", "does not listen"),
    ],
)
def test_a_bad_descriptor_is_a_clear_error(
    home: Path, listener: socket.socket, count: str, kind: str, says: str
) -> None:
    """Case socket-activation-unlink."""
    with (
        open(os.devnull, "rb") as file,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unbound,
    ):
        kinds = {
            "listener": listener.fileno(),
            "file": file.fileno(),
            "udp": udp.fileno(),
            "unbound": unbound.fileno(),
        }
        fd = kinds[kind]
        daemon = Daemon(home, environ={"LISTEN_FDS": count}, prefix=as_systemd(fd), pass_fds=[fd])
        with pytest.raises(AssertionError, match=f"ended with 1: .*{says}") as failure, daemon:
            raise RuntimeError("it started")
        assert "Traceback" not in str(failure.value)


def test_another_user_is_refused_at_the_door(home: Path, listener: socket.socket) -> None:
    """Case socket-mode-follows-umask: the peer's uid is checked, whatever the file's mode."""
    if os.geteuid() != 0:
        pytest.skip("only root can connect as somebody else")
    os.chmod(home, 0o755)
    os.chmod(home / "from-systemd.sock", 0o666)
    script = (
        "import os, socket, sys\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "s.sendall(b'GET /v1/status HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
        "data = b''\n"
        "while chunk := s.recv(65536): data += chunk\n"
        "sys.stdout.write(data.decode())\n"
    )
    with activated(home, listener) as daemon:
        done = subprocess.run(
            [sys.executable, "-I", "-c", script, daemon.socket_path],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert done.stdout.startswith("HTTP/1.1 403 ")
        assert "state_dir" not in done.stdout
        assert daemon.reachable()


def test_we_and_root_are_welcome_and_nobody_else() -> None:
    assert welcome(os.geteuid())
    assert welcome(0)
    assert not welcome(os.geteuid() + 1)


def test_systemd_hears_of_ready_reload_and_stop(home: Path, notified: socket.socket) -> None:
    with Daemon(home, environ={"NOTIFY_SOCKET": str(home / "notify.sock")}) as daemon:
        first = notified.recv(4096).decode()
        assert first.startswith("READY=1\nSTATUS=")
        assert daemon.socket_path in first
        daemon.signal(signal.SIGHUP)
        reloading = dict(line.split("=", 1) for line in notified.recv(4096).decode().split("\n"))
        assert reloading["RELOADING"] == "1"
        assert reloading["MONOTONIC_USEC"].isdecimal()
        assert notified.recv(4096).startswith(b"READY=1")
        assert daemon.stop() == 0
        assert notified.recv(4096).startswith(b"STOPPING=1")
        # Under a service manager the lines go to its journal.
        assert not os.path.exists(daemon.state_dir + "/daemon.log")


def test_a_vanished_inherited_socket_is_replaced_by_our_own(
    home: Path, listener: socket.socket
) -> None:
    """Case tmp-cleanup-removes-socket."""
    path = home / "from-systemd.sock"
    with activated(home, listener) as daemon:
        path.unlink()
        eventually(daemon.reachable, "the socket is there again")
        assert daemon.stop() == 0
        assert not path.exists()


def test_a_daemon_by_hand_gives_way_to_one_that_has_the_socket(daemon: Daemon) -> None:
    done = run_to_end(daemon.environ | {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, "run")
    assert done.returncode == 0
    assert "already running" in done.stderr
