"""Worktrees that assistants make: Codex in `~/.codex/worktrees/<hex>/<repository>`, Claude Code in
`<repository>/.claude/worktrees/<name>`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cases.world import World
from tests.support.daemon import run_to_end


@pytest.fixture
def shop(world: World) -> Path:
    return world.repository("shop")


def codex(world: World, shop: Path, number: str) -> Path:
    path = world.home / ".codex" / "worktrees" / number / "shop"
    world.git("worktree", "add", "-q", "--detach", path, cwd=shop)
    return path


def scope(world: World, value: str) -> None:
    world.settings({"CLAUDE_MEM_DAEMON_SCOPE": value})
    world.daemon.post("/v1/reload", {})


def test_codex_worktrees_have_names_that_tell_them_apart(world: World, shop: Path) -> None:
    first, second = (codex(world, shop, number) for number in ("ab12", "cd34"))
    world.row("shop/shop", title="row")
    world.row("shop", title="main")
    for path, title in ((first, "# [shop/ab12]"), (second, "# [shop/cd34]"), (shop, "# [shop]")):
        assert world.context(path).startswith(title)
        assert sorted(world.titles(path)) == ["main", "row"]
    # The row was written here, as far as can be told; the other one is the main checkout's.
    assert "[shop] main" in world.context(first)
    assert "] row" not in world.context(first)


def test_scope_self_in_a_codex_worktree_is_its_rows_alone(world: World, shop: Path) -> None:
    first, second = (codex(world, shop, number) for number in ("ab12", "cd34"))
    gone = codex(world, shop, "ef56")
    shutil.rmtree(gone)
    world.git("worktree", "prune", cwd=shop)
    world.row("shop", title="main")
    for name, folder in (("first", first), ("second", second), ("gone", gone), ("read main", shop)):
        world.row("shop/shop", title=name, session=name, files_read=[str(folder / "a.py")])
        world.row("shop/shop", title=f"{name}, no files", session=name)
        world.summary("shop/shop", request=name, session=name)
    world.row("shop/shop", title="both", files_read=[str(shop / "a")], files_modified=[str(first)])
    plain = [f"{name}, no files" for name in ("first", "gone", "read main", "second")]
    scope(world, "self")
    assert sorted(world.titles(first)) == sorted(["both", "first", *plain])
    assert sorted(world.titles(second)) == sorted(["second", *plain])
    assert [row["request"] for row in world.query(first)["summaries"]] == ["first"]
    assert world.titles(shop) == ["main"]
    scope(world, "parent")
    assert sorted(world.titles(first)) == sorted(["both", "first", "main", "read main", *plain])
    scope(world, "all")
    assert len(world.titles(first)) == 10


def test_scope_self_in_a_claude_code_worktree_is_its_rows_alone(world: World, shop: Path) -> None:
    tree = shop / ".claude" / "worktrees" / "brave-otter"
    world.git("worktree", "add", "-q", tree, "-b", "worktree-brave-otter", cwd=shop)
    (tree / "src").mkdir()
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": {"shop": ["store"]}})
    for key in ("shop", "store", "shop/brave-otter", "store/brave-otter", "shop/other"):
        world.row(key, title=key, files_read=[str(tree / "a"), str(shop / "a")])
    assert len(world.titles(tree)) == 5
    world.settings(
        {"CLAUDE_MEM_DAEMON_ALIASES": {"shop": ["store"]}, "CLAUDE_MEM_DAEMON_SCOPE": "self"}
    )
    world.daemon.post("/v1/reload", {})
    for cwd in (tree, tree / "src"):
        assert world.context(cwd).startswith("# [shop/brave-otter]")
        assert sorted(world.titles(cwd)) == ["shop/brave-otter", "store/brave-otter"]
    done = run_to_end(world.daemon.environ, "worktrees", "--json", "--cwd", str(tree))
    lines = {line["path"]: line for line in json.loads(done.stdout)["worktrees"]}
    keys = [key["key"] for key in lines[str(tree)]["keys"]]
    assert keys == ["shop/brave-otter", "store/brave-otter", "brave-otter"]


def test_labels_tell_a_worktree_from_its_repository(world: World, shop: Path) -> None:
    tree = shop / ".claude" / "worktrees" / "brave-otter"
    world.git("worktree", "add", "-q", tree, "-b", "worktree-brave-otter", cwd=shop)
    first = codex(world, shop, "ab12")
    world.row("shop", title="main row")
    world.row("shop/shop", title="codex row")
    world.row("shop/brave-otter", title="claude row")
    text = world.context(shop)
    assert "[worktree shop] codex row" in text
    assert "[brave-otter] claude row" in text
    assert "] main row" not in text
    text = world.context(first)
    assert "[shop] main row" in text
    assert "[brave-otter] claude row" in text
    assert "] codex row" not in text
    assert "[worktree shop] codex row" in world.context(tree)


def test_worktrees_of_one_leaf_are_told_by_the_folder_around_them(world: World, shop: Path) -> None:
    for parent in ("one", "two"):
        world.git("worktree", "add", "-q", "--detach", world.root / parent / "dev", cwd=shop)
    assert world.context(world.root / "one" / "dev").startswith("# [shop/one/dev]")


def test_an_excluded_worktrees_rows_under_an_older_name_are_left_out(
    world: World, shop: Path
) -> None:
    world.git("worktree", "add", "-q", "--detach", world.root / "tree", cwd=shop)
    world.row("store/tree", title="excluded")
    world.row("store", title="main")
    world.settings(
        {
            "CLAUDE_MEM_DAEMON_ALIASES": {"shop": ["store"]},
            "CLAUDE_MEM_EXCLUDED_PROJECTS": str(world.root / "tree"),
        }
    )
    world.daemon.post("/v1/reload", {})
    assert world.titles(shop) == ["main"]
