"""The service under a real systemd user manager."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.manager import Manager, user_manager, why_not
from tests.support.daemon import command, eventually
from tests.support.stores import add_observation, make_store

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CALL = json.dumps({"session_id": "s", "cwd": "/srv", "hook_event_name": "SessionStart"})


@pytest.fixture
def manager() -> Iterator[Manager]:
    # Short, for a socket's name must be.
    with tempfile.TemporaryDirectory(prefix="cm-") as folder, user_manager(Path(folder)) as made:
        yield made


def test_install_activate_crash_reload_upgrade_and_uninstall(manager: Manager) -> None:
    store = make_store(manager.home / ".claude-mem" / "claude-mem.db")
    add_observation(store, project="srv", title="by the service")

    done = manager.ours("service", "install")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("wrote") == 2
    assert "loginctl enable-linger" in done.stdout
    assert manager.systemctl("is-active", "claudemem-daemon.socket") == "active"
    assert manager.main_pid() == 0, "nothing runs before the first question"

    # The first connection starts it.
    first = manager.ours("hook", "claude-code", text=CALL)
    assert "by the service" in first.stdout
    pid = manager.main_pid()
    assert pid > 0
    assert manager.systemctl("is-active", "claudemem-daemon.service") == "active"
    status = json.loads(manager.ours("status", "--json").stdout)
    assert status["process"]["started_by"] == "systemd"
    assert status["socket"]["inherited"] is True
    assert status["socket"]["mode"] == 0o600
    said = manager.systemctl("show", "-p", "StatusText", "--value", "claudemem-daemon.service")
    assert "Answering" in said

    # A second one by hand does not steal the socket.
    second = manager.ours("run")
    assert second.returncode == 1
    assert f"already running, pid {pid}" in second.stderr

    # kill -9, and the next question is answered by another.
    manager.run("kill", "-9", str(pid))
    eventually(lambda: manager.main_pid() not in (0, pid), "systemd starts it again")
    assert "by the service" in manager.ours("hook", "claude-code", text=CALL).stdout

    # Reload keeps the process.
    pid = manager.main_pid()
    assert manager.run("systemctl", "--user", "reload", "claudemem-daemon.service").returncode == 0
    assert manager.main_pid() == pid

    # An older unit is brought up to date in place.
    unit = manager.home / ".config/systemd/user/claudemem-daemon.service"
    current = unit.read_text()
    unit.write_text(current.replace("RestartSec=1", "RestartSec=9"))
    again = manager.ours("service", "install")
    assert again.returncode == 0, again.stderr
    assert "updated" in again.stdout
    assert "unchanged" in again.stdout
    assert unit.read_text() == current
    assert manager.ours("service", "status").returncode == 0

    # Nothing is left.
    gone = manager.ours("service", "uninstall")
    assert gone.returncode == 0, gone.stderr
    assert gone.stdout.count("removed") == 2
    left = [name for _, _, names in os.walk(manager.home / ".config") for name in names]
    assert left == []
    assert manager.systemctl("is-active", "claudemem-daemon.socket") != "active"
    assert manager.ours("service", "status").returncode == 1


def test_the_shipped_units_verify_without_a_word(tmp_path: Path) -> None:
    """systemd-analyze exits 0 on a misspelt key: any output is a failure."""
    top = Path(__file__).parents[2] / "systemd"
    program = tmp_path / ".local" / "bin" / "claudemem-daemon"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        [
            "systemd-analyze",
            "--user",
            "verify",
            str(top / "claudemem-daemon.socket"),
            str(top / "claudemem-daemon.service"),
        ],
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_socket_of_the_unit_is_never_lost(manager: Manager) -> None:
    def answered() -> bool:
        said = manager.run("curl", "-sf", "-m5", "--unix-socket", str(path), "http://l/healthz")
        return said.returncode == 0 and json.loads(said.stdout)["pid"] == manager.main_pid()

    path = manager.home / ".claude-mem" / "daemon" / "daemon.sock"
    # By hand first: it gives way to the service.
    by_hand = manager.background(*command(), "run")
    eventually(path.exists, "it listens")
    assert manager.ours("service", "install").returncode == 0
    assert answered()
    assert by_hand.wait(20) == 0

    # Idle, and one by hand leaves the socket alone.
    assert manager.ours("stop").returncode == 0
    eventually(lambda: manager.main_pid() == 0, "the service has ended")
    inode = path.stat().st_ino
    second = manager.ours("run")
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert path.stat().st_ino == inode
    assert answered()

    # The folder is removed under the running daemon.
    pid = manager.main_pid()
    shutil.rmtree(path.parent)
    eventually(lambda: manager.main_pid() != pid and path.exists(), "systemd has bound it anew")
    assert answered()
    manager.systemctl("stop", "claudemem-daemon.service")
    assert path.exists()

    # The folder is removed while nobody runs who could see it.
    shutil.rmtree(path.parent)
    told = manager.ours("doctor").stdout
    assert f"{path} is gone" in told
    assert "fix: claudemem-daemon service install" in told
    assert manager.ours("service", "status").returncode == 1
    assert manager.ours("service", "install").returncode == 0
    assert answered()
    assert manager.ours("service", "status").returncode == 0
