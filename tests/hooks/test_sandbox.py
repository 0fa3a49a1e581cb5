"""A sandbox that forbids Unix sockets, as Codex has one: answers come from the process itself."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.world import World
from tests.support.daemon import clean_environ, command

NUMBERS = {"x86_64": {"socket": 41, "connect": 42}, "aarch64": {"socket": 198, "connect": 203}}
SYSTEM_CALLS = NUMBERS.get(platform.machine(), {}) if sys.platform == "linux" else {}

pytestmark = pytest.mark.skipif(not SYSTEM_CALLS, reason="no seccomp, or its numbers not known")

FORBID = """
import ctypes, os, struct, sys
# Load the call's number; if it is the one, EPERM; else allow.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program)) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def world(world: World) -> World:
    world.repository("app")
    world.row("app", title="THE ROW")
    return world


@pytest.mark.parametrize("name", ["socket", "connect"])
@pytest.mark.parametrize("arguments", [["hook", "claude-code"], ["context"], ["query"]])
def test_what_forbids_the_socket_forbids_no_answer(
    world: World, name: str, arguments: list[str]
) -> None:
    call = {
        "session_id": "s",
        "cwd": str(world.root / "app"),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    done = subprocess.run(
        [sys.executable, "-c", FORBID, str(SYSTEM_CALLS[name]), *command(), *arguments],
        input=json.dumps(call),
        # It starts slowly on a busy machine.
        env=clean_environ(world.home, CLAUDE_MEM_DAEMON_TIMEOUT_MS="4500"),
        cwd=world.root / "app",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "THE ROW" in done.stdout
    if arguments[0] == "hook":
        (line,) = Path(world.daemon.state_dir, "hook.log").read_text().splitlines()
        assert line.split("\t")[2] == "denied"
