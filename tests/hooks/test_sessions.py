"""What each assistant sends, in the order and with the delays seen, and how often it is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon import hook
from tests.cases.world import World
from tests.support.daemon import clean_environ, command, eventually, read_all
from tests.support.stores import add_observation

CLAUDE = "claude-code"


@pytest.fixture
def world(world: World) -> World:
    world.repository("app")
    world.row("app", title="first row")
    return world


def shape(world: World, platform: str, fields: dict[str, Any], **env: str) -> dict[str, Any]:
    """What the installed command prints for one event."""
    done = subprocess.run(
        [*command(), "hook", platform],
        input=json.dumps({"cwd": str(world.root / "app"), **fields}).encode(),
        env=clean_environ(world.home, **env),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    printed: dict[str, Any] = json.loads(done.stdout or b"{}")
    return printed


def text(world: World, platform: str, fields: dict[str, Any], **env: str) -> str:
    """The context in it; empty for none."""
    printed = shape(world, platform, fields, **env)
    inner = printed.get("hookSpecificOutput", printed)
    found = inner.get("additionalContext") or inner.get("additional_context") or ""
    assert isinstance(found, str)
    return found


def start(session: str = "session-1", source: str = "startup", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": "SessionStart", "session_id": session, "source": source, **more}


def prompt(session: str = "session-1", words: str = "p", **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "prompt": words,
        **more,
    }


def news(world: World, title: str) -> None:
    add_observation(world.store, project="app", title=title, memory_session_id="another")


@pytest.mark.parametrize("platform", [CLAUDE, "codex"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_resumed_session_gets_what_is_new(world: World, platform: str, restarted: bool) -> None:
    """The client replays the old context itself."""
    assert "first row" in text(world, platform, start())
    if restarted:
        assert world.daemon.stop() == 0
        world.daemon.start()
    assert text(world, platform, start(source="resume")) == ""
    news(world, "second row")
    told = text(world, platform, start(source="resume"))
    assert "second row" in told
    assert "first row" not in told
    assert text(world, platform, prompt()) == ""


@pytest.mark.parametrize(("platform", "source"), [(CLAUDE, "compact"), ("codex", "compact")])
def test_after_a_compaction_all_of_it_comes_once(world: World, platform: str, source: str) -> None:
    text(world, platform, start())
    assert "first row" in text(world, platform, start(source=source))
    assert text(world, platform, start(source="resume")) == ""
    assert text(world, platform, prompt()) == ""


@pytest.mark.parametrize("platform", ["gemini-cli", "copilot-cli"])
def test_who_does_not_replay_gets_all_again_on_resume(world: World, platform: str) -> None:
    assert "first row" in text(world, platform, start())
    assert "first row" in text(world, platform, start(source="resume"))


def test_an_unknown_session_that_is_resumed_gets_all(world: World) -> None:
    assert "first row" in text(world, CLAUDE, start("unseen", "resume"))


def test_a_fork_that_starts_by_its_parents_id(world: World) -> None:
    """Claude Code 2.1.197 with --fork-session."""
    text(world, CLAUDE, start("parent-session"))
    assert text(world, CLAUDE, start("parent-session", "resume")) == ""
    assert text(world, CLAUDE, prompt("forked-session")) == ""
    news(world, "second row")
    assert "second row" in text(world, CLAUDE, prompt("forked-session", "next"))
    assert "second row" in text(world, CLAUDE, prompt("parent-session", "next"))
    # Nobody resumed: this one is not a fork.
    assert "first row" in text(world, CLAUDE, prompt("third-session"))


def test_a_fork_is_known_by_what_its_transcript_names(world: World, tmp_path: Path) -> None:
    """Claude Code 2.1.333: the start has the new id."""
    text(world, CLAUDE, start("parent-session"))
    news(world, "second row")
    transcript = tmp_path / "forked-session.jsonl"
    line = {"sessionId": "forked-session", "forkedFrom": {"sessionId": "parent-session"}}
    transcript.write_text(json.dumps(line) + "\n")
    forked = start("forked-session", "fork", transcript_path=str(transcript))
    told = text(world, CLAUDE, forked)
    assert "second row" in told
    assert "first row" not in told
    other = start("other-session", "fork", transcript_path=str(tmp_path / "none.jsonl"))
    assert "first row" in text(world, CLAUDE, other)


def test_a_fork_without_a_transcript_is_known_by_its_parents(world: World, tmp_path: Path) -> None:
    """Claude Code 2.1.333: at the start of a fork its transcript is not written yet."""
    text(world, CLAUDE, start("parent-session"))
    text(world, CLAUDE, start("other-session"))
    news(world, "second row")
    for name, age in (("parent-session", 100), ("other-session", 5000)):
        written = tmp_path / f"{name}.jsonl"
        written.touch()
        os.utime(written, (time.time() - age,) * 2)
    forked = start("forked-session", "fork", transcript_path=str(tmp_path / "forked-session.jsonl"))
    told = text(world, CLAUDE, {**forked, "seconds_since_last_response": 100})
    assert "second row" in told
    assert "first row" not in told
    # Which of the two it was is not certain, or none of them: all of it.
    odd = {**forked, "session_id": "another-fork", "seconds_since_last_response": 2000}
    assert "first row" in text(world, CLAUDE, odd)


def test_gemini_gets_after_a_clear_with_the_next_prompt(world: World) -> None:
    before = {"hook_event_name": "BeforeAgent", "session_id": "g", "prompt": "p"}
    text(world, "gemini-cli", start("g"))
    assert text(world, "gemini-cli", start("g", "clear")) == ""
    assert "first row" in text(world, "gemini-cli", before)
    assert text(world, "gemini-cli", {**before, "prompt": "q"}) == ""


@pytest.mark.parametrize(
    ("platform", "compaction", "prompted"),
    [
        (
            "gemini-cli",
            {"hook_event_name": "PreCompress", "session_id": "s", "trigger": "manual"},
            {"hook_event_name": "BeforeAgent", "session_id": "s", "prompt": "p"},
        ),
        (
            "copilot-cli",
            {"sessionId": "s", "timestamp": 1, "trigger": "manual"},
            {"sessionId": "s", "timestamp": 2, "prompt": "p"},
        ),
    ],
)
def test_a_compaction_without_a_start_is_made_good_by_the_next_prompt(
    world: World, platform: str, compaction: dict[str, Any], prompted: dict[str, Any]
) -> None:
    assert "first row" in text(world, platform, prompted)
    assert text(world, platform, {**prompted, "prompt": "q"}) == ""
    assert text(world, platform, compaction) == ""
    assert "first row" in text(world, platform, {**prompted, "prompt": "r"})


COPILOT = {"sessionId": "parent", "timestamp": 1}


@pytest.mark.parametrize("source", ["new", "startup"])
def test_copilots_first_prompt_overtakes_its_start(world: World, source: str) -> None:
    assert "first row" in text(world, "copilot-cli", {**COPILOT, "prompt": "p"})
    assert text(world, "copilot-cli", {**COPILOT, "source": source}) == ""


def test_start_and_prompt_at_the_same_time_give_it_once(world: World) -> None:
    calls: list[dict[str, Any]] = [{**COPILOT, "source": "new"}, {**COPILOT, "prompt": "p"}]
    assert sum("first row" in one for one in at_once(world, "copilot-cli", calls)) == 1


def at_once(world: World, platform: str, calls: list[dict[str, Any]]) -> list[str]:
    told: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: told.append(text(world, platform, one)))
        for one in calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(told) == len(calls)
    return told


def test_an_agent_of_copilot_is_a_session_of_its_own(world: World) -> None:
    text(world, "copilot-cli", {**COPILOT, "source": "new"})
    born = {**COPILOT, "agentId": "agent-x", "agentName": "explore"}
    assert "first row" in text(world, "copilot-cli", born)
    its_prompt = {"sessionId": "agent-x", "agentId": "agent-x", "timestamp": 2, "prompt": "p"}
    assert text(world, "copilot-cli", its_prompt) == ""
    assert text(world, "copilot-cli", {**COPILOT, "prompt": "p"}) == ""


def test_copilot_runs_a_checkouts_claude_entries_too(world: World) -> None:
    """By Claude's spelling of the events."""
    env = {"COPILOT_CLI": "1"}
    claudes = start("parent", "new", timestamp="2026-12-01T00:00:00Z")
    assert "first row" in text(world, "copilot-cli", {**COPILOT, "source": "new"}, **env)
    assert text(world, CLAUDE, claudes, **env) == ""
    assert text(world, CLAUDE, prompt("parent", timestamp="2026-12-01"), **env) == ""
    assert text(world, "copilot-cli", {**COPILOT, "prompt": "p"}, **env) == ""


