"""A real OpenCode, where CLAUDEMEM_TEST_OPENCODE names its binary.

At its first start OpenCode asks the npm registry for its plugin types; without a network it waits
for that for minutes.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.cases.world import World
from tests.clients.standin import Chat
from tests.support.daemon import clean_environ, run_to_end

BINARY = os.environ.get("CLAUDEMEM_TEST_OPENCODE", "")

pytestmark = pytest.mark.skipif(not BINARY, reason="CLAUDEMEM_TEST_OPENCODE names no binary")


def test_a_session_and_its_resume_show_each_row_once(world: World) -> None:
    home = world.home
    daemon = world.daemon
    with Chat() as model:
        app = world.repository("app")
        world.row("app", title="first-row")
        assert run_to_end(daemon.environ, "hooks", "install", "opencode").returncode == 0
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "dummy"},
            "models": {"m": {"name": "m"}},
        }
        (home / ".config" / "opencode" / "opencode.json").write_text(
            json.dumps(
                {"provider": {"standin": provider}, "model": "standin/m", "share": "disabled"}
            )
        )

        def turn(*arguments: str) -> tuple[int, int]:
            """How often the model saw each of the two rows with one prompt."""
            before = len(model.asked)
            subprocess.run(
                [BINARY, "run", *arguments, "hello"],
                env=clean_environ(
                    home, OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1"
                ),
                cwd=app,
                check=True,
                stdin=subprocess.DEVNULL,
                timeout=120,
            )
            asked = json.dumps([one for one in model.asked[before:] if one.get("tools")][-1])
            return asked.count("first-row"), asked.count("second-row")

        assert turn() == (1, 0)
        assert turn("--continue") == (1, 0)
        world.row("app", title="second-row", session="other")
        assert turn("--continue") == (1, 1)
