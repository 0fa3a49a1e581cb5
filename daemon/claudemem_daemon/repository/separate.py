"""The main checkout of a separate git directory, which git itself does not record anywhere.

Only its `.git` file tells, so it is looked for where people have it: beside the linked worktrees and
beside the git directory. What is found depends on what is there, not on what was asked before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from claudemem_daemon.dependencies import file_state, is_file, real_path
from claudemem_daemon.repository.layout import Found, unproven
from claudemem_daemon.repository.records import git_dir_at

MAX_FOLDERS: Final = 16
MAX_NEIGHBOURS: Final = 2000


def with_main(found: Found, worktrees: Iterable[str]) -> Found:
    """`found` with the main checkout as well as it can be told, and the files that tell it. Two
    folders that both lead to the git directory tell nothing."""
    common = found.common_dir
    if common is None or not found.unsure:
        return found
    above = os.path.dirname(common)
    parents = (*(os.path.dirname(path) for path in worktrees), above, os.path.dirname(above))
    folders = [path for path in dict.fromkeys(parents) if path != "/"][:MAX_FOLDERS]
    looked_at = tuple(file_state(folder) for folder in folders)
    markers = {marker for folder in folders for marker in _markers(folder, common)}
    checkouts = {real_path(os.path.dirname(marker)) for marker in markers}
    if found.main is not None and found.kind == "separate":
        if checkouts <= {found.main}:
            return found
        return replace(
            unproven(found.main, common), dependencies=found.dependencies, real=found.real
        )
    main = found.main
    if len(checkouts) == 1:
        looked_at, main = tuple(file_state(marker) for marker in markers), checkouts.pop()
    elif found.kind != "separate":
        # Of a plain repository it would be the rarest of news, and each answer would have to look.
        return found
    dependencies = (*found.dependencies, *looked_at)
    return replace(found, kind="separate", main=main, dependencies=dependencies)


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
