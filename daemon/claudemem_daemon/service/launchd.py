"""launchd's words: the agent with this user's paths in it. Pure."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from typing import Any

from claudemem_daemon.service.templates import LABEL, template

PLIST = f"{LABEL}.plist"


def render_agent(program: str, log: str, environment: Mapping[str, str]) -> bytes:
    """The property list. launchd expands nothing, so every path is absolute; it binds no socket:
    a job with `Sockets` that does not check in leaves clients hanging."""
    agent: dict[str, Any] = plistlib.loads(template(PLIST).encode())
    agent["ProgramArguments"] = [program, "run"]
    agent["EnvironmentVariables"] = dict(environment)
    agent["StandardErrorPath"] = log
    agent["StandardOutPath"] = log
    return plistlib.dumps(agent)


def program_of(data: bytes) -> str | None:
    """The launcher that an agent names."""
    try:
        return str(plistlib.loads(data)["ProgramArguments"][0])
    except (ValueError, KeyError, IndexError, plistlib.InvalidFileException):
        return None
