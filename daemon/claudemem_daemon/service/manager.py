"""A service manager asked by its own command, and what to say where it does not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

COMMAND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A command that did not do what it was asked."""

    command: tuple[str, ...]
    words: str
    unreachable: bool


def output(
    command: tuple[str, ...], environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str] | Trouble:
    """What a program did, or why it could not be run."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return Trouble(command, f"there is no {command[0]} on the PATH", True)
    try:
        return subprocess.run(
            [program, *command[1:]], env=_reachable(environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Trouble(command, f"{command[0]} does not answer", True)
    except OSError as error:
        return Trouble(command, f"{command[0]}: {error.strerror}", True)


def run_command(command: tuple[str, ...], environ: Mapping[str, str]) -> Trouble | None:
    done = output(command, environ)
    if isinstance(done, Trouble):
        return done
    if done.returncode == 0:
        return None
    words = " ".join((done.stderr or done.stdout).split())[:300]
    lost = "bus" in words.lower() or "not been booted with systemd" in words
    return Trouble(command, words, lost)


def _reachable(environ: Mapping[str, str]) -> dict[str, str]:
    """ssh and su leave out where the user manager is to be found."""
    runtime = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in environ and os.path.isdir(runtime):
        return {**environ, "XDG_RUNTIME_DIR": runtime}
    return dict(environ)


def has_manager(environ: Mapping[str, str]) -> bool:
    """Whether a service manager of this user is running, as none does in a container."""
    folder = _reachable(environ).get("XDG_RUNTIME_DIR", "")
    return sys.platform == "darwin" or os.path.exists(os.path.join(folder, "systemd", "private"))


def explained(trouble: Trouble, *, then: str) -> str:
    """What a command could not do, and `then` what to do where its manager cannot be reached."""
    command = " ".join(trouble.command)
    if not trouble.unreachable:
        return f"`{command}` failed: {trouble.words}"
    return f"`{command}` cannot reach the user's service manager ({trouble.words}){then}"
