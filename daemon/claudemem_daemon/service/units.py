"""The systemd units and the launchd agent, with this user's paths in them."""

from __future__ import annotations

import os
import plistlib
import re
from collections.abc import Mapping
from typing import Any, Final

SOCKET: Final = "claudemem-daemon.socket"
SERVICE: Final = "claudemem-daemon.service"
LABEL: Final = "io.github.claudemem-daemon"
PLIST: Final = f"{LABEL}.plist"
LOCAL_ONLY: Final = "RestrictAddressFamilies=AF_UNIX\n"

_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "%": "%%"}
_ESCAPED: Final = {escape: sign for sign, escape in _ESCAPES.items()}


def render_units(
    program: str, socket_path: str, environment: Mapping[str, str], *, network: bool = False
) -> dict[str, str]:
    """Unit name -> text. `program` is the absolute launcher, `socket_path` where hooks look, and
    `environment` what the daemon needs to agree with them (PATH, our own variables)."""
    service = _template(SERVICE)
    if network:
        service = service.replace(LOCAL_ONLY, LOCAL_ONLY[:-1] + " AF_INET AF_INET6\n")
    lines = "".join(
        f"Environment={quote(f'{name}={value}')}\n" for name, value in environment.items()
    )
    service = service.replace("Type=notify\n", f"Type=notify\n{lines}")
    listen = socket_path.replace("%", "%%")
    return {
        SOCKET: _with_line(_template(SOCKET), f"ListenStream={listen}"),
        SERVICE: _with_line(service, f"ExecStart={quote(program)} run"),
    }


def render_agent(program: str, log: str, environment: Mapping[str, str]) -> bytes:
    """The property list. launchd expands nothing, so every path is absolute; it binds no socket:
    a job with `Sockets` that does not check in leaves clients hanging."""
    agent: dict[str, Any] = plistlib.loads(_template(PLIST).encode())
    agent["ProgramArguments"] = [program, "run"]
    agent["EnvironmentVariables"] = dict(environment)
    agent["StandardErrorPath"] = agent["StandardOutPath"] = log
    return plistlib.dumps(agent)


def program_of(name: str, data: bytes) -> str | None:
    """The launcher that an installed file of this name starts."""
    if name == PLIST:
        try:
            return str(plistlib.loads(data)["ProgramArguments"][0])
        except (ValueError, KeyError, IndexError, plistlib.InvalidFileException):
            return None
    found = re.search(r"^ExecStart=(.*) run$", data.decode("utf-8", "replace"), flags=re.M)
    return unquote(found[1]) if found else None


def quote(value: str) -> str:
    """One word of a unit file: percent signs are specifiers, quotes and backslashes escapes."""
    return '"' + "".join(_ESCAPES.get(sign, sign) for sign in value) + '"'


def unquote(text: str) -> str:
    """What systemd makes of `quote`."""
    body = text[1:-1] if text[:1] == '"' and text[-1:] == '"' else text
    return re.sub(r"\\.|%%", lambda found: _ESCAPED.get(found[0], found[0][1:]), body)


def _with_line(unit: str, line: str) -> str:
    """The unit with another value of one key."""
    key = line.partition("=")[0]
    return re.sub(rf"^{key}=.*$", lambda _: line, unit, flags=re.M)


def _template(name: str) -> str:
    """From the installed package, or in a checkout from its top level."""
    here = os.path.dirname(os.path.abspath(__file__))
    top = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    for folder in (f"{here}/units", f"{here}/agents", f"{top}/systemd", f"{top}/launchd"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise FileNotFoundError(name)