@pytest.mark.parametrize("platform", [CLAUDE, "codex", "copilot-cli"])
@pytest.mark.parametrize("together", [True, False])
def test_two_entries_for_one_start_give_it_once(
    world: World, platform: str, together: bool
) -> None:
    """The user's and the project's."""
    calls = [start(), start()]
    if together:
        told = at_once(world, platform, calls)
    else:
        told = [text(world, platform, one) for one in calls]
    assert sum("first row" in one for one in told) == 1


@pytest.mark.parametrize("wanted", ["delta", "full"])
@pytest.mark.parametrize(
    ("platform", "name"), [(CLAUDE, "prompt_id"), ("codex", "turn_id"), ("cursor", "generation_id")]
)
def test_two_entries_for_one_prompt_give_it_once(
    world: World, platform: str, name: str, wanted: str
) -> None:
    world.settings({"CLAUDE_MEM_DAEMON_PROMPT_CONTEXT": wanted})
    calls = [prompt(**{name: "turn-1"})] * 2
    told = [text(world, platform, one) for one in calls]
    assert ["first row" in one for one in told] == [True, False]
    again = text(world, platform, prompt(**{name: "turn-2"}))
    assert ("first row" in again) is (wanted == "full")


def test_the_same_start_after_a_change_is_answered(world: World) -> None:
    assert "first row" in text(world, CLAUDE, start())
    news(world, "second row")
    assert "second row" in text(world, CLAUDE, start())


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"CLAUDE_MEM_INTERNAL": "1"}, None),
        ({}, ".claude-mem/observer-sessions"),
        ({}, ".claude-mem/observer-sessions/deeper"),
        ({}, ".claude/plugins/cache/thedotmack/claude-mem/13.25.3"),
        ({"CLAUDE_MEM_OBSERVER_SESSION_DIR": "{home}/elsewhere"}, "elsewhere/x"),
        ({"CLAUDE_MEM_DATA_DIR": "{home}/moved"}, "moved/observer-sessions"),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_claude_mems_own_sessions_get_nothing(
    world: World, env: dict[str, str], folder: str | None, running: bool
) -> None:
    if not running:
        world.daemon.stop()
    cwd = world.home / folder if folder else world.root / "app"
    cwd.mkdir(parents=True, exist_ok=True)
    world.row(cwd.name, title="of the folder")
    given = {name: value.format(home=world.home) for name, value in env.items()}
    given["CLAUDE_MEM_DAEMON_TIMEOUT_MS"] = "20000"
    for asked in (start(cwd=str(cwd)), prompt(cwd=str(cwd))):
        assert shape(world, CLAUDE, asked, **given) == {}


