"""An excluded project is excluded by every name of its folder; a mapped store likewise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.world import World
from tests.support.stores import add_observation, make_store

NFC, NFD = "caf\u00e9", "cafe\u0301"


def is_silent(world: World, cwd: str | Path) -> bool:
    answer = world.query(cwd)
    excluded = "excluded" in [one["code"] for one in answer["warnings"]]
    assert excluded is (answer["observations"] == [])
    assert excluded is (world.context(cwd) == "")
    return excluded


def exclude(world: World, pattern: object) -> None:
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": str(pattern)})
    world.daemon.post("/v1/reload", {})


@pytest.fixture
def secret(world: World) -> Path:
    """A repository with a worktree, and links to and around it: `work` -> `disk`, `link` ->
    `hop` -> `disk/secret`."""
    for key in ("secret", "secret/tree", "app"):
        world.row(key, title=key)
    main = world.repository("disk/secret")
    world.git("worktree", "add", "-q", world.root / "tree", cwd=main)
    (main / "src").mkdir()
    (world.root / "work").symlink_to("disk")
    (world.root / "hop").symlink_to(main)
    (world.root / "link").symlink_to("hop")
    world.repository("app")
    return main


@pytest.mark.parametrize(
    "pattern",
    [
        "disk/secret",
        "work/secret/**",
        "work/sec*",
        "work",
        "link",
        "hop/**",
        "l?nk",
        "*/secret",
        "**/secret",
        "wor*/secret",
    ],
)
def test_every_spelling_excludes_every_spelling(world: World, secret: Path, pattern: str) -> None:
    exclude(world, world.root / pattern)
    spelled = ["disk/secret", "work/secret", "link", "hop", "disk/secret/src", "link/src", "tree"]
    assert [name for name in spelled if not is_silent(world, world.root / name)] == []
    assert not is_silent(world, world.root / "app")


@pytest.mark.parametrize("pattern", ["hop", "link", "secret", "work/secret"])
def test_a_pattern_from_any_folder_on_knows_the_links_of_the_path(
    world: World, secret: Path, pattern: str
) -> None:
    """A link that the path does not come by cannot be known to such a pattern."""
    exclude(world, pattern)
    assert is_silent(world, world.root / (pattern if "/" in pattern else "link"))


def test_a_link_that_comes_later_counts_at_once(world: World, secret: Path) -> None:
    exclude(world, world.root / "later")
    assert not is_silent(world, secret)
    (world.root / "later").symlink_to(secret)
    assert is_silent(world, secret)
    (world.root / "later").unlink()
    assert not is_silent(world, secret)
    exclude(world, f"{world.root}/later*/**")
    (world.root / "later-on").symlink_to(secret)
    assert is_silent(world, secret)


@pytest.mark.parametrize(("folder", "typed"), [(NFC, NFD), (NFD, NFC)])
def test_either_unicode_form_excludes_the_other(world: World, folder: str, typed: str) -> None:
    world.row(folder, title="row")
    main = world.repository(folder)
    for pattern in (world.root / typed, typed, f"**/{typed}/**", "caf?"):
        exclude(world, pattern)
        assert is_silent(world, main)


def test_an_excluded_worktree_is_left_out_by_any_name(world: World, secret: Path) -> None:
    (world.root / "w").symlink_to("tree")
    exclude(world, world.root / "w")
    assert is_silent(world, world.root / "tree")
    assert world.titles(secret) == ["secret"]


def test_a_bare_repository_excludes_its_worktrees(world: World, secret: Path) -> None:
    world.row("shop", title="row")
    world.git("clone", "-q", "--bare", secret, world.root / "shop.git")
    world.git("worktree", "add", "-q", world.root / "far", cwd=world.root / "shop.git")
    exclude(world, world.root / "shop.git")
    assert is_silent(world, world.root / "far")


def test_a_worktree_whose_git_directory_is_gone_is_excluded_by_its_link(
    world: World, secret: Path
) -> None:
    exclude(world, secret)
    secret.rename(world.root / "elsewhere")
    assert is_silent(world, world.root / "tree")


def test_a_copy_of_an_excluded_worktree_is_excluded(world: World, secret: Path) -> None:
    world.row("copy", title="row")
    exclude(world, secret)
    copy = world.root / "copy"
    copy.mkdir()
    (copy / ".git").write_text((world.root / "tree" / ".git").read_text())
    assert is_silent(world, copy)


@pytest.mark.skipif(sys.platform != "linux", reason="bind mounts are Linux's")
def test_a_bind_mount_is_a_name_of_the_folder(world: World, secret: Path) -> None:
    bound = world.root / "bound"
    bound.mkdir()
    if subprocess.run(["mount", "--bind", secret, bound], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        exclude(world, bound)
        assert is_silent(world, secret)
        assert is_silent(world, bound)
    finally:
        subprocess.run(["umount", bound], check=True)


@pytest.mark.parametrize("key", ["work/secret", "link", "w*k/secret", "work/*"])
def test_a_store_is_mapped_by_any_name(world: World, secret: Path, key: str) -> None:
    other = make_store(world.root / "other.db")
    add_observation(other, project="secret", title="mapped")
    world.settings({"CLAUDE_MEM_DAEMON_STORES": {f"{world.root}/{key}": other}})
    world.daemon.post("/v1/reload", {})
    for cwd in (secret, world.root / "tree"):
        assert sorted(world.titles(cwd)) == ["mapped", "secret", "secret/tree"]
    assert world.titles(world.root / "app") == ["app"]


@pytest.mark.parametrize("layout", ["bare", "dot_bare", "unreachable", "excluded"])
def test_a_store_is_mapped_by_the_folder_of_a_repository_without_a_main_checkout(
    world: World, secret: Path, layout: str
) -> None:
    folder = world.root / ("shop" if layout == "dot_bare" else "shop.git")
    common = folder / ".bare" if layout == "dot_bare" else folder
    world.git("clone", "-q", "--bare", secret, common)
    world.git("worktree", "add", "-q", world.root / "far", cwd=common)
    if layout == "unreachable":
        common.rename(world.root / "elsewhere")
    other = make_store(world.root / "other.db")
    add_observation(other, project="shop", title="mapped")
    settings: dict[str, object] = {"CLAUDE_MEM_DAEMON_STORES": {str(folder): other}}
    if layout == "excluded":
        settings["CLAUDE_MEM_EXCLUDED_PROJECTS"] = str(folder)
    world.settings(settings)
    world.daemon.post("/v1/reload", {})
    assert world.titles(world.root / "far") == ["mapped"] * (layout != "excluded")
    assert not (layout == "excluded" and world.query(world.root / "far")["stores"])


def test_a_store_is_mapped_by_either_unicode_form(world: World) -> None:
    other = make_store(world.root / "other.db")
    add_observation(other, project=NFD, title="mapped")
    main = world.repository(NFD)
    world.settings({"CLAUDE_MEM_DAEMON_STORES": {os.fspath(world.root / NFC): other}})
    world.daemon.post("/v1/reload", {})
    assert world.titles(main) == ["mapped"]
