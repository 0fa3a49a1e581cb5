"""The linked worktrees of a repository, from `<common dir>/worktrees`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.model import Repository, Worktree, WorktreeState

MOST_WORKTREES: Final = 20_000

Links = Mapping[str, tuple[FileState, str | None]]
"""admin folder's gitdir file -> its state and its text, as last read"""


def list_worktrees(
    common_dir: str, known: Links
) -> tuple[tuple[Worktree, ...], tuple[FileState, ...], Links]:
    """All linked worktrees with their paths and names, by path; nothing of the checkouts
    themselves is touched. What `known` still vouches for is not read again."""
    folder = os.path.join(common_dir, "worktrees")
    dependencies = [file_state(folder)]
    links: dict[str, tuple[FileState, str | None]] = {}
    found: list[Worktree] = []
    try:
        names = sorted(os.listdir(folder))[:MOST_WORKTREES]
    except OSError:
        names = []
    for name in names:
        path = os.path.join(folder, name, "gitdir")
        seen = file_state(path)
        before = known.get(path)
        if before is not None and before[0] == seen and not seen.racy:
            text = before[1]
        else:
            text = gitfiles.read_line(path)
        links[path] = (seen, text)
        dependencies.append(seen)
        if text is not None:
            found.append(_worktree(name, text, os.path.dirname(path)))
    found.sort(key=lambda one: one.path)
    return tuple(found), tuple(dependencies), links


def _worktree(name: str, text: str, admin: str) -> Worktree:
    path = text
    state: WorktreeState = "ok"
    if gitfiles.is_foreign(text):
        mounted = gitfiles.from_windows(text)
        path = mounted or text.replace("\\", "/")
        state = "ok" if mounted else "unreachable"
    elif not text.startswith("/"):
        path = gitfiles.resolve(text, admin)
    path = path.rstrip("/")
    if os.path.basename(path) == ".git":
        path = os.path.dirname(path)
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
    if head is not None and head.startswith("ref:"):
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
