"""Two repositories of one name in one store: rows, session summaries and every count of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.world import World
from tests.support.daemon import run_to_end
from tests.support.stores import run_sql


@pytest.fixture
def one(world: World) -> Path:
    """`one/shop`, beside `two/shop`; rows are told apart by their files alone."""
    world.repository("two/shop")
    return world.repository("one/shop")


def command(world: World, *arguments: str) -> Any:
    done = run_to_end(world.daemon.environ, *arguments)
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def sessions(world: World, cwd: Path) -> list[str]:
    return sorted(row["request"] for row in world.query(cwd)["summaries"])


def test_a_summary_is_judged_by_the_files_that_it_names(world: World, one: Path) -> None:
    two = world.root / "two" / "shop"
    world.summary("shop", request="read here", files_read=[str(one / "a")])
    world.summary("shop", request="read there", files_read=[str(two / "a")])
    world.summary("shop", request="edited there", files_edited=json.dumps([str(two / "a")]))
    world.summary(
        "shop", request="both", files_read=[str(one / "a")], files_edited=[str(two / "b")]
    )
    world.summary("shop", request="no files")
    world.summary("shop", request="relative", files_read=["src/a"])
    assert sessions(world, one) == ["both", "no files", "read here", "relative"]
    assert sessions(world, two) == ["both", "edited there", "no files", "read there", "relative"]
    assert "edited there" not in world.context(one)
    codes = [warning["code"] for warning in world.query(one)["warnings"]]
    assert codes == ["ambiguous_key"]


def test_a_summary_without_files_is_judged_by_its_session(world: World, one: Path) -> None:
    two = world.root / "two" / "shop"
    for session, folder in (("s1", one), ("s2", two)):
        world.summary("shop", request=session, session=session)
        world.row("shop", session=session, title=f"{session} plain")
        world.row("shop", session=session, title=session, files_modified=[str(folder / "a")])
    world.summary("shop", request="s3", session="s3")
    world.row("shop", session="s4", files_read=[str(one / "a")])
    world.row("shop", session="s4", files_read=[str(two / "a")])
    world.summary("shop", request="s4", session="s4")
    assert sessions(world, one) == ["s1", "s3", "s4"]
    assert sessions(world, two) == ["s2", "s3", "s4"]
    # What a filter drops of a session tells whose it is all the same.
    assert [row["request"] for row in world.query(one, types=["bugfix"])["summaries"]] == [
        "s4",
        "s3",
        "s1",
    ]
    run_sql(world.store, "UPDATE observations SET files_modified = ? WHERE title = 's2'", ["[]"])
    assert sessions(world, one) == ["s1", "s2", "s3", "s4"]


def test_every_count_is_of_our_rows(world: World, one: Path) -> None:
    two = world.root / "two" / "shop"
    for number in range(3):
        world.row("shop", title=f"ours {number}", files_read=[str(one / "a")])
    for number in range(40):
        world.row("shop", title=f"theirs {number}", files_read=[str(two / f"{number}")])
    world.row("shop", title="theirs", type="bugfix", merged_into_project="shop",
              files_modified=[str(two / "a")])  # fmt: skip
    for cwd, rows in ((one, 3), (two, 41)):
        shape = command(world, "worktrees", "--json", "--cwd", str(cwd))
        (main,) = [line for line in shape["worktrees"] if line["role"] == "main"]
        assert [(key["key"], key["rows"]) for key in main["keys"]] == [("shop", rows)]
        explained = world.daemon.post("/v1/explain", {"cwd": str(cwd), "limit": 50}).json()
        (count,) = explained["counts"]
        assert (count["rows"], count["other_repository"]) == (rows, 44 - rows)
        assert count["included"] == count["after_concepts"] == count["after_types"] == rows
    newest = world.query(one)["observations"][0]["created_at_epoch"]
    shape = command(world, "worktrees", "--json", "--cwd", str(one))
    assert shape["worktrees"][0]["keys"][0]["newest"] == newest
    assert [warning["code"] for warning in shape["warnings"]] == ["ambiguous_key"]
    projects = world.daemon.get("/v1/projects", {"cwd": str(one)}).json()["projects"]
    assert [(row["key"], row["rows"]) for row in projects if row["ours"]] == [("shop", 3)]


@pytest.mark.parametrize("types", [None, "bugfix"])
def test_the_reason_why_nothing_is_shown_is_true(
    world: World, one: Path, types: str | None
) -> None:
    """No filter has to do with rows that are all another repository's."""
    two = world.root / "two" / "shop"
    for number in range(60):
        world.row("shop", title=f"theirs {number}", files_read=[str(two / "a")])
    world.summary("shop", request="theirs", files_read=[str(two / "a")])
    if types:
        world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES": types})
        world.daemon.post("/v1/reload", {})
    text = world.context(one)
    assert "no memory yet" in text
    assert "filter" not in text
    assert f"{two}: rows with files there are left out" in text
    doctor = command(world, "doctor", "--cwd", str(one))
    assert "filter excludes" not in doctor
    assert "types left out" not in doctor
    assert f"used by another repository too, {two}" in doctor
    # With one row of ours that the filter drops, the filter is the reason.
    world.row("shop", title="ours", type="change", files_read=[str(one / "a")])
    if types:
        assert "The filter excludes all rows" in world.context(one)
        doctor = command(world, "doctor", "--cwd", str(one))
        assert "types left out by CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES: 'change'" in doctor
    else:
        assert world.titles(one) == ["ours"]


def test_a_folder_that_is_no_repository_has_its_own_rows(world: World) -> None:
    two = world.repository("two/shop")
    one = world.root / "one" / "shop"
    one.mkdir(parents=True)
    world.row("shop", title="theirs", files_read=[str(two / "a")])
    world.row("shop", title="ours", files_read=[str(one / "a")])
    assert world.titles(one) == ["ours"]


def test_each_row_and_each_summary_is_told_where_it_ends(world: World, one: Path) -> None:
    two = world.root / "two" / "shop"
    theirs: dict[str, Any] = {"session": "theirs", "files_read": [str(two / "a")]}
    oldest, *_ = [world.row("shop", title=f"{number} " + "words " * 40) for number in range(20)]
    rows = {
        "over_size": oldest,
        "included": world.row("shop", title="ours"),
        "other_repository": world.row("shop", title="theirs", **theirs),
        "other_project": world.row("else", title="else"),
    }
    summaries = {
        "over_limit": world.summary("shop", request="first"),
        "included": world.summary("shop", request="newest of ours"),
        "other_repository": world.summary("shop", request="theirs", **theirs),
        "other_project": world.summary("else", request="else"),
    }
    world.settings(
        {"CLAUDE_MEM_CONTEXT_SESSION_COUNT": 1, "CLAUDE_MEM_DAEMON_CONTEXT_CHARS": 2_000}
    )
    world.daemon.post("/v1/reload", {})

    def fates(prefix: str, numbers: dict[str, int]) -> dict[str, str]:
        return {
            row["disposition"]: row["detail"]
            for number in numbers.values()
            for row in world.daemon.post(
                "/v1/explain", {"cwd": str(one), "observation": f"{prefix}{number}"}
            ).json()["observation"]
        }

    assert list(of_rows := fates("", rows)) == list(rows)
    assert "2,000 characters" in of_rows["over_size"]
    assert str(two) in of_rows["other_repository"]
    assert list(of_summaries := fates("S", summaries)) == list(summaries)
    assert "only the newest 1" in of_summaries["over_limit"]
    unknown = fates("", {"": 99})
    assert unknown == {"not_found": "no observation 99 in these stores"}
