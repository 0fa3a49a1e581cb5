"""The assistants whose hooks are entries in a file, and a line of ours for each."""

from __future__ import annotations

from claudemem_daemon.hookfiles.commands import python_line
from claudemem_daemon.hookfiles.platforms import PLATFORMS

JSON_PLATFORMS = [name for name, known in sorted(PLATFORMS.items()) if known.shape != "plugin"]
"""Those whose hooks are entries in a JSON file."""
COMMANDS = {name: python_line(name, "/opt/bin/claudemem-daemon") for name in PLATFORMS}
COMMAND = COMMANDS["claude-code"]
