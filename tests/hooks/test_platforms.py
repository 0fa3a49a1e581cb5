"""Every assistant and every event that can inject, by the installed command and a real daemon."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question
from claudemem_daemon.server.hooks.model import Kind
from claudemem_daemon.server.hooks.output import cap_of
from claudemem_daemon.server.hooks.reply import marks_of
from tests.cases.world import World
from tests.support.daemon import clean_environ, command, eventually
from tests.support.stores import add_observation, make_store

HOOK_EVENT = "hookSpecificOutput"


@pytest.fixture
def world(world: World) -> World:
    world.repository("app", "app-a")
    world.row("app", title="of main")
    world.row("app/app-a", title="of a")
    return world


def hook(world: World, platform: str, call: object, **env: str) -> str:
    """The hook's standard output; it exits 0 whatever the call."""
    text = call if isinstance(call, bytes) else json.dumps(call).encode()
    done = subprocess.run(
        [*command(), "hook", platform],
        input=text,
        env=clean_environ(world.home, **env),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout.decode()


def test_a_session_has_its_own_time_zone(world: World) -> None:
    """And not that of the daemon, which a service manager starts."""
    late = int(datetime(2026, 5, 10, 23, 55, tzinfo=UTC).timestamp() * 1000)
    world.row("app", title="late", created_at_epoch=late)
    for zone, day, line in (
        ("Asia/Tokyo", "## 2026-05-11\n3 08:55 ", "newest 2026-05-11 08:55"),
        ("UTC", "## 2026-05-10\n3 23:55 ", "newest 2026-05-10 23:55"),
    ):
        event = call(world, session_id=zone, hook_event_name="SessionStart", source="startup")
        said = json.loads(hook(world, "claude-code", event, TZ=zone))
        assert day in said[HOOK_EVENT]["additionalContext"]
        assert line in said["systemMessage"]


def call(world: World, **fields: Any) -> dict[str, Any]:
    return {"session_id": "s1", "cwd": str(world.root / "app"), **fields}


@pytest.mark.parametrize(
    ("platform", "fields", "path"),
    [
        ("claude-code", {"hook_event_name": "SessionStart", "source": "startup"}, HOOK_EVENT),
        ("claude-code", {"hook_event_name": "SessionStart", "source": "resume"}, HOOK_EVENT),
        ("claude-code", {"hook_event_name": "UserPromptSubmit", "prompt": "p"}, HOOK_EVENT),
        ("claude-code", {"hook_event_name": "SubagentStart", "agent_id": "x"}, HOOK_EVENT),
        ("codex", {"hook_event_name": "SessionStart", "source": "startup"}, HOOK_EVENT),
        (
            "codex",
            {"hook_event_name": "UserPromptSubmit", "prompt": "p", "turn_id": "1"},
            HOOK_EVENT,
        ),
        ("gemini-cli", {"hook_event_name": "SessionStart", "source": "startup"}, HOOK_EVENT),
        ("gemini-cli", {"hook_event_name": "BeforeAgent", "prompt": "p"}, HOOK_EVENT),
        ("copilot-cli", {"sessionId": "s", "timestamp": 1, "source": "new"}, "additionalContext"),
        ("copilot-cli", {"sessionId": "s", "timestamp": 1, "prompt": "p"}, "additionalContext"),
        ("copilot-cli", {"sessionId": "s", "agentName": "explore"}, "additionalContext"),
        ("copilot-cli", {"hook_event_name": "SessionStart", "source": "new"}, "additionalContext"),
        ("codex", {"hook_event_name": "SubagentStart", "agent_id": "x"}, HOOK_EVENT),
        (
            "cursor",
            {"hook_event_name": "sessionStart", "cursor_version": "3"},
            "additional_context",
        ),
        ("cursor", {"hook_event_name": "beforeSubmitPrompt", "prompt": "p"}, "additional_context"),
        ("opencode", {"hook_event_name": "SessionStart", "source": "resume"}, HOOK_EVENT),
        ("opencode", {"hook_event_name": "UserPromptSubmit", "turn_id": "msg_1"}, HOOK_EVENT),
        ("raw", {"sessionId": "s"}, HOOK_EVENT),
    ],
)
def test_context_comes_in_the_shape_the_assistant_takes(
    world: World, platform: str, fields: dict[str, Any], path: str
) -> None:
    asked = call(world, **fields)
    if platform == "cursor":
        asked |= {"cwd": "", "conversation_id": "c", "workspace_roots": [asked["cwd"]]}
    shape = json.loads(hook(world, platform, asked))
    text = shape[path]
    if path == HOOK_EVENT:
        shown = fields.get("hook_event_name") == "SessionStart" and platform != "opencode"
        assert set(shape) == {HOOK_EVENT} | ({"systemMessage"} if shown else set())
        assert set(text) == {"hookEventName", "additionalContext"}
        assert text["hookEventName"] == fields.get("hook_event_name", "SessionStart")
        text = text["additionalContext"]
    assert "of main" in text
    assert "of a" in text


@pytest.mark.parametrize(
    ("platform", "event"),
    [
        ("claude-code", "PostToolUse"),
        ("claude-code", "Stop"),
        ("codex", "PreToolUse"),
        ("cursor", "afterFileEdit"),
        ("gemini-cli", "AfterTool"),
    ],
)
def test_other_events_get_nothing(world: World, platform: str, event: str) -> None:
    printed = hook(world, platform, call(world, hook_event_name=event))
    # Gemini CLI would read standard error if nothing came.
    assert printed.strip() == ("{}" if platform == "gemini-cli" else "")


def test_an_entry_of_claude_run_by_cursor_answers_cursor_and_only_once(world: World) -> None:
    asked = call(
        world,
        hook_event_name="sessionStart",
        cursor_version="3.20",
        conversation_id="c1",
        generation_id="g1",
        workspace_roots=[str(world.root / "app")],
    )
    assert set(json.loads(hook(world, "claude-code", asked))) == {"additional_context"}
    assert hook(world, "cursor", asked) == ""


def test_an_entry_of_claude_run_by_vs_code_or_copilot_answers_them(world: World) -> None:
    cwd = str(world.root / "app")
    code = {"sessionId": "v", "cwd": cwd, "hookEventName": "SessionStart", "timestamp": "t"}
    assert set(json.loads(hook(world, "claude-code", code))) == {HOOK_EVENT}
    copilot = {"sessionId": "p", "cwd": cwd, "timestamp": 1, "source": "startup"}
    assert set(json.loads(hook(world, "claude-code", copilot))) == {"additionalContext"}


@pytest.mark.parametrize(
    ("env", "expected"), [({"COPILOT_CLI": "1"}, "additionalContext"), ({}, HOOK_EVENT)]
)
def test_claudes_field_names_with_a_time_are_not_claudes(
    world: World, env: dict[str, str], expected: str
) -> None:
    """Copilot CLI and VS Code write them too when they run Claude's entries."""
    asked = call(world, hook_event_name="SessionStart", source="startup", timestamp="2026-01-01")
    assert set(json.loads(hook(world, "claude-code", asked, **env))) == {expected}


def test_only_claudes_entry_guesses_who_calls(world: World) -> None:
    asked = call(world, hook_event_name="SessionStart", cursor_version="3")
    assert set(json.loads(hook(world, "raw", asked))) == {HOOK_EVENT}


@pytest.mark.parametrize(
    ("fields", "answered"),
    [
        ({"session_id": "\ud800"}, True),
        ({"session_id": "a\0b"}, True),
        ({"session_id": 5, "agent_id": ["x"]}, True),
        ({"transcript_path": "/\ud800"}, True),
        ({"transcript_path": "relative.jsonl"}, True),
        ({"transcript_path": "/dev/zero"}, True),
        ({"prompt": "\ud800", "prompt_id": "\udfff"}, True),
        ({"cwd": "/\ud800"}, False),
        ({"cwd": "/a\0b"}, False),
        ({"cwd": "/" + "x/" * 5000}, False),
    ],
)
def test_odd_fields_are_no_error(world: World, fields: dict[str, Any], answered: bool) -> None:
    asked = call(world, hook_event_name="SessionStart") | fields
    assert ("of main" in hook(world, "claude-code", asked)) is answered
    for _ in range(2):
        hook(world, "claude-code", {**asked, "hook_event_name": "UserPromptSubmit"})
    assert not (world.data_dir / "daemon" / "hook.log").exists()


def prompt(world: World, session: str = "s1", number: int = 0) -> str:
    asked = call(world, session_id=session, hook_event_name="UserPromptSubmit", prompt=f"p{number}")
    printed = hook(world, "claude-code", asked)
    return json.loads(printed)[HOOK_EVENT]["additionalContext"] if printed else ""


def start(world: World, session: str = "s1", source: str = "startup") -> str:
    asked = call(world, session_id=session, hook_event_name="SessionStart", source=source)
    printed = hook(world, "claude-code", asked)
    return json.loads(printed)[HOOK_EVENT]["additionalContext"] if printed else ""


def test_a_prompt_gets_what_others_wrote_since_and_nothing_else(world: World) -> None:
    assert "of main" in start(world)
    assert prompt(world) == ""
    world.row("app/app-a", title="news of a sibling", session="other")
    news = prompt(world, number=1)
    assert "news of a sibling" in news
    assert "of main" not in news
    assert prompt(world, number=2) == ""


def test_what_the_session_wrote_itself_is_no_news(world: World) -> None:
    from tests.support.stores import add_session

    start(world)
    add_session(world.store, "memory-1", content_session="s1")
    world.row("app", title="my own", session="memory-1")
    assert prompt(world) == ""
    world.row("app", title="not my own", session="memory-2")
    assert "not my own" in prompt(world, number=1)


def test_news_may_be_older_than_what_was_told(world: World) -> None:
    """A row that another device wrote long ago and that came by sync only now is news."""
    start(world)
    world.row("app", title="late arrival", created_at_epoch=1_600_000_000_000, session="x")
    assert "late arrival" in prompt(world)


def test_a_session_that_was_not_seen_starting_gets_everything_first(world: World) -> None:
    assert "of main" in prompt(world, session="unseen")
    assert prompt(world, session="unseen", number=1) == ""


def put_in_place(world: World, fresh: str) -> None:
    for end in ("-wal", "-shm"):
        Path(world.store + end).unlink(missing_ok=True)
    Path(fresh).replace(world.store)


def test_a_store_that_began_anew_is_told_anew(world: World, tmp_path: Path) -> None:
    """Another file in its place, whose ids start from 1 again."""
    start(world)
    assert prompt(world) == ""
    fresh = make_store(tmp_path / "fresh.db")
    add_observation(fresh, project="app", title="first of the new store")
    put_in_place(world, fresh)
    assert "first of the new store" in prompt(world, number=1)
    assert prompt(world, number=2) == ""


def test_a_copy_put_back_is_no_news(world: World, tmp_path: Path) -> None:
    start(world)
    copy = str(tmp_path / "copy.db")
    source, target = sqlite3.connect(world.store), sqlite3.connect(copy)
    with contextlib.closing(source), contextlib.closing(target):
        source.backup(target)
    put_in_place(world, copy)
    assert prompt(world) == ""
    world.row("app/app-a", title="after the copy", session="other")
    assert "after the copy" in prompt(world, number=1)


def test_a_deleted_row_makes_no_news_of_the_others(world: World) -> None:
    last = world.row("app", title="soon gone")
    start(world)
    with contextlib.closing(sqlite3.connect(world.store)) as store, store:
        store.execute("DELETE FROM observations WHERE id = ?", (last,))
    assert prompt(world) == ""
    world.row("app", title="next", session="other")
    assert "next" in prompt(world, number=1)


def test_a_store_that_could_not_be_read_is_told_later(world: World) -> None:
    """It has no mark, so nothing of it counts as told."""
    path = Path(world.store)
    good = path.read_bytes()
    broken = path.with_suffix(".broken")
    broken.write_bytes(b"x" * 8192)
    aside = path.with_suffix(".aside")
    aside.write_bytes(good)
    put_in_place(world, str(broken))
    assert "of main" not in start(world)
    put_in_place(world, str(aside))
    eventually(lambda: "of main" in prompt(world), "the row is told")
    assert prompt(world, number=1) == ""


def test_a_store_that_failed_half_way_is_not_marked_as_told(world: World) -> None:
    """Its highest id is known by then, and its rows are not."""
    environ = clean_environ(world.home)
    with open_pipeline(environ) as pipeline:
        question = Question(cwd=str(world.root / "app"))
        selection = pipeline.ask(question, Deadline.after(20)).selection
    assert list(marks_of(selection)) == [world.store]
    failed = selection.stores[0]._replace(ok=False)
    assert marks_of(selection._replace(stores=(failed,))) == {}


@pytest.mark.parametrize("source", ["clear", "compact"])
def test_a_session_that_begins_again_gets_everything_again(world: World, source: str) -> None:
    start(world)
    assert "of main" in start(world, source=source)


@pytest.mark.parametrize(("wanted", "expected"), [("full", True), ("off", False)])
def test_prompt_context_is_as_set(world: World, wanted: str, expected: bool) -> None:
    start(world)
    world.settings({"CLAUDE_MEM_DAEMON_PROMPT_CONTEXT": wanted})
    assert ("of main" in prompt(world)) is expected


def test_a_task_notification_is_nobodys_prompt(world: World) -> None:
    asked = call(
        world, hook_event_name="UserPromptSubmit", prompt="<task-notification>x</task-notification>"
    )
    assert hook(world, "claude-code", asked) == ""


def test_the_folder_asked_for_is_never_our_own(world: World) -> None:
    """Case cwd-is-tmp-or-tilde."""
    outside = world.root / "T"
    outside.mkdir()
    project = str(world.root / "app")
    event = {"hook_event_name": "SessionStart", "session_id": "a"}
    elsewhere = {**event, "cwd": str(outside)}
    assert "of main" in hook(world, "claude-code", elsewhere, CLAUDE_PROJECT_DIR=project)
    world.row(world.home.name, title="of the home folder")
    assert "of the home folder" in hook(world, "claude-code", {**event, "cwd": "~"})
    for odd in ({}, {"cwd": ""}, {"cwd": "./x"}, {"cwd": 5}, {"cwd": None}, {"cwd": ["/"]}):
        assert hook(world, "claude-code", {**event, **odd}) == ""


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    ("platform", "fields"),
    [
        ("claude-code", {"hook_event_name": "SessionStart"}),
        ("codex", {"hook_event_name": "SessionStart", "cwd": None}),
        ("gemini-cli", {"hook_event_name": "SessionStart", "cwd": ""}),
        ("copilot-cli", {"sessionId": "s", "timestamp": 1, "source": "new"}),
        ("raw", {}),
    ],
)
def test_a_call_without_a_folder_is_about_where_the_hook_runs(
    world: World, platform: str, fields: dict[str, Any], running: bool
) -> None:
    """With a daemon, which runs elsewhere, and without one. A name the shell is wrong about does
    not count, one that is a link to the place does."""
    link = world.root / "link"
    link.symlink_to(world.root / "app-a")
    world.row("link", title="of the link's name")
    if not running:
        assert world.daemon.stop() == 0

    def printed(cwd: Path, **env: str) -> str:
        done = subprocess.run(
            [*command(), "hook", platform],
            input=json.dumps(fields),
            env=clean_environ(world.home, CLAUDE_MEM_DAEMON_TIMEOUT_MS="60000", **env),
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "of main" in printed(world.root / "app-a", PWD=str(world.home))
    assert "of the link's name" in printed(world.root / "app-a", PWD=str(link))
    # A guess that finds nothing is not worth a word.
    assert printed(world.home).strip() in ("", "{}")


def test_a_hook_of_cursors_runs_in_a_folder_of_its_own(world: World) -> None:
    done = subprocess.run(
        [*command(), "hook", "cursor"],
        input=json.dumps({"hook_event_name": "sessionStart", "conversation_id": "c", "cwd": ""}),
        env=clean_environ(world.home),
        capture_output=True,
        text=True,
        check=False,
        cwd=world.root / "app",
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_an_excluded_project_gets_nothing(world: World) -> None:
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "app"})
    assert start(world) == ""


