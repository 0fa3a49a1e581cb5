"""Whose a row is: told by the repository its files lie in, not by how their paths are spelled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import all_hold
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.repository.ownership import MAX_BYTES, PathOwnership
from claudemem_daemon.selection.ownership import Ownership
from tests.cases.world import World
from tests.selection.asking import make_keys
from tests.support.daemon import eventually


def titles(world: World, cwd: Path) -> list[str]:
    """The daemon's rows without a word about another repository."""
    answer = world.query(cwd)
    assert [one["code"] for one in answer["warnings"]] == []
    return [row["title"] for row in answer["observations"]]


def spelled_by_link(world: World, app: Path) -> str:
    (world.root / "linked").symlink_to(app.parent)
    return f"{world.root}/linked/app/a.py"


def spelled_by_a_link_to_it(world: World, app: Path) -> str:
    (world.root / "x").mkdir()
    (world.root / "x" / "app").symlink_to("../data/app")
    return f"{world.root}/x/app/src/a.py"


def spelled_by_two_dots(world: World, app: Path) -> str:
    world.repository("other/app")
    return f"{world.root}/other/app/../../data/app/a.py"


def spelled_through_a_link_and_back(world: World, app: Path) -> str:
    """`link/..` is the folder around what the link leads to."""
    world.repository("other/app")
    (app / "src").mkdir()
    (world.root / "other" / "link").symlink_to(app / "src")
    return f"{world.root}/other/link/../a.py"


def spelled_with_a_slash_too_many(world: World, app: Path) -> str:
    return f"/{world.root}//data/./app/a.py"


def spelled_inside_a_linked_worktree(world: World, app: Path) -> str:
    world.git("worktree", "add", "-q", world.root / "w" / "app", "-b", "w", cwd=app)
    (world.root / "v").symlink_to("w")
    return f"{world.root}/v/app/a.py"


@pytest.mark.parametrize(
    "spelled",
    [
        spelled_by_link,
        spelled_by_a_link_to_it,
        spelled_by_two_dots,
        spelled_through_a_link_and_back,
        spelled_with_a_slash_too_many,
        spelled_inside_a_linked_worktree,
    ],
    ids=lambda one: one.__name__.removeprefix("spelled_"),
)
def test_a_row_of_ours_is_ours_however_its_path_is_spelled(
    world: World, spelled: Callable[[World, Path], str]
) -> None:
    app = world.repository("data/app")
    world.row("app", title="ours", files_read=[spelled(world, app)])
    assert titles(world, app) == ["ours"]


def test_a_row_of_another_repository_hides_no_equal_one_of_ours(world: World) -> None:
    """It is left out itself, so it is not the one that stays of two copies."""
    one, two = world.repository("one/same"), world.repository("two/same")
    same = {"title": "equal", "narrative": "words", "created_at_epoch": 1_778_500_800_000}
    mine = world.row("same", **same, files_read=[str(one / "a")])
    theirs = world.row("same", **same, files_read=[str(two / "a")])
    for cwd, number in ((one, mine), (two, theirs)):
        assert [row["id"] for row in world.query(cwd)["observations"]] == [number]


def test_a_linked_worktree_belongs_to_its_repository(world: World) -> None:
    """Its folder has another name; the repository it is of has ours."""
    one = world.repository("one/same", "same-w")
    two = world.repository("two/same")
    world.row("same", title="theirs", files_read=[str(one.parent / "same-w" / "a")])
    world.row("same", title="ours", files_read=[str(two / "a")])
    answer = world.query(two)
    assert [row["title"] for row in answer["observations"]] == ["ours"]
    (warning,) = answer["warnings"]
    assert (warning["code"], warning["path"]) == ("ambiguous_key", str(one.parent / "same-w"))
    for cwd in (one, one.parent / "same-w"):
        assert [row["title"] for row in world.query(cwd)["observations"]] == ["theirs"]


