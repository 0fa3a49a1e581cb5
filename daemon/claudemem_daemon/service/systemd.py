"""systemd's words: the two units with this user's paths in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from claudemem_daemon.service.templates import SERVICE, SOCKET, template

LOCAL_ONLY: Final = "RestrictAddressFamilies=AF_UNIX\n"


def render_units(
    program: str, socket_path: str, environment: Mapping[str, str], *, network: bool = False
) -> dict[str, str]:
    """Unit name -> text. `program` is the absolute launcher, `socket_path` where hooks look, and
    `environment` what the daemon needs to agree with them (PATH, our own variables)."""
    service = template(SERVICE)
    if network:
        service = service.replace(LOCAL_ONLY, LOCAL_ONLY[:-1] + " AF_INET AF_INET6\n")
    service = re.sub(
        r"^ExecStart=.*$", lambda _: f"ExecStart={quote(program)} run", service, flags=re.M
    )
    lines = "".join(
        f"Environment={quote(f'{name}={value}')}\n" for name, value in environment.items()
    )
    service = service.replace("Type=notify\n", f"Type=notify\n{lines}")
    socket = re.sub(
        r"^ListenStream=.*$",
        lambda _: f"ListenStream={escape_specifiers(socket_path)}",
        template(SOCKET),
        flags=re.M,
    )
    return {SOCKET: socket, SERVICE: service}


def quote(value: str) -> str:
    """One word of a unit file as systemd takes it back: percent signs are specifiers, quotes and
    backslashes escapes."""
    return '"' + _escaped(escape_specifiers(value)) + '"'


def escape_specifiers(value: str) -> str:
    return value.replace("%", "%%")


def unquote(text: str) -> str:
    """What systemd makes of `quote`, for checking a unit against reality."""
    body = text[1:-1] if text[:1] == '"' and text[-1:] == '"' else text
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), body).replace(
        "%%", "%"
    )


def program_of(service: str) -> str | None:
    """The launcher that a service file names."""
    found = re.search(r"^ExecStart=(.*) run$", service, flags=re.M)
    return unquote(found.group(1)) if found else None


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
