"""Carry a service plan out: write, start, stop, remove. Says exactly what it did."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import escape as glob_escape
from glob import glob
from typing import Literal

from claudemem_daemon import folders
from claudemem_daemon.client import Client
from claudemem_daemon.errors import DaemonError, ServiceError
from claudemem_daemon.hookfiles.commands import program_trouble
from claudemem_daemon.local import of_another, socket_path, state_dir
from claudemem_daemon.service import launchd, systemd
from claudemem_daemon.service.manager import Trouble, explained, output, run_command
from claudemem_daemon.service.plan import ServicePlan, agent_log, launch_agent, unit_folder
from claudemem_daemon.service.templates import SERVICE, SOCKET

Say = Callable[[str, str], None]
"""Takes a verb and what it was done to; without a verb, a sentence."""

State = Literal["absent", "installed", "active", "broken", "unknown"]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What is installed: `state` in one word, `sentence` for people, `program` what it starts."""

    state: State
    sentence: str
    program: str | None
    files: tuple[str, ...]


def is_local_only(path: str) -> bool:
    """Whether the installed unit allows no network; False where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return systemd.LOCAL_ONLY in file.read()
    except (OSError, ValueError):
        return False


def install(plan: ServicePlan, environ: Mapping[str, str], say: Say) -> None:
    """Write the files and start the service; an older version is updated in place.

    Raises `ServiceError` when the files are written but the service manager cannot be reached.
    """
    _refuse_another(plan)
    for path, content in plan.files.items():
        before = _read(path)
        if before == content:
            say("unchanged", path)
            continue
        _write(path, content, environ)
        say("wrote" if before is None else "updated", path)
    for command in plan.start:
        done = run_command(command, environ)
        if done is not None and command[:2] != ("launchctl", "bootout"):
            raise ServiceError(explained(done, then=_BY_HAND[plan.manager]))
    say("started", SOCKET if plan.manager == "systemd" else launchd.PLIST)
    if plan.manager == "systemd":
        linger = lingering(environ)
        if linger is not True:
            say("", _LINGER)


def uninstall(plan: ServicePlan, environ: Mapping[str, str], say: Say) -> None:
    """Stop the service and remove the files that `install` writes, no others, and the folders that
    it made for them."""
    there = [path for path in plan.files if os.path.lexists(path)]
    _refuse_another(plan)
    if not there:
        say("", "nothing is installed")
        return
    stopping, *rest = plan.stop
    trouble = run_command(stopping, environ)
    for path in there:
        with suppress(FileNotFoundError):
            os.unlink(path)
        say("removed", path)
    for folder in dict.fromkeys(map(os.path.dirname, there)):
        if trouble is not None and plan.manager == "systemd":
            _disable(folder)
        folders.unmake(folder, environ)
    for command in rest:
        run_command(command, environ)
    if trouble is not None:
        say("", f"! {explained(trouble, then=_LEFT_BEHIND)}")


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


def _refuse_another(plan: ServicePlan) -> None:
    for path in plan.files:
        refused = of_another(path)
        if refused is not None:
            raise ServiceError(refused)


def find_state(plan: ServicePlan, environ: Mapping[str, str]) -> ServiceState:
    """The service as it is on disk and as its manager knows it; changes nothing."""
    there = tuple(path for path in plan.files if os.path.lexists(path))
    program = _program(there)

    def found(state: State, sentence: str) -> ServiceState:
        return ServiceState(state, sentence, program, there)

    again = "claudemem-daemon service install"
    if not there:
        return found("absent", f"not installed: {again}")
    if len(there) < len(plan.files):
        missing = next(path for path in plan.files if path not in there)
        return found("broken", f"{missing} is missing: install again")
    wrong = "is not named" if program is None else program_trouble(program)
    if wrong is not None:
        return found(
            "broken", f"installed, but its program {wrong}; reinstall the service: {again}"
        )
    command: tuple[str, ...] = ("systemctl", "--user", "is-active", "--quiet", SOCKET)
    if plan.manager == "launchd":
        command = ("launchctl", "print", plan.stop[0][-1])
    trouble = run_command(command, environ)
    socket = socket_path(environ)
    if trouble is None and plan.manager == "systemd" and not os.path.lexists(socket):
        gone = f"installed and active, but {socket} is gone, so that nobody can ask: {again}"
        return found("broken", gone)
    if trouble is None:
        return found("active", f"installed and active: {program}")
    if trouble.unreachable:
        return found("unknown", f"installed; {trouble.words or 'its manager does not answer'}")
    return found("installed", "installed, not active")


def lingering(environ: Mapping[str, str]) -> bool | None:
    """Whether the user's services outlive the last login; None where nobody can tell."""
    user = environ.get("USER") or environ.get("LOGNAME") or str(os.getuid())
    done = output(("loginctl", "show-user", user, "--property=Linger", "--value"), environ)
    words = done.stdout.strip() if not isinstance(done, Trouble) else ""
    return {"yes": True, "no": False}.get(words)


_LINGER = (
    "At logout systemd stops it, and at boot it starts with your first login. If it should run"
    " without you being logged in: loginctl enable-linger"
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


def _disable(folder: str) -> None:
    """What `systemctl disable` does on disk: it takes the links away by which targets want us."""
    for wanted in glob(os.path.join(glob_escape(folder), "*.wants")):
        for unit in (SOCKET, SERVICE):
            link = os.path.join(wanted, unit)
            if os.path.islink(link):
                os.unlink(link)
                with suppress(OSError):
                    os.rmdir(wanted)


def _program(there: tuple[str, ...]) -> str | None:
    for path in there:
        if path.endswith(SERVICE):
            return systemd.program_of((_read(path) or b"").decode("utf-8", "replace"))
        if path.endswith(launchd.PLIST):
            return launchd.program_of(_read(path) or b"")
    return None


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, content: bytes, environ: Mapping[str, str]) -> None:
    try:
        folders.make(os.path.dirname(path), environ)
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)
    except OSError as error:
        raise ServiceError(f"{path} cannot be written ({error.strerror})") from None
