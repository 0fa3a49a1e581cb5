"""A real systemd user manager in a private mount namespace, where the machine allows one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemon import command, eventually

SYSTEMD = "/lib/systemd/systemd"


def why_not() -> str | None:
    """What keeps this machine from running one; None where it can."""
    if sys.platform != "linux":
        return "systemd is Linux's"
    if not os.access(SYSTEMD, os.X_OK) or shutil.which("systemctl") is None:
        return "no systemd is installed"
    if os.getuid() != 0:
        return "mounting a private /run needs root"
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "unshare -m is refused here"


class Manager:
    """Commands run inside the namespace, as the user the manager belongs to."""

    def __init__(self, home: Path, pid: int) -> None:
        self.home = home
        self.pid = pid
        self.environ = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": "/run/user/0",
            "PATH": os.path.dirname(command()[0]) + ":/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", *arguments],
            env=self.environ,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def background(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["nsenter", "-t", str(self.pid), "-m", *arguments],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def systemctl(self, *arguments: str) -> str:
        return self.run("systemctl", "--user", *arguments).stdout.strip()

    def ours(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(*command(), *arguments, text=text)

    def main_pid(self) -> int:
        value = self.systemctl("show", "-p", "MainPID", "--value", "claudemem-daemon.service")
        return int(value or 0)


@contextmanager
def user_manager(home: Path) -> Iterator[Manager]:
    """Started, answering, and gone afterwards with everything it ran."""
    script = (
        "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user/0 &&"
        f" chmod 700 /run/user/0 && exec {SYSTEMD} --user --log-target=console"
    )
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script],
        env={"HOME": str(home), "XDG_RUNTIME_DIR": "/run/user/0", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    manager = Manager(home, process.pid)
    try:
        eventually(
            lambda: manager.systemctl("is-system-running") in ("running", "degraded", "starting"),
            "the user manager answers",
        )
        yield manager
    finally:
        manager.systemctl("stop", "claudemem-daemon.socket", "claudemem-daemon.service")
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