def test_rows_of_a_repository_that_is_gone_are_told_apart_no_more(world: World) -> None:
    """At once, though nothing else changed: no store, no repository of ours."""
    one, two = world.repository("one/same"), world.repository("two/same")
    world.row("same", title="theirs", files_read=[str(two / "a")])
    question = Question(cwd=str(one), projects=())
    with open_pipeline(world.daemon.environ) as pipeline:
        # Files that were written just now prove nothing yet.
        answer = eventually(lambda: standing(pipeline, question), "an answer that may be reused")
        assert answer.selection.observations == ()
        two.rename(world.root / "aside")
        assert not all_hold(answer.dependencies)
        (row,) = pipeline.ask(question, Deadline.after(20)).selection.observations
        assert row.title == "theirs"
        assert titles(world, one) == ["theirs"]


def standing(pipeline: Pipeline, question: Question) -> Answer | None:
    answer = pipeline.ask(question, Deadline.after(20))
    return answer if all_hold(answer.dependencies) else None


def test_a_bare_repositorys_worktree_belongs_to_it(world: World) -> None:
    two = world.repository("two/same")
    bare = world.root / "one" / "same.git"
    world.git("clone", "-q", "--bare", two, bare)
    world.git("worktree", "add", "-q", bare.parent / "tree", "-b", "tree", cwd=bare)
    world.row("same", title="theirs", files_read=[str(bare.parent / "tree" / "a")])
    assert [row["title"] for row in world.query(two)["observations"]] == []
    assert [row["title"] for row in world.query(bare.parent / "tree")["observations"]] == ["theirs"]


def test_files_outside_any_repository_say_nothing(world: World) -> None:
    """Sessions of every repository read those: they neither make a row ours nor another's."""
    one, two = world.repository("one/same"), world.repository("two/same")
    elsewhere = world.repository("lib")
    world.row("same", title="no one's", files_read=["/etc/passwd"])
    world.row("same", title="two's", files_read=["/etc/passwd", str(two / "a")])
    world.row("same", title="a library's", files_read=[str(elsewhere / "a")])
    world.row("same", title="both's", files_read=[str(two / "a")], files_modified=[str(one / "a")])
    found = [row["title"] for row in world.query(one)["observations"]]
    assert sorted(found) == ["a library's", "both's", "no one's"]


def test_a_link_that_leads_nowhere_is_no_repository(world: World) -> None:
    """As what is left of a worktree that was moved, or of ours on another system."""
    app = world.repository("app")
    left = world.root / "left" / "app"
    left.mkdir(parents=True)
    (left / ".git").write_text(f"gitdir: {world.root}/nowhere/.git/worktrees/app\n")
    world.row("app", title="ours", files_read=[str(left / "a")])
    assert titles(world, app) == ["ours"]


@pytest.mark.parametrize(
    "path",
    [
        "/\ud800/app/a",
        "/\0/app/a",
        "/a" * MAX_BYTES,
        "/" + "a" * 300 + "/app/x",
        "/dev/null/app/x",
        "/" + "../" * 1000,
        "/" + "./" * 2000,
    ],
    ids=["surrogate", "nul", "too deep", "too long", "no folder", "above all", "nothing"],
)
def test_no_path_breaks_an_answer(path: str) -> None:
    assert Ownership(make_keys(checkouts=["/app"])).owner([path], "app") is None


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two/x")
    (tmp_path / "two").symlink_to("one/x")
    assert PathOwnership().around(f"{tmp_path}/one/a/b") == ()


def test_nothing_below_what_is_gone_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removed worktree's rows name hundreds of folders."""
    asked: list[str] = []
    lstat = os.lstat

    def noted(path: str) -> os.stat_result:
        asked.append(path)
        return lstat(path)

    ownership = PathOwnership()
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", noted)
        for number in range(100):
            assert ownership.around(f"{tmp_path}/gone/{number}/x") == ()
    assert [one for one in asked if "gone" in one] == [f"{tmp_path}/gone"]


def test_a_path_below_ours_by_its_spelling_needs_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ownership = Ownership(make_keys(checkouts=[str(tmp_path)]))
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lambda path: pytest.fail(f"looked at {path}"))
        patched.setattr(os, "stat", lambda path: pytest.fail(f"looked at {path}"))
        assert ownership.owner(["/x/app/b", f"{tmp_path}/a"], "app") is None
