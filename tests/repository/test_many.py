"""A thousand worktrees are watched by the kernel, and every change among them is seen at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from claudemem_daemon.dependencies import WatchedFiles, all_hold, file_state
from claudemem_daemon.repository.resolver import MANY_WORKTREES, Repositories
from tests.repository.layouts import write_repository, write_worktree
from tests.support.daemon import eventually

COUNT = MANY_WORKTREES + 6


@pytest.fixture
def main(tmp_path: Path) -> Path:
    main = tmp_path / "app"
    write_repository(main, COUNT)
    return main


def names(repositories: Repositories, main: Path) -> set[str]:
    return {one.name for one in repositories.resolve(str(main)).worktrees}


def test_every_kind_of_change_is_in_the_next_answer(main: Path) -> None:
    repositories = Repositories(None)
    expected = {f"w{number}" for number in range(COUNT)}
    assert names(repositories, main) == expected
    # In place and of equal length, as `git worktree move` writes it.
    link = main / ".git" / "worktrees" / "w7" / "gitdir"
    link.write_text(f"{main.parent}/x7/.git\n")
    expected = expected - {"w7"} | {"x7"}
    assert names(repositories, main) == expected
    fresh = link.with_name("new")
    fresh.write_text(f"{main.parent}/y7/.git\n")
    fresh.replace(link)
    expected = expected - {"x7"} | {"y7"}
    assert names(repositories, main) == expected
    write_worktree(main, "later")
    expected |= {"later"}
    assert names(repositories, main) == expected
    gone = main / ".git" / "worktrees" / "w3"
    (gone / "gitdir").unlink()
    expected -= {"w3"}
    assert names(repositories, main) == expected
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    assert names(repositories, main) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_an_unchanged_list_is_one_look(main: Path) -> None:
    repository = Repositories(None).resolve(str(main))
    groups = [one for one in repository.dependencies if isinstance(one, WatchedFiles)]
    assert [len(one.members) for one in groups] == [COUNT]
    assert groups[0].group.unchanged()
    # What an agent does in its worktree all day is no change of the list.
    (main / ".git" / "worktrees" / "w1" / "HEAD").write_text("ref: refs/heads/x\n")
    assert groups[0].group.unchanged()
    os.utime(main / ".git" / "worktrees" / "w1" / "gitdir")
    assert not groups[0].group.unchanged()
    assert not all_hold(groups)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_list_that_was_made_again_gives_its_watches_back(main: Path) -> None:
    """Also where answers for other folders still depend on the earlier list: a user has few
    inotify instances."""
    repositories = Repositories(None)

    def watched() -> int:
        links = (os.path.realpath(entry.path) for entry in os.scandir("/proc/self/fd"))
        return sum("inotify" in link for link in links)

    before = watched()
    for number in range(3):
        repositories.resolve(str(main.parent / f"w{number}"))
        write_worktree(main, f"new{number}")
    assert f"new{number}" in names(repositories, main)
    assert watched() == before + 1


def test_a_folder_that_another_repository_took_is_told_when_the_list_changes(main: Path) -> None:
    repositories = Repositories(None)
    tree = main.parent / "w5"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/w5\n")

    def replaced() -> list[str]:
        trees = repositories.resolve(str(main)).worktrees
        return [one.name for one in trees if one.state == "replaced"]

    link = main / ".git" / "worktrees" / "w5" / "gitdir"
    eventually(lambda: not file_state(str(link)).racy, "the link is remembered")
    assert replaced() == []
    (tree / ".git").unlink()
    write_repository(tree, 0)
    write_worktree(main, "later")
    assert replaced() == ["w5"]
