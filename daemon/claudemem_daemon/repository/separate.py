"""The main checkout of a separate git directory, which git itself does not record anywhere.

Only its `.git` file tells, so it is looked for where people have it: beside the linked worktrees and
beside the git directory. What is found depends on what is there, not on what was asked before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.repository.layout import Found, link_target

MOST_FOLDERS: Final = 16
MOST_NEIGHBOURS: Final = 2000


def with_main(found: Found, worktrees: Iterable[str]) -> tuple[Found, tuple[FileState, ...]]:
    """`found` with the main checkout as well as it can be told, and what was looked at for it."""
    if not _unsure(found):
        return found, ()
    common = found.common_dir
    dependencies: list[FileState] = []
    above = os.path.dirname(common)
    around = (*(os.path.dirname(one) for one in worktrees), above, os.path.dirname(above))
    folders = [one for one in dict.fromkeys(around) if one != "/"]
    for folder in islice(folders, MOST_FOLDERS):
        dependencies.append(file_state(folder))
        for marker in _markers(folder):
            target, _ = link_target(marker)
            if target is not None and os.path.realpath(target) == common:
                checkout = os.path.dirname(marker)
                return replace(found, kind="separate", main=checkout), (file_state(marker),)
    # Of a plain repository it would be the rarest of news, and each answer would have to look.
    return found, tuple(dependencies) if found.kind == "separate" else ()


def _unsure(found: Found) -> bool:
    """Whether the files alone do not tell: the walk did not come by the main checkout."""
    if found.admin_dir is None and found.top is not None:
        return False
    if found.main is None:
        return found.kind == "separate"
    # Named `.git`, such a directory looks like one in a checkout, but for that nothing is beside it.
    return found.kind == "plain" and _alone(found.common_dir)


def _alone(git_dir: str) -> bool:
    try:
        with os.scandir(os.path.dirname(git_dir)) as entries:
            return len(list(islice(entries, 2))) == 1
    except OSError:
        return False


def _markers(folder: str) -> Iterator[str]:
    """The `.git` files of a folder and of those in it."""
    try:
        names = sorted(os.listdir(folder))[:MOST_NEIGHBOURS]
    except OSError:
        return
    for name in ("", *names):
        marker = os.path.join(folder, name, ".git")
        if os.path.isfile(marker):
            yield marker