@pytest.mark.parametrize(
    ("platform", "most", "unit"),
    [
        ("claude-code", 10_000, "utf-16-le"),
        ("codex", 10_000, "utf-8"),
        ("cursor", 10_000, "utf-16-le"),
        ("copilot-cli", 60_000, "utf-8"),
        ("gemini-cli", 100_000, "utf-16-le"),
    ],
)
def test_the_text_takes_all_the_room_and_no_more(
    world: World, platform: str, most: int, unit: str
) -> None:
    """Case context-over-10k-chars. The assistant counts the text, not the JSON around it."""
    world.settings(
        {
            "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 3000,
            "CLAUDE_MEM_DAEMON_CONTEXT_CHARS": 100_000,
            "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 60_000,
        }
    )
    with contextlib.closing(sqlite3.connect(world.store)) as store, store:
        letters = ('"', "漢", "😀", "x")
        store.executemany(
            "INSERT INTO observations (memory_session_id, project, type, title, concepts, created_at,"
            " created_at_epoch) VALUES ('m', 'app', 'discovery', ?, '[\"how-it-works\"]', '', ?)",
            [(f"{n} {letters[n % 4] * 40}", 1_700_000_000_000 + n) for n in range(3000)],
        )
    asked = call(world, hook_event_name="SessionStart", source="startup")
    if platform == "cursor":
        asked |= {"cursor_version": "3", "workspace_roots": [asked["cwd"]]}
    if platform == "copilot-cli":
        asked = {"sessionId": "s", "timestamp": 1, "source": "new", "cwd": asked["cwd"]}
    shape = json.loads(hook(world, platform, asked))
    text = (
        shape.get("additional_context")
        or shape.get("additionalContext")
        or shape[HOOK_EVENT]["additionalContext"]
    )
    size = len(text.encode(unit)) // (2 if unit == "utf-16-le" else 1)
    assert most - 300 < size <= most
    lines = text.splitlines()
    shown = sum(line[:1].isdigit() for line in lines)
    note = re.search(r"([\d,]+) older observations? left out", "\n".join(lines[-3:]))
    assert note is not None, lines[-3:]
    assert shown + int(note[1].replace(",", "")) == 3000


@pytest.mark.parametrize(
    ("caller", "kind", "expected"),
    [
        ("claude-code", "start", (10_000, "utf16")),
        ("claude-code", "agent", (10_000, "utf16")),
        ("codex", "prompt", (10_000, "bytes")),
        ("cursor", "start", (10_000, "utf16")),
        ("vscode", "start", (10_000, "utf16")),
        ("copilot-cli", "start", (60_000, "bytes")),
        ("copilot-cli", "prompt", (60_000, "bytes")),
        ("copilot-cli", "agent", (20_000, "bytes")),
        ("gemini-cli", "start", (None, "utf16")),
        ("raw", "start", (None, "utf16")),
    ],
)
def test_the_caps_are_what_was_seen_to_arrive_whole(
    caller: str, kind: Kind, expected: tuple[int | None, str]
) -> None:
    assert cap_of(caller, kind) == expected
