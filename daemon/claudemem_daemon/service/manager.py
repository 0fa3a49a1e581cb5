"""A service manager asked by its own command, and what to say where it does not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from claudemem_daemon.service.plan import Command

COMMAND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run. words: what it printed, or why it failed. unreachable: there is no
    manager that could have done it."""

    command: Command
    words: str
    failed: bool = False
    unreachable: bool = False

    def explained(self, then: str) -> str:
        """What it could not do, and `then` what to do where its manager cannot be reached."""
        command = " ".join(self.command)
        if not self.unreachable:
            return f"`{command}` failed: {self.words}"
        return f"`{command}` cannot reach the user's service manager ({self.words}){then}"


def run_command(command: Command, environ: Mapping[str, str]) -> Ran:
    name = command[0]
    program = shutil.which(name, path=environ.get("PATH"))
    if program is None:
        return Ran(command, f"there is no {name} on the PATH", failed=True, unreachable=True)
    try:
        done = subprocess.run(
            [program, *command[1:]], env=_reachable(environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Ran(command, f"{name} does not answer", failed=True, unreachable=True)
    except OSError as error:
        return Ran(command, f"{name}: {error.strerror}", failed=True, unreachable=True)
    if done.returncode == 0:
        return Ran(command, done.stdout)
    words = " ".join((done.stderr or done.stdout).split())[:300]
    lost = "bus" in words.lower() or "not been booted with systemd" in words
    return Ran(command, words, failed=True, unreachable=lost)


def has_manager(environ: Mapping[str, str]) -> bool:
    """Whether a service manager of this user is running, as none does in a container."""
    folder = _reachable(environ).get("XDG_RUNTIME_DIR", "")
    return sys.platform == "darwin" or os.path.exists(os.path.join(folder, "systemd", "private"))


def _reachable(environ: Mapping[str, str]) -> dict[str, str]:
    """ssh and su leave out where the user manager is to be found."""
    runtime = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in environ and os.path.isdir(runtime):
        return {**environ, "XDG_RUNTIME_DIR": runtime}
    return dict(environ)
