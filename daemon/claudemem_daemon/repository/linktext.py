"""What the text of a worktree's link says where the git directory it names is not there. Pure.

In a container, behind a drive that is not mounted, or after `git worktree prune` the link is all
that is left, and claude-mem names rows by it: `<main checkout>/.git/worktrees/<worktree>`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.repository.gitfiles import is_windows

_LINK: Final = re.compile(r"(.*[^/])/+worktrees/+([^/]+)/*", re.DOTALL)
JJ_STORE: Final = "/.jj/repo/store/git"


@dataclass(frozen=True, slots=True)
class LinkText:
    main: str
    """The main checkout, or what stands for it; not to be looked at: a link can name any folder."""
    project: str
    """P of the contract."""
    worktree_id: str


def read_link_text(target: str) -> LinkText | None:
    """None where the link names no worktree, or a repository without a name."""
    match = _LINK.fullmatch(target.replace("\\", "/") if is_windows(target) else target)
    if match is None:
        return None
    common, worktree_id = match.groups()
    main = main_folder(common)
    name = os.path.basename(main)
    project = name.removesuffix(".git") if main == common else name
    return LinkText(main, project, worktree_id) if project else None


def main_folder(common_dir: str) -> str:
    """The folder that a git directory's own path says it belongs to: around `.git`, `.bare` and a
    jj repository's store; a bare repository itself."""
    if common_dir.endswith(JJ_STORE):
        return common_dir.removesuffix(JJ_STORE)
    hidden = os.path.basename(common_dir).startswith(".")
    return os.path.dirname(common_dir) if hidden else common_dir
