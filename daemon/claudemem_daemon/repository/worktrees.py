"""The linked worktrees of a repository, from `<common dir>/worktrees`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import (
    Dependency,
    FileState,
    WatchedFiles,
    file_state,
    real_path,
    something_at,
)
from claudemem_daemon.notices import Group
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.model import Repository, Worktree, linked_worktree
from claudemem_daemon.repository.records import common_dir_of, git_dir_at

MAX_WORKTREES: Final = 20_000
REFTABLE_HEAD: Final = "ref: refs/heads/.invalid"
"""What HEAD says where the refs lie in a reftable, which is not read here."""


class Link(NamedTuple):
    """A `gitdir` file of an admin folder as it was last read; `worktree` is None where it is empty
    or missing. `marker` is the `.git` of the worktree, by which it is this repository's."""

    state: FileState
    worktree: Worktree | None
    marker: FileState | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The linked worktrees of one repository, by path, and their links by the path of each
    `gitdir` file; `group` where the kernel watches those files."""

    worktrees: tuple[Worktree, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    links: Mapping[str, Link] = field(default_factory=dict)
    group: Group | None = None

    def watched(self, group: Group) -> Listing:
        """The same, depending on the group instead of on each file."""
        files = WatchedFiles(tuple(link.state for link in self.links.values()), group)
        return replace(self, dependencies=(self.dependencies[0], files), group=group)


def list_worktrees(common_dir: str, known: Mapping[str, Link]) -> Listing:
    """Links in `known` that have not changed are not read again."""
    folder = os.path.join(common_dir, "worktrees")
    dependencies = [file_state(folder)]
    links: dict[str, Link] = {}
    names: list[str] = []
    with suppress(OSError):
        names = sorted(os.listdir(folder))[:MAX_WORKTREES]
    for name in names:
        path = os.path.join(folder, name, "gitdir")
        link = known.get(path)
        if link is None or not link.state.holds():
            state, text = file_state(path), gitfiles.read_line(path)
            worktree = _worktree(name, text, common_dir) if text is not None else None
            local = worktree is not None and worktree.state != "unreachable"
            marker = file_state(f"{worktree.path}/.git") if worktree is not None and local else None
            link = Link(state, worktree, marker)
        links[path] = link
        dependencies.append(link.state)
    found = [link.worktree for link in links.values() if link.worktree is not None]
    found.sort(key=lambda worktree: worktree.path)
    return Listing(tuple(found), tuple(dependencies), links)


def _worktree(name: str, text: str, common_dir: str) -> Worktree:
    here = gitfiles.on_this_system(text)
    path = here or text.replace("\\", "/")
    if not path.startswith("/") and here is not None:
        path = gitfiles.resolve(path, os.path.join(common_dir, "worktrees", name))
    path = path.rstrip("/")
    if os.path.basename(path) == ".git":
        path = os.path.dirname(path)
    worktree = linked_worktree(path, name, name)
    if here is None:
        return worktree._replace(state="unreachable")
    if _is_anothers(path, common_dir):
        return worktree._replace(state="replaced")
    return worktree


def _is_anothers(path: str, common_dir: str) -> bool:
    """Whether the folder has a git directory that is none of this repository."""
    git_dir = git_dir_at(os.path.join(path, ".git"))
    own = common_dir + "/worktrees/"
    if git_dir is None or git_dir.startswith(own):
        return False
    if not (gitfiles.is_git_dir(git_dir) or gitfiles.is_of_worktree(git_dir)):
        return False
    real = real_path(git_dir)
    return not real.startswith(own) and not gitfiles.same_folder(common_dir_of(real), common_dir)


def details(repository: Repository) -> Repository:
    """The same repository with branch, head, lock and state of every checkout. For people: no answer
    depends on it."""
    common = repository.common_dir
    if common is None:
        return repository
    main = repository.main
    filled = {
        worktree.path: _detailed(
            worktree, os.path.join(common, "worktrees", worktree.admin_id or "")
        )
        for worktree in repository.worktrees
    }
    if main is not None:
        main = filled[main.path] = _detailed(main, common)
    current = repository.current
    return repository._replace(
        main=main,
        worktrees=tuple(filled[worktree.path] for worktree in repository.worktrees),
        current=filled.get(current.path) if current is not None else None,
    )


def _detailed(worktree: Worktree, git_dir: str) -> Worktree:
    head = gitfiles.read_line(os.path.join(git_dir, "HEAD"))
    branch: str | None = None
    if head == REFTABLE_HEAD:
        head = None
    elif head is not None and head.startswith("ref:"):
        branch = head.removeprefix("ref:").strip().removeprefix("refs/heads/")
        head = None
    locked = None
    if not worktree.main and something_at(os.path.join(git_dir, "locked")):
        locked = gitfiles.read_line(os.path.join(git_dir, "locked")) or ""
    state = worktree.state
    if state == "ok" and not something_at(os.path.join(worktree.path, ".git")):
        state = "missing"
    return worktree._replace(branch=branch, head=head, locked=locked, state=state)
