"""The linked worktrees of a repository, from `<common dir>/worktrees`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state, real_path
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.layout import common_dir_of, link_target
from claudemem_daemon.repository.model import Repository, Worktree, WorktreeState

MAX_WORKTREES: Final = 20_000
REFTABLE_HEAD: Final = "ref: refs/heads/.invalid"
"""What HEAD says where the refs lie in a reftable, which is not read here."""


@dataclass(frozen=True, slots=True)
class Link:
    """A `gitdir` file of an admin folder as it was last read; `worktree` is None where it is empty
    or missing."""

    state: FileState
    worktree: Worktree | None


Links = Mapping[str, Link]
"""By the path of the `gitdir` file."""


def list_worktrees(
    common_dir: str, known: Links
) -> tuple[tuple[Worktree, ...], tuple[FileState, ...], Links]:
    """All linked worktrees with their paths and names, by path. What `known` still vouches for is
    not read again."""
    folder = os.path.join(common_dir, "worktrees")
    dependencies = [file_state(folder)]
    links: dict[str, Link] = {}
    try:
        names = sorted(os.listdir(folder))[:MAX_WORKTREES]
    except OSError:
        names = []
    for name in names:
        path = os.path.join(folder, name, "gitdir")
        seen = file_state(path)
        link = known.get(path)
        if link is None or link.state != seen or seen.racy:
            text = gitfiles.read_line(path)
            link = Link(seen, _worktree(name, text, common_dir) if text is not None else None)
        links[path] = link
        dependencies.append(seen)
    found = [link.worktree for link in links.values() if link.worktree is not None]
    found.sort(key=lambda worktree: worktree.path)
    return tuple(found), tuple(dependencies), links


def _worktree(name: str, text: str, common_dir: str) -> Worktree:
    path = text
    state: WorktreeState = "ok"
    if gitfiles.is_windows(text):
        mounted = gitfiles.from_windows(text)
        path = mounted or text.replace("\\", "/")
        state = "ok" if mounted else "unreachable"
    elif not text.startswith("/"):
        path = gitfiles.resolve(text, os.path.join(common_dir, "worktrees", name))
    path = path.rstrip("/")
    if os.path.basename(path) == ".git":
        path = os.path.dirname(path)
    if state == "ok" and _is_anothers(path, common_dir):
        state = "replaced"
    leaf = os.path.basename(path)
    return Worktree(
        path=path,
        name=leaf,
        admin_id=name,
        branch=None,
        head=None,
        detached=False,
        locked=None,
        state=state,
        main=False,
        other_names=(name,) if name != leaf else (),
    )


def _is_anothers(path: str, common_dir: str) -> bool:
    """Whether the folder has a git directory that is none of this repository."""
    marker = os.path.join(path, ".git")
    git_dir = marker if os.path.isdir(marker) else link_target(marker)
    if git_dir is None or not gitfiles.is_git_dir(git_dir):
        return False
    real = real_path(git_dir)
    own = real.startswith(common_dir + "/worktrees/")
    return not own and not gitfiles.same_folder(common_dir_of(real), common_dir)


def details(repository: Repository) -> Repository:
    """The same repository with branch, head, lock and state of every checkout: for people, and
    nothing that an answer depends on, so it is read only when asked for."""
    common = repository.common_dir
    if common is None:
        return repository
    main = repository.main
    filled = {
        one.path: _detailed(one, os.path.join(common, "worktrees", one.admin_id or ""), common)
        for one in repository.worktrees
    }
    if main is not None:
        main = filled[main.path] = _detailed(main, common, common)
    current = repository.current
    return replace(
        repository,
        main=main,
        worktrees=tuple(filled[one.path] for one in repository.worktrees),
        current=filled.get(current.path) if current is not None else None,
    )


def _detailed(one: Worktree, git_dir: str, common: str) -> Worktree:
    head = gitfiles.read_line(os.path.join(git_dir, "HEAD"))
    branch: str | None = None
    commit = head
    if head == REFTABLE_HEAD:
        head = commit = None
    elif head is not None and head.startswith("ref:"):
        ref = head.removeprefix("ref:").strip()
        branch = ref.removeprefix("refs/heads/")
        commit = gitfiles.read_line(os.path.join(common, ref)) or _packed(common, ref)
    locked = None
    if not one.main and os.path.lexists(os.path.join(git_dir, "locked")):
        locked = gitfiles.read_line(os.path.join(git_dir, "locked")) or ""
    state = one.state
    if state == "ok" and not os.path.lexists(os.path.join(one.path, ".git")):
        state = "missing"
    return replace(
        one,
        branch=branch,
        head=commit,
        detached=head is not None and branch is None,
        locked=locked,
        state=state,
    )


def _packed(common: str, ref: str) -> str | None:
    wanted = b" " + os.fsencode(ref) + b"\n"
    try:
        with open(os.path.join(common, "packed-refs"), "rb") as file:
            for line in file:
                if line.endswith(wanted):
                    return line[: -len(wanted)].decode("ascii", "replace")
    except OSError:
        return None
    return None
