"""What `service install` will write and run on this system. Reads nothing but the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from claudemem_daemon.local import home_dir, socket_path
from claudemem_daemon.service.units import (
    LABEL,
    PLIST,
    SERVICE,
    SOCKET,
    render_agent,
    render_units,
)

CARRIED = ("CLAUDEMEM_DAEMON_HOME", "CLAUDEMEM_DAEMON_SOCKET", "CLAUDE_MEM_DATA_DIR")
"""Variables that the service must share with the shell that installs it, if they are set there."""

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """files: path -> content. start: commands that put it into force; stop: that take it out.
    probe: the command that succeeds while it is active."""

    manager: Literal["systemd", "launchd"]
    files: Mapping[str, bytes]
    start: tuple[Command, ...]
    stop: tuple[Command, ...]
    probe: Command


def make_plan(
    environ: Mapping[str, str], program: str, system: str = sys.platform, *, network: bool = False
) -> ServicePlan:
    """`network`: whether the settings name a database, which may be on another machine."""
    carried = {name: environ[name] for name in CARRIED if environ.get(name)}
    environment = {"PATH": environ.get("PATH", os.defpath), **carried}
    if system == "darwin":
        path, domain = launch_agent(environ), f"gui/{os.getuid()}"
        agent = render_agent(
            program, agent_log(environ), {"HOME": home_dir(environ), **environment}
        )
        # Booted out first: launchctl answers "Input/output error" for what is loaded already.
        boot_out = ("launchctl", "bootout", f"{domain}/{LABEL}")
        start = (boot_out, ("launchctl", "bootstrap", domain, path))
        probe = ("launchctl", "print", f"{domain}/{LABEL}")
        return ServicePlan("launchd", {path: agent}, start, (boot_out,), probe)
    units = render_units(program, socket_path(environ), environment, network=network)
    folder, systemctl = unit_folder(environ), ("systemctl", "--user")
    reload = (*systemctl, "daemon-reload")
    return ServicePlan(
        "systemd",
        {os.path.join(folder, name): text.encode() for name, text in units.items()},
        # Not `start`: an active socket whose file is gone comes back only so.
        (reload, (*systemctl, "enable", SERVICE, SOCKET), (*systemctl, "restart", SOCKET)),
        ((*systemctl, "disable", "--now", SOCKET, SERVICE), reload),
        (*systemctl, "is-active", "--quiet", SOCKET),
    )


def launch_agent(environ: Mapping[str, str]) -> str:
    return os.path.join(home_dir(environ), "Library", "LaunchAgents", PLIST)


def agent_log(environ: Mapping[str, str]) -> str:
    return os.path.join(home_dir(environ), "Library", "Logs", "claudemem-daemon.log")


def unit_folder(environ: Mapping[str, str]) -> str:
    config = environ.get("XDG_CONFIG_HOME", "")
    base = config if config.startswith("/") else os.path.join(home_dir(environ), ".config")
    return os.path.join(base, "systemd", "user")
