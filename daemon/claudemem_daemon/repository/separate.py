"""The main checkout of a separate git directory, which git itself does not record anywhere.

Only its `.git` file or link tells, so it is searched for beside the linked worktrees and beside the git
directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

from claudemem_daemon.dependencies import file_state, is_file, real_path
from claudemem_daemon.repository.model import Repository, Worktree, main_checkout
from claudemem_daemon.repository.records import git_dir_at, layout_of
from claudemem_daemon.warning import AnswerWarning

MAX_FOLDERS: Final = 16
MAX_NEIGHBOURS: Final = 2000


def with_main(found: Repository, worktrees: Iterable[Worktree]) -> Repository:
    """`found` with the main checkout, if exactly one folder leads to the separate git directory."""
    common = found.common_dir
    if common is None or found.kind != "separate" or layout_of(common)[1] is not None:
        return found
    above = os.path.dirname(common)
    parents = (*(os.path.dirname(tree.path) for tree in worktrees), above, os.path.dirname(above))
    folders = [path for path in dict.fromkeys(parents) if path != "/"][:MAX_FOLDERS]
    markers = (marker for folder in folders for marker in _markers(folder, common))
    checkouts = {real_path(os.path.dirname(marker)) for marker in markers}
    if found.main is not None:
        if checkouts <= {found.main.path}:
            return found
        return _unproven(found, found.main.path, common)
    if len(checkouts) != 1:
        return found
    main = checkouts.pop()
    file_state(os.path.join(main, ".git"))
    return found._replace(main=main_checkout(main))


def _unproven(found: Repository, folder: str, git_dir: str) -> Repository:
    """A main checkout that another folder may be as well: only its own name counts."""
    message = (
        f"{folder}/.git leads to a git directory that does not tell whose it is: worktrees are left"
        " out; `git config core.worktree FOLDER`, run there, tells"
    )
    how = f"{folder}/.git leads to {git_dir}, which does not tell whose it is"
    warnings = (AnswerWarning("git_contradicted", message, path=folder),)
    main = main_checkout(folder)
    return Repository("separate", how, folder, None, main, warnings, (), found.cwd, found.real)


def _markers(folder: str, common: str) -> Iterator[str]:
    """The `.git` files and links, of a folder and of those in it, that lead to this git directory."""
    file_state(folder)
    try:
        names = sorted(os.listdir(folder))[:MAX_NEIGHBOURS]
    except OSError:
        return
    for name in ("", *names):
        marker = os.path.join(folder, name, ".git")
        if is_file(marker) or os.path.islink(marker):
            target = git_dir_at(marker)
            if target is not None and real_path(target) == common:
                yield marker
