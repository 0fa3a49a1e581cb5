"""One daemon a user, whatever was left behind by the one before."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from claudemem_daemon.client import Client
from claudemem_daemon.errors import DaemonError
from claudemem_daemon.server.lifecycle import InstanceLock, private_folder
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
    # Its time of access is whoever's who reads the link.
    after = place.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


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


def test_a_stop_leaves_no_socket(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    left = ["daemon.lock", "daemon.log", "sessions.json"]
    assert sorted(os.listdir(daemon.state_dir)) == left


STOPPED_WHILE_LOOKING = """
import os, signal, sys, threading, time
from claudemem_daemon.__main__ import main
from claudemem_daemon.server.listening import Listening
looked = Listening.in_place
def in_place(listening):
    if threading.current_thread() is not threading.main_thread():
        os.kill(os.getpid(), signal.SIGTERM)
        end = time.monotonic() + 0.5  # long enough for a stop that waits for nobody
        while looked(listening) and time.monotonic() < end:
            time.sleep(0.01)  # the main thread unlinks, and has no event for us
    return looked(listening)
Listening.in_place = in_place
sys.argv[0] = "claudemem-daemon"
main()
"""


def test_a_stop_while_a_reload_looks_for_the_socket_leaves_none(home: Path) -> None:
    """The socket that goes is not put back by what the reload finds missing."""
    with Daemon(home, program=[sys.executable, "-c", STOPPED_WHILE_LOOKING]) as daemon:
        daemon.signal(signal.SIGHUP)
        assert daemon.process.wait(15) == 0
        assert not os.path.lexists(daemon.socket_path)


PID_NAMESPACE = (
    "import os, subprocess, sys\n"
    "wanted = int(sys.argv[1])\n"
    "with open('/proc/sys/kernel/ns_last_pid', 'w') as file: file.write(str(wanted - 1))\n"
    "bystander = subprocess.Popen(['sleep', '60'])\n"
    "done = subprocess.run(sys.argv[2:], capture_output=True, text=True)\n"
    "print(bystander.pid == wanted, bystander.poll(), done.returncode, done.stderr)\n"
    "bystander.kill()\n"
)
"""As a container with the same HOME, in which the daemon's number is somebody else's."""


@pytest.mark.parametrize("state", ["answers", "stopped", "socket gone"])
@pytest.mark.parametrize("proc", ["--mount-proc", "--kill-child"])
def test_stop_signals_nobody_in_another_pid_namespace(
    daemon: Daemon, state: str, proc: str
) -> None:
    namespace = ["unshare", "-pf", proc]
    tried = subprocess.run([*namespace, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("unshare -p is refused here")
    environ = dict(daemon.environ)
    if state == "stopped":
        daemon.signal(signal.SIGSTOP)
    elif state == "socket gone":
        environ["CLAUDEMEM_DAEMON_SOCKET"] = daemon.socket_path + "x"
    done = subprocess.run(
        [*namespace, sys.executable, "-c", PID_NAMESPACE, str(daemon.pid), *command(), "stop"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    daemon.signal(signal.SIGCONT)
    assert done.stdout.startswith("True None 1 claudemem-daemon: "), done.stdout
    assert "another PID namespace" in done.stdout
    assert daemon.reachable()


@pytest.mark.parametrize("state", ["answers", "stopped", "socket gone"])
def test_stop_ends_the_daemon_whatever_state_it_is_in(daemon: Daemon, state: str) -> None:
    environ = dict(daemon.environ)
    if state == "socket gone":
        environ["CLAUDEMEM_DAEMON_SOCKET"] = daemon.socket_path + "x"
    elif state == "stopped":
        daemon.signal(signal.SIGSTOP)
        # Heard at once after it goes on.
        threading.Timer(3, daemon.signal, (signal.SIGCONT,)).start()
    done = run_to_end(environ, "stop")
    assert done.stdout == f"stopped (it was pid {daemon.pid})\n", done.stderr
    assert daemon.process.wait(20) == 0


def test_a_lock_that_a_client_tries_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = InstanceLock(str(tmp_path / "daemon.lock"))
    trying = os.open(lock.path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(trying, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(trying, fcntl.LOCK_UN))
    lock.acquire()
    os.close(trying)
    assert lock.in_place()
    lock.release()


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    script = (
        "mount -t tmpfs -o size=64k none $HOME && mkdir -p $HOME/.claude-mem"
        ' && { head -c 200k /dev/zero > $HOME/fill 2>/dev/null; exec "$@"; }'
    )
    prefix = ["unshare", "-m", "sh", "-c", script, "sh"]
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare -m is refused here")
    done = subprocess.run(
        [*prefix, *command(), "run"],
        env=clean_environ(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"{tmp_path}/.claude-mem/daemon" in done.stderr
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_start_answers_when_it_is_done_and_logs_show_what_was(home: Path) -> None:
    environ = clean_environ(home)
    assert run_to_end(environ, "logs").returncode == 1
    started = run_to_end(environ, "start")
    try:
        assert started.returncode == 0, started.stderr
        pid = int(started.stdout.removeprefix("started, pid "))
        health = json.loads(Client(environ).get("/healthz"))
        assert health["pid"] == pid
        assert run_to_end(environ, "start").stdout == f"already running, pid {pid}\n"
        assert f"[{pid}]" in run_to_end(environ, "logs").stdout
        with subprocess.Popen(
            [*command(), "logs", "-f", "-n", "1"], env=environ, stdout=subprocess.PIPE, text=True
        ) as following:
            assert following.stdout is not None
            assert "answers on" in following.stdout.readline()
            assert run_to_end(environ, "reload").returncode == 0
            assert run_to_end(environ, "stop").returncode == 0
            assert "asked to stop" in following.stdout.readline()
            following.terminate()
    finally:
        run_to_end(environ, "stop")


def test_start_says_why_it_cannot(home: Path) -> None:
    place = home / ".claude-mem" / "daemon" / "daemon.sock"
    place.parent.mkdir(parents=True, mode=0o700)
    place.write_text("precious")
    done = run_to_end(clean_environ(home), "start")
    assert done.returncode == 1
    assert f"{place} is a file that is not a socket" in done.stderr
    assert done.stderr.count("\n") == 1
