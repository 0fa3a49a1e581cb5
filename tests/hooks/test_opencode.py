"""OpenCode's plugin: written, run by a client in its place, and taken out without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.commands import python_line
from claudemem_daemon.hookfiles.files import install, installed, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS, target
from tests.cases.world import World
from tests.support.daemon import clean_environ, run_to_end

OPENCODE = PLATFORMS["opencode"]
NODE = shutil.which("node")
CLIENT = """
import { createInterface } from "node:readline";
const { ClaudememDaemon } = await import(process.argv[2]);
const hooks = await ClaudememDaemon({ directory: process.argv[3] });
for await (const line of createInterface({ input: process.stdin })) {
  const { session, message, compacted } = JSON.parse(line);
  const parts = [{ id: `prt_${message}`, type: "text", text: `prompt ${message}` }];
  if (compacted) {
    await hooks.event({ event: { type: "session.compacted", properties: { sessionID: session } } });
  } else {
    await hooks["chat.message"]({ sessionID: session }, { message: { id: message }, parts });
  }
  console.log(JSON.stringify(parts));
}
process.exit(0);
"""
"""A client: a line is a message or a compaction; it prints the parts that the message then has."""


class Client:
    """A process of OpenCode."""

    def __init__(self, world: World, tmp_path: Path) -> None:
        assert NODE is not None
        client = tmp_path / "client.mjs"
        client.write_text(CLIENT)
        environ = clean_environ(world.home)
        # By a name that node takes for an ES module, as OpenCode takes any file there.
        plugin = tmp_path / "plugin.mjs"
        plugin.write_text(Path(target(OPENCODE, environ, None)).read_text())
        self._process = subprocess.Popen(
            [NODE, str(client), str(plugin), str(world.root / "app")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            text=True,
        )

    def parts(self, session: str, message: str, *, compacted: bool = False) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        call = {"session": session, "message": message, "compacted": compacted}
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        parts: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return parts

    def told(self, session: str, message: str) -> str:
        """The text that came with a message."""
        return "".join(part["text"] for part in self.parts(session, message)[1:])

    def close(self) -> None:
        """The end of its input ends it."""
        self._process.communicate()


@pytest.mark.skipif(NODE is None, reason="no node on PATH")
def test_the_plugin_tells_each_session_what_is_new(world: World, tmp_path: Path) -> None:
    world.repository("app")
    world.row("app", title="first row")
    assert run_to_end(world.daemon.environ, "hooks", "install", "opencode").returncode == 0
    client = Client(world, tmp_path)
    prompt, context = client.parts("ses_1", "msg_1")
    assert prompt["text"] == "prompt msg_1"
    assert "first row" in context.pop("text")
    assert context == {
        "id": "prt_msg_1claudemem",
        "sessionID": "ses_1",
        "messageID": "msg_1",
        "type": "text",
        "synthetic": True,
    }
    assert client.told("ses_1", "msg_2") == ""
    world.row("app", title="second row", session="other")
    told = client.told("ses_1", "msg_3")
    assert "second row" in told
    assert "first row" not in told
    # An agent inside a session has a session of its own.
    assert "first row" in client.told("ses_2", "msg_4")
    client.parts("ses_1", "", compacted=True)
    assert "first row" in client.told("ses_1", "msg_5")
    client.close()
    # Another process goes on with the session, which is replayed.
    again = Client(world, tmp_path)
    assert again.told("ses_1", "msg_6") == ""
    assert "first row" in again.told("ses_3", "msg_7")
    again.close()


@pytest.mark.skipif(NODE is None, reason="no node on PATH")
@pytest.mark.parametrize(
    "command", ["exit 3", "echo no JSON", "exec </dev/null; echo null", "/no/such/program"]
)
def test_a_command_that_fails_leaves_the_message_as_it_was(
    world: World, tmp_path: Path, command: str
) -> None:
    environ = clean_environ(world.home)
    install("opencode", environ, command)
    client = Client(world, tmp_path)
    assert [part["text"] for part in client.parts("ses_1", "msg_1")] == ["prompt msg_1"]
    client.close()


def test_install_and_uninstall_leave_no_trace(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    line = python_line("opencode", "/it's here/claudemem-daemon")
    assert install("opencode", environ, line).what == "written"
    assert install("opencode", environ, line).what == "unchanged"
    assert installed(OPENCODE, environ).ours == (line,)
    assert install("opencode", environ, line + " ").what == "written"
    assert uninstall("opencode", environ).what == "removed"
    assert uninstall("opencode", environ).what == "unchanged"
    assert not installed(OPENCODE, environ).ours
    assert list(tmp_path.iterdir()) == []


def test_a_plugin_that_somebody_changed_is_left_alone(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    path = Path(install("opencode", environ, "x").path)
    assert path == tmp_path / "config" / "opencode" / "plugins" / "claudemem-daemon.js"
    path.write_text(path.read_text() + "// mine\n")
    before = path.read_text()
    with pytest.raises(SettingsError, match="not as we wrote it"):
        install("opencode", environ, "y")
    assert uninstall("opencode", environ).what == "unchanged"
    assert installed(OPENCODE, environ).theirs == (("plugin", str(path)),)
    assert path.read_text() == before


def test_the_command_line_installs_prints_and_checks_the_plugin(tmp_path: Path) -> None:
    environ = clean_environ(tmp_path)
    done = run_to_end(environ, "hooks", "install", "opencode")
    assert done.returncode == 0
    assert "entries for chat.message, session.compacted" in done.stdout
    path = Path(target(OPENCODE, environ, None))
    assert run_to_end(environ, "hooks", "print", "opencode").stdout == path.read_text()
    assert "opencode: 1 entry" in run_to_end(environ, "doctor").stdout
    assert run_to_end(environ, "hooks", "uninstall", "opencode").returncode == 0
    assert not os.path.lexists(path)