def test_of_several_roots_the_first_repository_counts(world: World) -> None:
    (world.root / "notes").mkdir()
    roots = [str(world.root / "notes"), str(world.root / "app"), str(world.root / "gone")]
    asked = {"hook_event_name": "sessionStart", "conversation_id": "c", "cwd": ""}
    assert "first row" in text(world, "cursor", {**asked, "workspace_roots": roots})


def test_the_person_gets_one_line_at_session_start(world: World) -> None:
    world.git("worktree", "add", "-q", world.root / "app-b", cwd=world.root / "app")
    world.row("app/app-b", title="b", created_at_epoch=1_764_000_000_000)
    for platform, source in ((CLAUDE, "startup"), ("codex", "startup"), ("gemini-cli", "startup")):
        line = shape(world, platform, start(source=source))["systemMessage"]
        assert line.startswith("claude-mem: 2 observations from 2 worktrees, newest 20")
        assert line.endswith("claudemem-daemon context")
        assert "\n" not in line
    assert "systemMessage" not in shape(world, CLAUDE, prompt("other"))
    quiet = shape(world, CLAUDE, start("s2"), CLAUDE_MEM_CONTEXT_SHOW_TERMINAL_OUTPUT="false")
    assert set(quiet) == {"hookSpecificOutput"}
    sessions = {"sessionId": "s", "timestamp": 1, "source": "new"}
    assert set(shape(world, "copilot-cli", sessions)) == {"additionalContext"}


def test_more_news_than_one_answer_holds_comes_with_the_next_prompts(world: World) -> None:
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 7})
    text(world, CLAUDE, start())
    for number in range(24):
        news(world, f"row-{number:02d}")
    told = [text(world, CLAUDE, prompt(words=str(number))) for number in range(9)]
    seen = [word for one in told for word in one.split() if word.startswith("row-")]
    assert sorted(seen) == [f"row-{number:02d}" for number in range(24)]
    assert all("More comes with the next prompts" in one for one in told[:2])
    assert told[-1] == ""


def read_until(connection: socket.socket, wanted: bytes) -> None:
    data = b""
    while wanted not in data:
        chunk = connection.recv(65536)
        assert chunk, data
        data += chunk


