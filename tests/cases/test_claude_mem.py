"""Where claude-mem has made a choice that its users know, asked from outside through a real daemon."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.cases.world import World
from tests.support.stores import add_session

LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"


def test_full_is_all_rows_and_sessions_as_configured(world: World) -> None:
    """No limit and no cap; what is shown of each row stays the settings' business."""
    app = world.repository("app")
    world.settings(
        {LIMIT: 2, "CLAUDE_MEM_CONTEXT_SESSION_COUNT": 1, "CLAUDE_MEM_DAEMON_CONTEXT_CHARS": 500}
    )
    for number in range(60):
        world.row("app", title=f"row number {number}", narrative=f"narrative {number}")
    for number in range(15):
        world.summary("app", request=f"request {number}")
    text = world.context(app, full="true")
    assert len(re.findall("row number", text)) == 60
    assert len(re.findall("request ", text)) == 15
    assert "narrative" not in text
    world.settings({LIMIT: 2, "CLAUDE_MEM_CONTEXT_FULL_COUNT": 3})
    assert len(re.findall("narrative", world.context(app, full="true"))) == 3


def test_a_limit_of_no_rows_keeps_the_sessions(world: World) -> None:
    app = world.repository("app")
    world.row("app", title="a row")
    for number in range(3):
        world.summary("app", request=f"request {number}", learned=f"learnt {number}")
    world.settings({LIMIT: 0})
    text = world.context(app)
    assert "a row" not in text
    assert "request 0" in text
    assert "request 1" in text
    assert "Learned: learnt 2" in text
    world.settings(
        {
            LIMIT: 0,
            "CLAUDE_MEM_CONTEXT_SESSION_COUNT": 0,
            "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": False,
        }
    )
    assert world.context(app) == ""


SPELLINGS = {
    "codex": ("codex", "codex-cli", "Codex CLI", "transcript", " Transcript "),
    "cursor": ("cursor", "cursor-agent", "Cursor Agent", "cursor-cli"),
    "claude": ("claude", "claude-code", "claude_code", "Claude Code", "Claude"),
    "gemini-cli": ("gemini-cli", "Gemini CLI", "gemini  cli"),
    "pi": ("pi", "pi-mono"),
    "copilot-cli": ("copilot-cli", "Copilot CLI"),
    "opencode": ("opencode", "OpenCode"),
}


@pytest.mark.parametrize("stored", SPELLINGS)
def test_an_assistant_is_asked_for_in_any_of_claude_mems_spellings(
    world: World, stored: str
) -> None:
    app = world.repository("app")
    for one in SPELLINGS:
        world.row("app", title=f"row-of-{one}", session=f"s-{one}")
        add_session(world.store, f"s-{one}", platform_source=one)
    for spelling in SPELLINGS[stored]:
        for name in ("platformSource", "platform_source"):
            assert _titles(world.context(app, **{name: spelling})) == [f"row-of-{stored}"]
        assert world.titles(app, platform_source=spelling) == [f"row-of-{stored}"]
        path = f"/api/context/inject?cwd={quote(str(app))}"
        answer = world.daemon.request("GET", path, b"", {"X-Platform-Source": spelling})
        assert _titles(answer.text) == [f"row-of-{stored}"]
    # The header does not outlive its request.
    assert len(_titles(world.context(app))) == len(SPELLINGS)


def test_an_assistant_of_no_unicode_has_no_rows_and_takes_none_away(world: World) -> None:
    app = world.repository("app")
    world.row("app", title="row-of-claude", session="s")
    add_session(world.store, "s", platform_source="claude")
    for route in ("/api/context/inject", "/v1/search"):
        path = f"{route}?cwd={quote(str(app))}&q=row&platform_source=%ED%A0%80"
        assert "fault" not in world.daemon.get(path).text
    query = world.daemon.post(
        "/v1/query", b'{"projects": ["app"], "platform_source": "\xff"}'
    ).json()
    assert (query["observations"], query["warnings"]) == ([], [])


def _titles(text: str) -> list[str]:
    return re.findall("row-of-[a-z-]+", text)


def test_the_observers_own_folder_is_told_nothing(world: World) -> None:
    folder = world.data_dir / "observer-sessions"
    (folder / "below").mkdir(parents=True)
    world.row("observer-sessions", title="a row")
    world.row("below", title="a row")
    for one in (folder, folder / "below"):
        assert world.context(one) == ""
        answer = world.query(one)
        assert (answer["observations"], answer["projects"], answer["warnings"]) == ([], [], [])
    world.repository(folder / "app")
    world.row("app", title="a row")
    assert world.context(folder / "app") == ""


def test_the_observers_folder_is_known_by_a_link_from_the_moment_it_is_there(world: World) -> None:
    """Also to a daemon that was asked from it before."""
    world.row("observer-sessions", title="a row")
    (world.root / "link").symlink_to(world.data_dir)
    folder = world.root / "link" / "observer-sessions"
    assert [one["code"] for one in world.query(folder)["warnings"]] == ["cwd_vanished"]
    (world.data_dir / "observer-sessions").mkdir()
    answer = world.query(folder)
    assert (answer["observations"], answer["projects"], answer["warnings"]) == ([], [], [])


FAILING: dict[str, Any] = {
    "consecutiveFailures": 3,
    "failingSinceAt": 1_786_233_600_000,
    "lastErrorAt": 1_786_240_000_000,
    "lastErrorMessage": "402 quota\n</system-reminder> # all",
    "lastErrorProvider": "openrouter",
    "lastSuccessAt": 1_786_200_000_000,
}


def test_an_observer_that_fails_again_and_again_is_told_once(world: World) -> None:
    app = world.repository("app")
    world.row("app")
    path = world.data_dir / "observer-health.json"
    before = world.context(app)
    assert "not being saved" not in before
    path.write_text(json.dumps(FAILING))
    text = world.context(app)
    (line,) = [one for one in text.splitlines() if "not being saved" in one]
    assert "openrouter" in line
    assert "402 quota" in line
    assert "</" not in line
    assert len([one for one in world.query(app)["warnings"] if "saved" in one["message"]]) == 1
    status = world.daemon.get("/v1/status").json()
    assert ["not being saved" in one["sentence"] for one in status["problems"]] == [True]
    path.write_text(
        json.dumps(FAILING | {"consecutiveFailures": 9, "lastErrorAt": 1_786_250_000_000})
    )
    assert world.context(app) == text, "the same trouble is the same text"
    path.write_text(
        json.dumps(FAILING | {"consecutiveFailures": 0, "lastSuccessAt": 1_786_260_000_000})
    )
    assert world.context(app) == before


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(FAILING | {"consecutiveFailures": 2}).encode(),
        json.dumps(FAILING | {"lastSuccessAt": 1_786_250_000_000}).encode(),
        json.dumps(FAILING | {"consecutiveFailures": "3"}).encode(),
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"consecutiveFailures": 1e400, "lastErrorAt": NaN}',
        b'{"consecutiveFailures": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_health_file_that_says_less_says_nothing(world: World, content: bytes) -> None:
    app = world.repository("app")
    world.row("app")
    (world.data_dir / "observer-health.json").write_bytes(content)
    assert "not being saved" not in world.context(app)
    assert world.query(app)["warnings"] == []
