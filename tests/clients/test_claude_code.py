"""A real Claude Code, where CLAUDEMEM_TEST_CLAUDE_CODE names its binary."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.cases.world import World
from tests.clients.standin import Messages
from tests.support.daemon import clean_environ, run_to_end

BINARY = os.environ.get("CLAUDEMEM_TEST_CLAUDE_CODE", "")

pytestmark = pytest.mark.skipif(not BINARY, reason="CLAUDEMEM_TEST_CLAUDE_CODE names no binary")


def test_start_resume_and_fork_show_each_row_once(world: World) -> None:
    home = world.home
    daemon = world.daemon
    with Messages() as model:
        app = world.repository("app")
        world.row("app", title="first-row")
        assert run_to_end(daemon.environ, "hooks", "install", "claude-code").returncode == 0

        def turn(*arguments: str) -> str:
            """One prompt; everything that reached the model with it."""
            before = len(model.asked)
            done = subprocess.run(
                [BINARY, "-p", "hello", "--output-format", "json", *arguments],
                env=clean_environ(
                    home,
                    ANTHROPIC_BASE_URL=model.url,
                    ANTHROPIC_API_KEY="sk-ant-dummy",
                    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                    DISABLE_TELEMETRY="1",
                    DISABLE_AUTOUPDATER="1",
                ),
                cwd=app,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            sessions.append(json.loads(done.stdout)["session_id"])
            asked = [one for one in model.asked[before:] if one.get("tools")]
            return json.dumps(asked[-1]["messages"])

        sessions: list[str] = []
        assert turn().count("first-row") == 1
        assert turn("--resume", sessions[0]).count("first-row") == 1
        world.row("app", title="second-row", session="other")
        told = turn("--resume", sessions[0], "--fork-session")
        assert (told.count("first-row"), told.count("second-row")) == (1, 1)
        told = turn("--resume", sessions[-1])
        assert (told.count("first-row"), told.count("second-row")) == (1, 1)
