"""What was no repository when it was looked at may be one at the next look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from claudemem_daemon.dependencies import file_state
from claudemem_daemon.repository.resolver import Repositories
from tests.repository.layouts import git
from tests.support.daemon import eventually


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A linked worktree whose `.git` file nobody has touched for a while."""
    main, made = tmp_path / "main", tmp_path / "tree"
    git("init", "-q", bytes(main), cwd=bytes(tmp_path))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(main))
    git("worktree", "add", "-q", bytes(made), cwd=bytes(main))
    eventually(lambda: not file_state(str(made / ".git")).racy, "the link has settled")
    return made


def test_a_git_directory_that_comes_back_is_seen(tree: Path) -> None:
    """As behind a disk that is mounted late: the link to it is what it always was."""
    away = tree.parent / "main-away"
    remembering = Repositories(None)
    (tree.parent / "main").rename(away)
    gone = remembering.resolve(str(tree))
    assert (gone.kind, gone.warnings[0].code) == ("unreachable", "git_unreadable")
    away.rename(tree.parent / "main")
    assert remembering.resolve(str(tree)).name == "main"


@pytest.fixture
def in_the_open() -> Iterator[Path]:
    """A folder that another user can reach, as pytest's cannot be."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_git_directory_that_may_not_be_looked_into_is_not_called_gone(in_the_open: Path) -> None:
    main, made = in_the_open / "main", in_the_open / "tree"
    git("init", "-q", bytes(main), cwd=bytes(in_the_open))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(main))
    git("worktree", "add", "-q", bytes(made), cwd=bytes(main))
    user = os.geteuid()
    for closed in (".git", ".git/worktrees", ".git/worktrees/tree"):
        os.chmod(main / closed, 0)
        if user == 0:
            os.seteuid(65534)  # root may look everywhere
        try:
            found = Repositories(None).resolve(str(made))
        finally:
            os.seteuid(user)
            os.chmod(main / closed, 0o755)
        assert found.kind == "unreachable"
        assert "may not be looked into: answered by" in found.warnings[0].message
        assert "chmod -R a+rX .git" in found.warnings[0].message


def test_a_folder_that_becomes_a_bare_repository_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "shop.git"
    folder.mkdir()
    remembering = Repositories(None)
    assert remembering.resolve(str(folder)).kind == "none"
    git("init", "-q", "--bare", bytes(folder), cwd=bytes(tmp_path))
    assert remembering.resolve(str(folder)).kind == "bare"
