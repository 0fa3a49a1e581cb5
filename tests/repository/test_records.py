"""Where a link and the repository's own record of it disagree, the record decides."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from claudemem_daemon.repository.resolver import Repositories
from tests.repository.layouts import git


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository `main` with a worktree `tree` beside it."""
    main = tmp_path / "main"
    git("init", "-q", bytes(main), cwd=bytes(tmp_path))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(main))
    git("worktree", "add", "-q", bytes(tmp_path / "tree"), cwd=bytes(main))
    return main


def test_a_copy_of_a_worktree_is_a_folder_of_its_own(main: Path) -> None:
    tree, copy = main.parent / "tree", main.parent / "copy"
    shutil.copytree(tree, copy)
    repositories = Repositories(None)
    found = repositories.resolve(str(copy))
    assert (found.kind, found.name, found.worktrees) == ("none", "copy", ())
    assert [warning.code for warning in found.warnings] == ["git_contradicted"]
    shutil.rmtree(tree)
    found = repositories.resolve(str(copy))
    assert (found.kind, found.name, found.warnings) == ("plain", "main", ())


def test_a_worktree_moved_by_hand_is_its_repositorys(main: Path) -> None:
    (main.parent / "tree").rename(main.parent / "moved")
    repositories = Repositories(None)
    found = repositories.resolve(str(main.parent / "moved"))
    assert (found.kind, found.name, found.warnings) == ("plain", "main", ())
    # A new worktree in its place takes its record over.
    git("worktree", "add", "-q", "-f", "-b", "new", bytes(main.parent / "tree"), cwd=bytes(main))
    assert repositories.resolve(str(main.parent / "moved")).name == "moved"
    assert repositories.resolve(str(main.parent / "tree")).name == "main"


@pytest.mark.parametrize("linked", [False, True], ids=["main checkout", "linked worktree"])
def test_a_listed_folder_that_another_repository_has_is_no_worktree(
    main: Path, *, linked: bool
) -> None:
    tree, other = main.parent / "tree", main.parent / "other"
    shutil.rmtree(tree)
    git("init", "-q", bytes(other if linked else tree), cwd=bytes(main.parent))
    if linked:
        git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(other))
        git("worktree", "add", "-q", bytes(tree), cwd=bytes(other))
    (worktree,) = Repositories(None).resolve(str(main)).worktrees
    assert (worktree.name, worktree.state) == ("tree", "replaced")


def test_two_dots_behind_a_link_lead_where_the_system_goes(main: Path) -> None:
    (main / "src").mkdir()
    (main.parent / "link").symlink_to(main / "src")
    found = Repositories(None).resolve(f"{main.parent}/link/../")
    assert (found.kind, found.top) == ("plain", str(main))
