"""What the files of a git directory, and links to it, tell of its checkouts."""

from __future__ import annotations

import os
import re
from typing import Final

from claudemem_daemon.dependencies import is_folder, real_path, something_at
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.gitfiles import is_windows, same_folder
from claudemem_daemon.repository.model import Kind, LinkText

_LINK: Final = re.compile(r"(.*[^/])/+worktrees/+([^/]+)/*", re.DOTALL)
JJ_STORE: Final = "/.jj/repo/store/git"
OF_THE_FOLDER_AROUND: Final = (".git", ".bare")
"""Names of a git directory that is called by the folder around it. Another hidden one, as dotfiles are
kept in (`.dotfiles`), is a repository like any."""


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
    """The folder of a git directory by its path: that around `.git`, `.bare` and a jj repository's
    store; a bare repository itself."""
    if common_dir.endswith(JJ_STORE):
        return common_dir.removesuffix(JJ_STORE)
    above, name = os.path.split(common_dir)
    return above if name in OF_THE_FOLDER_AROUND else common_dir


def layout_of(common: str) -> tuple[Kind, str | None]:
    """The layout and the main checkout of a common dir; None where the dir does not tell it."""
    if common.endswith(JJ_STORE):
        return "plain", main_folder(common)
    config = gitfiles.read_config(common)
    if gitfiles.truth(config.get("core.bare")):
        above = os.path.dirname(common)
        inside = main_folder(common) == above or leads_to(above, common)
        return ("dot_bare" if inside else "bare"), None
    main = core_worktree(config, common)
    if main is not None and not leads_to(main, common):
        main = None
    if is_of_submodule(common):
        return "submodule", main
    if main is None and os.path.basename(common) == ".git":
        return "plain", os.path.dirname(common)
    if main is not None and same_folder(os.path.join(main, ".git"), common):
        return "plain", main
    return "separate", main


def leads_to(folder: str, git_dir: str) -> bool:
    """Whether the `.git` of `folder` is this very git directory, or a link to it."""
    target = git_dir_at(os.path.join(folder, ".git"))
    return target is not None and same_folder(target, git_dir)


def git_dir_at(marker: str) -> str | None:
    """The git directory that a `.git` is or names, if that can be a path of this system."""
    target = gitfiles.read_gitlink(marker)
    if target is None:
        return marker if is_folder(marker) else None
    return gitfiles.on_this_system(target)


def recorded_folder(admin: str) -> str | None:
    """Where the repository says that the worktree of this admin folder is."""
    line = gitfiles.read_line(os.path.join(admin, "gitdir"))
    path = gitfiles.on_this_system(line) if line is not None else None
    return os.path.dirname(gitfiles.resolve(path, admin)) if path is not None else None


def common_dir_of(git_dir: str) -> str:
    """The directory that all worktrees of `git_dir`'s repository share."""
    real = real_path(git_dir)
    return named_common_dir(real) or real


def named_common_dir(git_dir: str) -> str | None:
    """The directory that its `commondir` names."""
    line = gitfiles.read_line(os.path.join(git_dir, "commondir"))
    return real_path(gitfiles.resolve(line, git_dir)) if line else None


def named_after(common_dir: str, kind: Kind) -> str:
    """The name of a repository without a main checkout."""
    name = os.path.basename(around(common_dir, kind))
    return name if kind == "dot_bare" else name.removesuffix(".git")


def around(common_dir: str, kind: Kind) -> str:
    """The folder that represents a repository without a main checkout."""
    return os.path.dirname(common_dir) if kind == "dot_bare" else main_folder(common_dir)


def is_admin_dir(real: str) -> bool:
    """Whether it lies where a repository has its records of worktrees, and is one."""
    above, name = os.path.split(os.path.dirname(real))
    recorded = name == "worktrees" and something_at(os.path.join(real, "gitdir"))
    return recorded and gitfiles.is_git_dir(above)


def core_worktree(config: dict[str, str], git_dir: str) -> str | None:
    value = config.get("core.worktree")
    return gitfiles.resolve(value, git_dir) if value else None


def is_of_submodule(git_dir: str) -> bool:
    """Whether it lies in the `modules` of another git directory, or of a linked worktree's."""
    parts = git_dir.split("/modules/")
    above = ("/modules/".join(parts[:count]) for count in range(1, len(parts)))
    return any(gitfiles.is_git_dir(path) or gitfiles.is_of_worktree(path) for path in above)
