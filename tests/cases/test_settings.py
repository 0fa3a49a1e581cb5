"""Bug reports of area `settings`, asked from outside through a real daemon."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.cases.world import World
from tests.support.daemon import eventually

LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
TYPES = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"


def test_filters_reach_the_query_and_change_while_it_runs(world: World) -> None:
    """Case filters-never-reach-query."""
    app = world.repository("app")
    world.settings({TYPES: "bugfix, Decision ,", CONCEPTS: "gotcha"})
    for number, (kind, concept) in enumerate(
        (
            ("bugfix", "gotcha"),
            ("decision", "gotcha"),
            ("feature", "gotcha"),
            ("bugfix", "how-it-works"),
        )
    ):
        world.row("app", type=kind, concepts=[concept], title=f"row {number + 1}")
    assert sorted(world.titles(app)) == ["row 1", "row 2"]
    world.settings({TYPES: "feature", CONCEPTS: "gotcha"})
    assert world.titles(app) == ["row 3"]
    filters = world.query(app)["filters"]
    assert filters["types"] == ["feature"]
    assert str(world.settings_path) in json.dumps(filters)


LEGAL_MODE = {
    "name": "Legal",
    "observation_types": [
        {"id": "issue-spotted", "label": "Issue", "emoji": "!"},
        {"id": "case-law", "label": "Case", "emoji": "§"},
    ],
    "observation_concepts": [{"id": "how-it-works", "label": "How"}],
}


def test_a_list_left_over_from_another_mode_does_not_empty_the_context(world: World) -> None:
    """Case mode-switch-empties-context."""
    app = world.repository("app")
    modes = world.data_dir / "modes"
    modes.mkdir(parents=True)
    (modes / "legal.json").write_text(json.dumps(LEGAL_MODE))
    for number in range(10):
        world.row("app", type=("bugfix", "feature")[number % 2])
    world.settings({TYPES: "bugfix,feature"})
    assert len(world.titles(app)) == 10
    for number, kind in enumerate(("issue-spotted", "case-law", "issue-spotted")):
        world.row("app", type=kind, title=f"{kind} {number}")
    world.settings({TYPES: "bugfix,feature", "CLAUDE_MEM_MODE": "legal"})
    answer = world.query(app)
    assert {row["type"] for row in answer["observations"]} == {"issue-spotted", "case-law"}
    assert len(answer["observations"]) == 3
    assert any(warning.get("key") == TYPES for warning in answer["warnings"])
    world.settings({TYPES: "bugfix,case-law", "CLAUDE_MEM_MODE": "legal"})
    assert world.titles(app) == ["case-law 1"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, 50),
        ("", 50),
        ("abc", 50),
        ("-5", 50),
        (-5, 50),
        ("1e2", 50),
        (50.7, 50),
        ("50 ", 50),
        ("55", 55),
        ("999999999999", 60),
        (True, 50),
        ([50], 50),
    ],
)
def test_a_wrong_count_is_the_default_and_is_named(world: World, value: Any, expected: int) -> None:
    """Case settings-null-empty-nonnumeric."""
    app = world.repository("app")
    for _ in range(60):
        world.row("app")
    world.settings({LIMIT: value})
    answer = world.query(app)
    assert len(answer["observations"]) == expected
    named = [warning for warning in answer["warnings"] if warning.get("key") == LIMIT]
    assert len(named) == (0 if value in ("50 ", "55") else 1), answer["warnings"]


def test_numbers_lists_and_null_are_taken_or_named(world: World) -> None:
    """Case settings-numbers-not-strings."""
    app = world.repository("app")
    for number in range(9):
        world.row("app", type=("bugfix", "feature", "discovery")[number % 3])
    world.settings(
        {
            LIMIT: 5,
            TYPES: ["bugfix", "feature"],
            "CLAUDE_MEM_MODE": 1,
            "CLAUDE_MEM_EXCLUDED_PROJECTS": None,
        }
    )
    answer = world.query(app)
    assert len(answer["observations"]) == 5
    assert {row["type"] for row in answer["observations"]} == {"bugfix", "feature"}
    named = {warning.get("key") for warning in answer["warnings"]}
    assert {"CLAUDE_MEM_MODE", "CLAUDE_MEM_EXCLUDED_PROJECTS"} <= named


def test_a_half_written_file_takes_nothing_away(world: World) -> None:
    """Case settings-partial-write-keeps-last-good."""
    app = world.repository("app")
    for _ in range(12):
        world.row("app")
    world.settings({LIMIT: 3})
    assert len(world.titles(app)) == 3
    for broken in (
        b"",
        b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "9",',
        b'{"%s": 9,}' % LIMIT.encode(),
    ):
        world.settings_path.write_bytes(broken)
        assert len(world.titles(app)) == 3
        status = world.daemon.get("/v1/status").text
        assert str(world.settings_path) in status
        assert world.settings_path.read_bytes() == broken
        warnings = world.query(app)["warnings"]
        assert [w["path"] for w in warnings if w["code"] == "settings_rejected"] == [
            str(world.settings_path)
        ]
    world.settings({LIMIT: 9})
    assert len(world.titles(app)) == 9


def test_an_excluded_project_is_neither_answered_nor_read_from(world: World) -> None:
    """Case excluded-projects-still-injected."""
    secret = world.home / "secret" / "app"
    foo = world.home / "work" / "foo"
    for main in (secret, foo):
        main.parent.mkdir()
        world.git("init", "-q", main)
        world.git("commit", "-q", "--allow-empty", "-m", "first", cwd=main)
    world.git("worktree", "add", "-q", world.home / "tmp" / "app-wt", cwd=secret)
    world.git("worktree", "add", "-q", world.home / "work" / "foo-scratch", cwd=foo)
    for key in ("app", "app/app-wt", "foo", "foo/foo-scratch", "foo-scratch"):
        world.row(key, title=key)
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "~/secret/**, *-scratch"})
    for cwd in (secret, world.home / "tmp" / "app-wt", world.home / "work" / "foo-scratch"):
        assert world.titles(cwd) == []
        assert world.context(cwd) == ""
    assert world.titles(foo) == ["foo"]
    world.settings({})
    assert sorted(world.titles(foo)) == ["foo", "foo-scratch", "foo/foo-scratch"]
    assert sorted(world.titles(secret)) == ["app", "app/app-wt"]


def test_zero_observations_is_off(world: World) -> None:
    """Case zero-observations-means-off."""
    app = world.repository("app")
    for _ in range(20):
        world.row("app")
    world.settings({LIMIT: "0"})
    assert world.context(app) == ""
    assert world.titles(app) == []
    world.settings({LIMIT: "5"})
    assert len(world.titles(app)) == 5
    assert world.context(app) != ""


@pytest.mark.parametrize("mode", ["code--xx", "broken", "../../etc/passwd", "", "code--ja"])
def test_a_missing_or_broken_mode_is_the_built_in_one(world: World, mode: str) -> None:
    """Case mode-file-missing."""
    app = world.repository("app")
    if mode == "broken":
        (world.data_dir / "modes").mkdir(parents=True)
        (world.data_dir / "modes" / "broken.json").write_text("{not json")
    for _ in range(5):
        world.row("app")
    world.settings({"CLAUDE_MEM_MODE": mode})
    answer = world.query(app)
    assert len(answer["observations"]) == 5
    named = [w for w in answer["warnings"] if w.get("key") == "CLAUDE_MEM_MODE"]
    assert len(named) <= 1
    assert (
        bool(named) == (mode in ("broken", "../../etc/passwd"))
        or mode.startswith("code--")
        or not mode
    )


def test_every_key_is_in_force_in_the_next_answer(world: World) -> None:
    """Case hot-reload-not-applied."""
    app = world.repository("app")
    world.row("app", type="bugfix", concepts=["gotcha"], title="one")
    world.row("app", type="feature", concepts=["pattern"], title="two")
    steps: list[tuple[dict[str, Any], list[str]]] = [
        ({LIMIT: 1}, ["two"]),
        ({TYPES: "bugfix"}, ["one"]),
        ({CONCEPTS: "pattern"}, ["two"]),
        ({"CLAUDE_MEM_EXCLUDED_PROJECTS": "app"}, []),
        ({"CLAUDE_MEM_DAEMON_OBSERVATIONS": 0}, []),
        ({}, ["two", "one"]),
    ]
    for settings, expected in steps:
        world.settings(settings)
        assert world.titles(app) == expected, settings


def test_equal_size_and_time_is_still_noticed(world: World) -> None:
    """Case hot-reload-not-applied: the content decides."""
    app = world.repository("app")
    for _ in range(9):
        world.row("app")
    world.settings({LIMIT: 3})
    assert len(world.titles(app)) == 3
    before = world.settings_path.stat()
    world.settings_path.write_text(json.dumps({LIMIT: 4}))
    os.utime(world.settings_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    eventually(lambda: len(world.titles(app)) == 4, "the change is in force")


def test_the_callers_environment_wins_over_the_file(world: World) -> None:
    app = world.repository("app")
    for _ in range(9):
        world.row("app")
    world.settings({LIMIT: 3})
    assert len(world.titles(app, env={LIMIT: "5"})) == 5
    assert len(world.titles(app, env={LIMIT: ""})) == 3
    assert len(world.titles(app, env={LIMIT: "5"}, limit=2)) == 2
