"""The unit files and the agent that ship with the package."""

from __future__ import annotations

import os
from typing import Final

SOCKET: Final = "claudemem-daemon.socket"
SERVICE: Final = "claudemem-daemon.service"
LABEL: Final = "io.github.claudemem-daemon"


def template(name: str) -> str:
    """The text of a template: from the installed package, or in a checkout from its top level."""
    here = os.path.dirname(os.path.abspath(__file__))
    top = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    for folder in (f"{here}/units", f"{here}/agents", f"{top}/systemd", f"{top}/launchd"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise FileNotFoundError(name)
