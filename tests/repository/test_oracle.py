"""The resolver reads what git means: random layouts, step by step, against git itself."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from claudemem_daemon.repository.model import Repository
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.repository.worktrees import details
from tests.repository.layouts import BASES, Base, Layout, git_says

STEPS = sorted(Layout(b"", "plain").steps)

steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40)), min_size=6, max_size=14)


@pytest.mark.parametrize("base", BASES)
@settings(settings.get_profile(os.environ.get("CLAUDEMEM_LAYOUTS", "layouts")))
@given(taken=steps)
@example([("rename", 20), ("relative_link", 19), ("add", 6), ("prune", 28), ("add_nested", 27)])
def test_every_layout_is_what_git_says_it_is(base: Base, taken: list[tuple[str, int]]) -> None:
    """Each step is a layout of its own: about 550 of them in all, and 14,000 with
    CLAUDEMEM_LAYOUTS='many layouts', asked from up to four folders each. One resolver lives through
    all steps of an example, so its memory is tested with it."""
    with tempfile.TemporaryDirectory(prefix="cm-") as folder:
        root = os.fsencode(os.path.realpath(folder))
        layout = Layout(root, base)
        layout.build()
        remembering = Repositories(None)
        check(layout.here, remembering)
        for step, choice in (("add", 1), *taken):
            layout.steps[step](choice)
            for cwd in layout.cwds(choice):
                check(cwd, remembering)


def check(cwd: bytes, remembering: Repositories) -> None:
    said_by_git = git_says(cwd)
    repository = remembering.resolve(os.fsdecode(cwd))
    if said_by_git is None:
        assert repository.kind in ("none", "unreachable")
        assert repository.common_dir is None
        return
    listed, common, top = said_by_git
    if taken_over(top, [one.path for one in listed]):
        # Git takes the folder's word; we take the record's, which names the folder that links back.
        assert [one.code for one in repository.warnings] == ["git_contradicted"]
        assert repository.common_dir is None
        return
    fresh = Repositories(None).resolve(os.fsdecode(cwd))
    assert repository.common_dir == fresh.common_dir == common
    assert (repository.top or "") == top
    assert {one.path for one in repository.worktrees} == {one.path for one in fresh.worktrees}
    current = repository.current
    ours = {one.admin_id: one for one in details(repository).worktrees}
    theirs = {one.path: one for one in listed[1:]}
    for one in ours.values():
        # A worktree that was moved by hand is where its own link is; git lists the former place.
        moved = current is not None and one.admin_id == current.admin_id and one.path == top
        if one.path not in theirs and moved:
            continue
        said = theirs.pop(one.path)
        assert (one.branch, one.head, one.locked) == (said.branch, said.head, said.locked)
        if said.prunable:
            assert one.state == "missing"
    assert not theirs or (current is not None and len(theirs) == 1), theirs
    main_is_right(repository, listed[0].path, listed[0].bare)
    if top:
        assert current is not None
        assert current.path == top


def taken_over(top: str, listed: list[str]) -> bool:
    """Whether a new worktree has the git directory of one that was moved by hand."""
    mine = git_dir_of(top)
    return top not in listed and mine is not None and mine in map(git_dir_of, listed)


def git_dir_of(path: str) -> str | None:
    """Where the `.git` file of a checkout leads, whether it says so from the root or from there."""
    link = Path(path, ".git")
    if not link.is_file():
        return None
    target = os.fsdecode(link.read_bytes().removeprefix(b"gitdir: ").rstrip(b"\n"))
    return os.path.realpath(os.path.join(path, target))


def main_is_right(repository: Repository, first: str, bare: bool) -> None:
    """git's first entry is the main checkout, but for a separate git dir, where it is the dir."""
    if bare:
        assert repository.main is None
        assert os.path.realpath(first) == repository.common_dir
    elif repository.kind == "plain":
        assert repository.main is not None
        assert repository.main.path == first
    elif repository.main is not None:
        assert os.path.realpath(first) in (repository.common_dir, repository.main.path)
