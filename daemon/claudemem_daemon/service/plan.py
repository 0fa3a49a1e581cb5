"""What `service install` will write and run on this system. Reads nothing but the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from claudemem_daemon.local import home_dir, socket_path
from claudemem_daemon.service import launchd, systemd
from claudemem_daemon.service.templates import LABEL, SERVICE, SOCKET

Manager = Literal["systemd", "launchd"]

CARRIED = ("CLAUDEMEM_DAEMON_HOME", "CLAUDEMEM_DAEMON_SOCKET", "CLAUDE_MEM_DATA_DIR")
"""Variables that the service must share with the shell that installs it, if they are set there."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """files: path -> content. start: commands that put it into force; stop: that take it out."""

    manager: Manager
    files: Mapping[str, bytes]
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    program: str


def make_plan(
    environ: Mapping[str, str], program: str, system: str = sys.platform, *, network: bool = False
) -> ServicePlan:
    """`network`: whether the settings name a database, which may be on another machine."""
    carried = {name: environ[name] for name in CARRIED if environ.get(name)}
    environment = {"PATH": environ.get("PATH", os.defpath), **carried}
    if system == "darwin":
        return _launchd(environ, program, environment)
    folder = unit_folder(environ)
    units = systemd.render_units(program, socket_path(environ), environment, network=network)
    return ServicePlan(
        "systemd",
        {os.path.join(folder, name): text.encode() for name, text in units.items()},
        start=(
            ("systemctl", "--user", "daemon-reload"),
            ("systemctl", "--user", "enable", SERVICE, SOCKET),
            # Not `start`: an active socket whose file is gone comes back only so.
            ("systemctl", "--user", "restart", SOCKET),
        ),
        stop=(
            ("systemctl", "--user", "disable", "--now", SOCKET, SERVICE),
            ("systemctl", "--user", "daemon-reload"),
        ),
        program=program,
    )


def _launchd(
    environ: Mapping[str, str], program: str, environment: Mapping[str, str]
) -> ServicePlan:
    home = home_dir(environ)
    path, log = launch_agent(environ), agent_log(environ)
    domain = f"gui/{os.getuid()}"
    return ServicePlan(
        "launchd",
        {path: launchd.render_agent(program, log, {"HOME": home, **environment})},
        start=(
            # Booted out first: launchctl answers "Input/output error" for what is loaded already.
            ("launchctl", "bootout", f"{domain}/{LABEL}"),
            ("launchctl", "bootstrap", domain, path),
        ),
        stop=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        program=program,
    )


def launch_agent(environ: Mapping[str, str]) -> str:
    return os.path.join(home_dir(environ), "Library", "LaunchAgents", launchd.PLIST)


def agent_log(environ: Mapping[str, str]) -> str:
    return os.path.join(home_dir(environ), "Library", "Logs", "claudemem-daemon.log")


def unit_folder(environ: Mapping[str, str]) -> str:
    config = environ.get("XDG_CONFIG_HOME", "")
    base = config if config.startswith("/") else os.path.join(home_dir(environ), ".config")
    return os.path.join(base, "systemd", "user")
