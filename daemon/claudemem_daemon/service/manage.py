"""Carry a service plan out: write, start, stop, remove. Says exactly what it did."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from glob import escape as glob_escape
from glob import glob
from typing import Literal, NamedTuple

from claudemem_daemon import folders
from claudemem_daemon.client import Client
from claudemem_daemon.errors import DaemonError, ServiceError
from claudemem_daemon.hookfiles.commands import program_trouble
from claudemem_daemon.hookfiles.disk import replace_file
from claudemem_daemon.local import socket_path, state_dir
from claudemem_daemon.permissions import of_another
from claudemem_daemon.service.manager import run_command
from claudemem_daemon.service.plan import ServicePlan, agent_log, launch_agent, unit_folder
from claudemem_daemon.service.units import LOCAL_ONLY, PLIST, SERVICE, SOCKET, program_of

Say = Callable[[str, str], None]
"""Takes a verb and what it was done to; without a verb, a sentence."""

State = Literal["absent", "installed", "active", "broken", "unknown"]

_LINGER = (
    "systemd stops it at logout and starts it at the first login after boot. To run it while you are"
    " logged out as well: loginctl enable-linger"
)
_BY_HAND = {
    "systemd": ", as over ssh, under sudo or in a container. The files are in place: run it again in a"
    " login session, or start the daemon without it: claudemem-daemon start",
    "launchd": ": log in at the screen, or start the daemon without it: claudemem-daemon start",
}
_LEFT_BEHIND = (
    ". The files are gone; a manager that still has them in memory forgets them at the next login, and"
    " a daemon that is running ends with `claudemem-daemon stop`"
)


class ServiceState(NamedTuple):
    """What is installed: `state` in one word, `sentence` for people; `fix`, a command, is empty where
    there is nothing to mend."""

    state: State
    sentence: str
    fix: str = ""
    files: tuple[str, ...] = ()


def install(plan: ServicePlan, environ: Mapping[str, str], say: Say) -> None:
    """Write the files and start the service; an older version is updated in place.

    Raises `ServiceError` when the files are written but the service manager cannot be reached.
    """
    _refuse_what_is_not_ours(plan)
    for path, content in plan.files.items():
        before = _read(path)
        if before == content:
            say("unchanged", path)
            continue
        _write(path, content, environ)
        say("wrote" if before is None else "updated", path)
    for command in plan.start:
        done = run_command(command, environ)
        if done.failed and command[:2] != ("launchctl", "bootout"):
            raise ServiceError(done.explained(_BY_HAND[plan.manager]))
    say("started", SOCKET if plan.manager == "systemd" else PLIST)
    if plan.manager == "systemd" and not _lingers(environ):
        say("", _LINGER)


def uninstall(plan: ServicePlan, environ: Mapping[str, str], say: Say) -> None:
    """Stop the service and remove the files that `install` writes, no others, and the folders that
    it made for them."""
    there = [path for path in plan.files if os.path.lexists(path)]
    _refuse_what_is_not_ours(plan)
    if not there:
        say("", "nothing is installed")
        return
    stopping, *rest = plan.stop
    stopped = run_command(stopping, environ)
    for path in there:
        with suppress(FileNotFoundError):
            os.unlink(path)
        say("removed", path)
    for folder in dict.fromkeys(map(os.path.dirname, there)):
        if stopped.failed and plan.manager == "systemd":
            _disable(folder)
        folders.unmake(folder, environ)
    for command in rest:
        run_command(command, environ)
    if stopped.failed:
        say("", f"! {stopped.explained(_LEFT_BEHIND)}")


def find_state(plan: ServicePlan, environ: Mapping[str, str]) -> ServiceState:
    """The service as it is on disk and as its manager knows it; changes nothing."""
    there = tuple(path for path in plan.files if os.path.lexists(path))
    named = [program_of(os.path.basename(path), _read(path) or b"") for path in there]
    program = next(filter(None, named), None)
    state, sentence = _state(plan, environ, there, program)
    fix = "" if state in ("active", "unknown") else "claudemem-daemon service install"
    return ServiceState(state, sentence, fix, there)


def _state(
    plan: ServicePlan, environ: Mapping[str, str], there: tuple[str, ...], program: str | None
) -> tuple[State, str]:
    if not there:
        return "absent", "not installed"
    for path in plan.files:
        if path not in there:
            return "broken", f"installed, but {path} is missing"
    wrong = "is not named" if program is None else program_trouble(program)
    if wrong is not None:
        return "broken", f"installed, but its program {wrong}"
    probed = run_command(plan.probe, environ)
    if probed.unreachable:
        return "unknown", f"installed; {probed.words or 'its manager does not answer'}"
    if probed.failed:
        return "installed", "installed, not active"
    socket = socket_path(environ)
    if plan.manager == "systemd" and not os.path.lexists(socket):
        return "broken", f"installed and active, but {socket} is gone, so nothing can reach it"
    return "active", f"installed and active: {program}"


def is_local_only(path: str) -> bool:
    """Whether the installed unit allows no network; False where it cannot be read."""
    return LOCAL_ONLY.encode() in (_read(path) or b"")


def log_file(environ: Mapping[str, str]) -> str | None:
    """Where the daemon writes; None for the journal, where it runs under systemd or would."""
    own = os.path.join(state_dir(environ), "daemon.log")
    if sys.platform == "darwin":
        agent = launch_agent(environ)
        return agent_log(environ) if os.path.exists(agent) else own
    try:
        by_systemd = Client(environ).get_json("/v1/status")["process"]["started_by"] == "systemd"
    except DaemonError:
        by_systemd = os.path.exists(os.path.join(unit_folder(environ), SERVICE))
    return None if by_systemd else own


def _refuse_what_is_not_ours(plan: ServicePlan) -> None:
    """Another user's files, and what this user put there: a unit of their own, a link, a mask."""
    for path in plan.files:
        refused = of_another(path)
        if refused is None and os.path.lexists(path) and not _is_written_by_us(path):
            what = f"a link to {os.readlink(path)}" if os.path.islink(path) else "something else"
            refused = f"{path} is not what `service install` writes but {what}: move it away first"
        if refused is not None:
            raise ServiceError(refused)


def _is_written_by_us(path: str) -> bool:
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    # Our units say who writes them; an agent has no comments, and its name is ours.
    return path.endswith(PLIST) or b"claudemem-daemon service install" in (_read(path) or b"")


def _lingers(environ: Mapping[str, str]) -> bool:
    """Whether the user's services outlive the last login, as far as can be told."""
    user = environ.get("USER") or environ.get("LOGNAME") or str(os.getuid())
    command = ("loginctl", "show-user", user, "--property=Linger", "--value")
    return run_command(command, environ).words.strip() == "yes"


def _disable(folder: str) -> None:
    """What `systemctl disable` does on disk: it takes the links away by which targets want us."""
    for wanted in glob(os.path.join(glob_escape(folder), "*.wants")):
        for unit in (SOCKET, SERVICE):
            link = os.path.join(wanted, unit)
            if os.path.islink(link):
                os.unlink(link)
                with suppress(OSError):
                    os.rmdir(wanted)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, content: bytes, environ: Mapping[str, str]) -> None:
    try:
        replace_file(path, content, environ, like=path)
    except OSError as error:
        raise ServiceError(f"{path} cannot be written ({error.strerror})") from None
