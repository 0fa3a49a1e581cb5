"""The main checkout of a separate git directory, which git itself does not record anywhere.

Only its `.git` file tells, so it is looked for where people have it: beside the linked worktrees and
beside the git directory. What is found depends on what is there, not on what was asked before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state, is_file, real_path
from claudemem_daemon.repository.layout import Found, unproven
from claudemem_daemon.repository.records import git_dir_at, is_alone, layout_of

MAX_FOLDERS: Final = 16
MAX_NEIGHBOURS: Final = 2000


def with_main(found: Found, worktrees: Iterable[str]) -> tuple[Found, tuple[FileState, ...]]:
    """`found` with the main checkout as well as it can be told, and the files that tell it. Two
    folders that both lead to the git directory tell nothing."""
    common = found.common_dir
    if common is None or not _is_unsure(found):
        return found, ()
    above = os.path.dirname(common)
    parents = (*(os.path.dirname(path) for path in worktrees), above, os.path.dirname(above))
    folders = [path for path in dict.fromkeys(parents) if path != "/"][:MAX_FOLDERS]
    dependencies = tuple(file_state(folder) for folder in folders)
    markers = {marker for folder in folders for marker in _markers(folder, common)}
    checkouts = {real_path(os.path.dirname(marker)) for marker in markers}
    if found.main is not None and found.kind == "separate":
        others = checkouts - {found.main}
        return (unproven(found.main, common) if others else found), ()
    if len(checkouts) == 1:
        seen = tuple(file_state(marker) for marker in markers)
        return replace(found, kind="separate", main=checkouts.pop()), seen
    # Of a plain repository it would be the rarest of news, and each answer would have to look.
    return found, dependencies if found.kind == "separate" else ()


def _is_unsure(found: Found) -> bool:
    """Whether the files alone do not tell the main checkout."""
    if found.kind == "separate" and found.common_dir is not None:
        return layout_of(found.common_dir)[1] is None
    # Named `.git`, such a directory looks like one in a checkout, but nothing is beside it.
    linked = found.admin_dir is not None or found.top is None
    return linked and found.kind == "plain" and is_alone(found.common_dir or "")


def _markers(folder: str, common: str) -> Iterator[str]:
    """The `.git` files, of a folder and of those in it, that lead to this git directory."""
    try:
        names = sorted(os.listdir(folder))[:MAX_NEIGHBOURS]
    except OSError:
        return
    for name in ("", *names):
        marker = os.path.join(folder, name, ".git")
        if is_file(marker):
            target = git_dir_at(marker)
            if target is not None and real_path(target) == common:
                yield marker