def request(world: World, fields: dict[str, Any], *headers: str) -> bytes:
    body = json.dumps({"cwd": str(world.root / "app"), **fields}).encode()
    lines = ["POST /v1/hooks/claude-code HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def test_an_answer_that_nobody_took_is_given_again(world: World) -> None:
    """The client left before the answer came: connected, asked, gone."""
    text(world, CLAUDE, start())
    news(world, "second row")
    for headers in ((), ("Connection: close",), ("Claudemem-Acknowledge: 1",)):
        with world.daemon.connect() as connection:
            # With the daemon stopped, the client is gone for sure when the answer is written.
            world.daemon.signal(signal.SIGSTOP)
            connection.sendall(request(world, prompt(), *headers))
            connection.close()
            world.daemon.signal(signal.SIGCONT)
    assert "second row" in text(world, CLAUDE, prompt())
    assert text(world, CLAUDE, prompt()) == ""


def test_an_answer_that_is_not_acknowledged_is_given_again(world: World) -> None:
    text(world, CLAUDE, start())
    news(world, "second row")
    with world.daemon.connect() as connection:
        connection.sendall(request(world, prompt(), "Claudemem-Acknowledge: 1"))
        read_until(connection, b"second row")
    assert "second row" in text(world, CLAUDE, prompt())


def test_an_answer_after_the_clients_deadline_is_given_again(world: World) -> None:
    text(world, CLAUDE, start())
    news(world, "second row")
    with world.daemon.connect() as connection:
        connection.sendall(
            request(world, prompt(), "Claudemem-Deadline-Ms: 0", "Connection: close")
        )
        read_all(connection)
    assert "second row" in text(world, CLAUDE, prompt())


@pytest.mark.parametrize("header", ["Connection: close", "Connection: keep-alive"])
def test_an_answer_that_was_taken_counts(world: World, header: str) -> None:
    """By a client that knows nothing of acknowledging, as curl."""
    text(world, CLAUDE, start())
    news(world, "second row")
    with world.daemon.connect() as connection:
        connection.sendall(request(world, prompt(), header))
        read_until(connection, b"second row")
        assert text(world, CLAUDE, prompt()) == ""


def sessions_file(world: World) -> Path:
    return Path(world.daemon.state_dir) / "sessions.json"


@pytest.mark.parametrize("odd", ["fifo", "folder", "link", "garbage", "large"])
def test_a_file_that_is_not_what_it_should_be_is_put_aside(world: World, odd: str) -> None:
    text(world, CLAUDE, start())
    assert world.daemon.stop() == 0
    path = sessions_file(world)
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    if odd == "fifo":
        os.mkfifo(path)
    elif odd == "folder":
        path.mkdir()
    elif odd == "link":
        path.symlink_to("/dev/zero")
    elif odd == "large":
        path.write_bytes(b"x" * (2 << 20))
    else:
        path.write_bytes(b'[1]\n{"a":\n["claude-code","session-1","",{"/x":["y"]}]\n\xff\0')
    world.daemon.start()
    assert "first row" in text(world, CLAUDE, start(source="resume"))
    eventually(lambda: path.is_file() and not path.is_symlink(), "it is written anew")
    eventually(lambda: b'"session-1"' in path.read_bytes(), "the session is in it")


def test_a_killed_daemon_has_written_what_it_told(world: World) -> None:
    text(world, CLAUDE, start())
    path = sessions_file(world)
    eventually(lambda: path.exists() and b'"session-1"' in path.read_bytes(), "it is written")
    world.daemon.kill()
    world.daemon.start()
    assert text(world, CLAUDE, start(source="resume")) == ""


def test_the_hook_says_how_long_it_waits_and_what_it_printed(tmp_path: Path) -> None:
    from tests.hooks.test_handler import CALL, answering, read_request, run_hook, server

    heads: list[bytes] = []

    def behave(connection: Any) -> None:
        heads.append(read_request(connection)[0])
        connection.sendall(answering(b'{"a":1}'))
        heads.append(connection.recv(100))

    with server(tmp_path, behave):
        assert run_hook(tmp_path, CALL, CLAUDE_MEM_DAEMON_TIMEOUT_MS="4000").stdout == b'{"a":1}\n'
    (left,) = [
        int(line.split(b":")[1])
        for line in heads[0].splitlines()
        if line.startswith(b"Claudemem-Deadline-Ms")
    ]
    assert 0 < left <= 4000
    assert heads[1] == b"\r\n"
    assert hook.MAX_WAIT_MS < 5000


def test_what_one_session_was_answered_serves_others_as_long_as_it_is_true(world: World) -> None:
    def starts(name: str) -> str:
        return text(world, CLAUDE, start(name))

    assert {starts(f"a{number}").count("first row") for number in range(4)} == {1}
    for _ in range(3):
        assert [text(world, CLAUDE, prompt(f"a{number}")) for number in range(4)] == [""] * 4
    add_observation(world.store, project="app", title="own row", memory_session_id="a0")
    world.row("app", title="second row")
    assert "second row" in starts("b")
    told = [text(world, CLAUDE, prompt(f"a{number}")) for number in range(4)]
    assert all("second row" in one for one in told)
    assert [("own row" in one) for one in told] == [False, True, True, True]
    assert [text(world, CLAUDE, prompt(f"a{number}")) for number in range(4)] == [""] * 4
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "**/app"})
    assert "row" not in starts("c")
    world.settings({"CLAUDE_MEM_DAEMON_PROMPT_CONTEXT": "full"})
    assert all("first row" in text(world, CLAUDE, prompt("a1", words)) for words in "xy")
