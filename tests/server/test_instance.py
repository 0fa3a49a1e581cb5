"""One daemon a user, whatever was left behind by the one before."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from claudemem_daemon.errors import DaemonError
from claudemem_daemon.server.lifecycle import private_folder
from tests.support.daemon import (
    Daemon,
    clean_environ,
    command,
    eventually,
    run_to_end,
)


def test_a_killed_daemon_leaves_nothing_that_stops_the_next(daemon: Daemon) -> None:
    """Case stale-socket-after-kill."""
    daemon.kill()
    assert os.path.exists(daemon.socket_path)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(daemon.socket_path)
    daemon.start()
    assert daemon.get("/healthz").json()["pid"] == daemon.pid


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_is_never_deleted(home: Path, kind: str) -> None:
    """Case stale-socket-after-kill."""
    folder = home / ".claude-mem" / "daemon"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    place = folder / "daemon.sock"
    if kind == "file":
        place.write_text("precious")
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(home / "elsewhere")
    before = place.lstat()
    done = run_to_end(clean_environ(home), "run")
    assert done.returncode == 1
    assert str(place) in done.stderr
    assert "Traceback" not in done.stderr
    assert place.lstat() == before


def test_a_second_daemon_says_who_runs_and_leaves_the_first_alone(daemon: Daemon) -> None:
    """Case second-instance-steals-socket."""
    inode = os.stat(daemon.socket_path).st_ino
    done = run_to_end(daemon.environ, "run")
    assert done.returncode == 1
    assert f"already running, pid {daemon.pid}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.stat(daemon.socket_path).st_ino == inode
    assert daemon.reachable()
    assert daemon.stop() == 0
    assert not os.path.exists(daemon.socket_path)


@pytest.mark.parametrize(
    "manager", [{"INVOCATION_ID": "0123"}, {"XPC_SERVICE_NAME": "claudemem-daemon"}]
)
def test_under_a_service_manager_already_running_is_no_failure(
    daemon: Daemon, manager: dict[str, str]
) -> None:
    """Case launchd-respawn-loop."""
    done = run_to_end(daemon.environ | manager, "run")
    assert done.returncode == 0
    assert f"already running, pid {daemon.pid}" in done.stderr


def test_of_five_at_once_one_serves(home: Path) -> None:
    """Case second-instance-steals-socket."""
    started = [
        subprocess.Popen(
            [*command(), "run"],
            env=clean_environ(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    try:
        eventually(
            lambda: sum(one.poll() is not None for one in started) == 4, "four of the five give way"
        )
        alive = next(one for one in started if one.poll() is None)
        for one in started:
            if one is not alive:
                assert one.returncode == 1
                assert one.stderr is not None
                assert f"already running, pid {alive.pid}" in one.stderr.read()
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(20)
            assert one.stderr is not None
            one.stderr.close()


def test_a_successors_socket_survives_the_end_of_its_predecessor(daemon: Daemon) -> None:
    """Case second-instance-steals-socket: only the inode that was bound is unlinked."""
    daemon.signal(signal.SIGSTOP)
    os.unlink(daemon.socket_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(daemon.socket_path)
        inode = os.lstat(daemon.socket_path).st_ino
        daemon.signal(signal.SIGTERM)
        daemon.signal(signal.SIGCONT)
        assert daemon.process.wait(20) == 0
        # It may have had time to put its own back before it heard the signal; never an unlink of
        # what somebody else bound without a bind of its own.
        if os.path.exists(daemon.socket_path):
            assert os.lstat(daemon.socket_path).st_ino == inode


@pytest.mark.parametrize("content", ["1 0.0.1\n", "garbage", ""])
def test_a_pid_in_the_lock_file_blocks_nobody(home: Path, content: str) -> None:
    """Case pid-alive-but-not-serving: a foreign live pid is only a number; the lock counts."""
    folder = home / ".claude-mem" / "daemon"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    text = content.replace("1 ", f"{os.getpid()} ")
    (folder / "daemon.lock").write_text(text)
    with Daemon(home) as daemon:
        assert (folder / "daemon.lock").read_text().startswith(f"{daemon.pid} ")


def test_a_stopped_daemon_is_not_taken_for_dead(daemon: Daemon) -> None:
    """Case busy-daemon-taken-for-dead: the lock tells, not the speed of an answer."""
    inode = os.stat(daemon.socket_path).st_ino
    daemon.signal(signal.SIGSTOP)
    done = run_to_end(daemon.environ, "run")
    assert done.returncode == 1
    assert f"already running, pid {daemon.pid}" in done.stderr
    with daemon.connect(timeout=0.2) as waiting:
        waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(TimeoutError):
            waiting.recv(1)
    daemon.signal(signal.SIGCONT)
    assert os.stat(daemon.socket_path).st_ino == inode
    assert daemon.reachable()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_modes_do_not_follow_the_umask(home: Path, umask: int) -> None:
    """Case socket-mode-follows-umask."""
    with Daemon(home, umask=umask) as daemon:
        assert stat.S_IMODE(os.lstat(daemon.state_dir).st_mode) == 0o700
        assert stat.S_IMODE(os.lstat(daemon.socket_path).st_mode) == 0o600
        assert stat.S_IMODE(os.lstat(daemon.state_dir + "/daemon.lock").st_mode) & 0o077 == 0


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755])
def test_a_state_folder_that_is_open_to_others_is_refused(home: Path, mode: int) -> None:
    """Case socket-mode-follows-umask."""
    folder = home / ".claude-mem" / "daemon"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    done = run_to_end(clean_environ(home), "run")
    assert done.returncode == 1
    assert f"chmod 700 {folder}" in done.stderr
    assert os.listdir(folder) == []


def test_a_state_folder_that_is_a_link_is_refused(home: Path) -> None:
    """Case shared-tmp-dir-squatting."""
    (home / "elsewhere").mkdir(mode=0o700)
    (home / ".claude-mem").mkdir()
    (home / ".claude-mem" / "daemon").symlink_to(home / "elsewhere")
    done = run_to_end(clean_environ(home), "run")
    assert done.returncode == 1
    assert "symbolic link" in done.stderr
    assert os.listdir(home / "elsewhere") == []


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Case shared-tmp-dir-squatting."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else")
    theirs = tmp_path / "claudemem-0"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(DaemonError, match="belongs to user 65534"):
        private_folder(str(theirs))
    (tmp_path / "link").symlink_to(theirs)
    with pytest.raises(DaemonError, match="symbolic link"):
        private_folder(str(tmp_path / "link"))


def test_a_socket_in_a_folder_that_others_can_write_is_refused(home: Path) -> None:
    """Case socket-mode-follows-umask."""
    (home / "open").mkdir()
    (home / "open").chmod(0o777)
    environ = clean_environ(home, CLAUDEMEM_DAEMON_SOCKET=str(home / "open" / "s.sock"))
    done = run_to_end(environ, "run")
    assert done.returncode == 1
    assert str(home / "open") in done.stderr
    assert os.listdir(home / "open") == []


@pytest.mark.parametrize("runtime", ["/run/user/1", "", "/nonexistent"])
def test_the_place_does_not_depend_on_the_runtime_folder(home: Path, runtime: str) -> None:
    """Case runtime-dir-differs-client-server."""
    with Daemon(home, environ={"XDG_RUNTIME_DIR": runtime}) as daemon:
        done = run_to_end(clean_environ(home), "run")
        assert f"already running, pid {daemon.pid}" in done.stderr


def test_two_long_homes_have_two_short_sockets(home: Path) -> None:
    """Case sun-path-too-long: bytes count, nothing is cut off, neighbours do not meet."""
    shared = home / ("ü" * 40)
    homes = [shared / "first", shared / "second"]
    for one in homes:
        one.mkdir(parents=True)
    with Daemon(homes[0]) as first, Daemon(homes[1]) as second:
        assert first.socket_path != second.socket_path
        assert len(os.fsencode(first.socket_path)) < 104
        assert first.get("/healthz").json()["pid"] == first.pid
        assert second.get("/healthz").json()["pid"] == second.pid
        folder = os.path.dirname(first.socket_path)
        assert stat.S_IMODE(os.lstat(folder).st_mode) == 0o700
        assert os.listdir(first.state_dir) != []


def test_it_is_ready_with_an_unusable_standard_error(home: Path) -> None:
    daemon = Daemon(home, prefix=["/bin/sh", "-c", 'exec "$@" 2>&-', "sh"])
    with daemon:
        assert daemon.reachable()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_watch_that_ends_is_nothing_to_be_told_of(tmp_path: Path) -> None:
    """watchdog says so where a watch ends while its thread reads; it did at a stop, now and then."""
    script = (
        "import logging, sys\n"
        "from watchdog.events import FileSystemEventHandler\n"
        "from watchdog.observers import Observer\n"
        "from claudemem_daemon.server.log import hush\n"
        "hush()\n"
        "observer = Observer()\n"
        "observer.start()\n"
        "observer.schedule(FileSystemEventHandler(), sys.argv[1])\n"
        "(emitter,) = observer.emitters\n"
        "observer.stop()\n"
        "observer.join()\n"
        "emitter.queue_events(1)\n"
        "logging.getLogger('watchdog.observers.inotify').error('another')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stderr == "another\n"


def test_a_stop_leaves_only_the_lock_and_the_log(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    assert sorted(os.listdir(daemon.state_dir)) == ["daemon.lock", "daemon.log"]
