"""From a folder upwards to the repository around it: which layout, which checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.model import Kind

MOST_LEVELS: Final = 256


@dataclass(frozen=True, slots=True)
class Found:
    """The git directory around a folder. `top` is the checkout's root, None inside a bare
    repository; `admin_dir` is the linked worktree's own folder below the common dir."""

    kind: Kind
    top: str | None
    common_dir: str
    admin_dir: str | None
    main: str | None
    """The main checkout, where these files alone tell it."""
    how: str


@dataclass(frozen=True, slots=True)
class Search:
    found: Found | None
    dependencies: tuple[FileState, ...]
    problem: str | None = None


def find(start: str, home: str | None) -> Search:
    """Walk up from `start` (real, absolute). The home folder counts as a repository only for
    itself: dotfiles under git do not make one project of all that is below."""
    dependencies: list[FileState] = []
    folder = start
    for _ in range(MOST_LEVELS):
        if folder == home and folder != start:
            break
        marker = os.path.join(folder, ".git")
        seen = file_state(marker)
        dependencies.append(seen)
        if seen.state is not None:
            if os.path.isdir(marker):
                if gitfiles.is_git_dir(marker):
                    return Search(_own_git_dir(folder, marker), tuple(dependencies))
            else:
                found, problem = _linked(folder, marker, dependencies)
                return Search(found, tuple(dependencies), problem)
        elif gitfiles.is_git_dir(folder):
            return Search(_inside_git_dir(folder), tuple(dependencies))
        elif folder == start:
            # It may become a bare repository itself; those above it hardly will.
            dependencies.append(file_state(os.path.join(folder, "HEAD")))
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return Search(None, tuple(dependencies))


def _own_git_dir(folder: str, git_dir: str) -> Found:
    """`folder/.git` is a folder (or a symbolic link to one)."""
    real = os.path.realpath(git_dir)
    linked = _common_of(real)
    if linked is not None:
        # A worktree whose .git is a symbolic link to its admin folder.
        return _worktree(folder, linked, real)
    config = gitfiles.read_config(real)
    if gitfiles.truth(config.get("core.bare")):
        return Found("dot_bare", None, real, None, None, f"{git_dir} is a bare repository")
    main = _core_worktree(config, real) or folder
    return Found("plain", main, real, None, main, f"{git_dir} is its git directory")


def _linked(
    folder: str, marker: str, dependencies: list[FileState]
) -> tuple[Found | None, str | None]:
    """`folder/.git` is a file that names a git directory."""
    target, problem = link_target(marker)
    if target is None:
        return None, problem
    if not gitfiles.is_git_dir(target):
        # It may come, or come back, with this link as it is. What makes a folder a git directory
        # lies right in it, so that its own times tell.
        dependencies.append(file_state(target))
        return None, f"{marker} names {target}, which is no git directory"
    real = os.path.realpath(target)
    dependencies.append(file_state(os.path.join(real, "commondir")))
    common = _common_of(real)
    if common is not None:
        return _worktree(folder, common, real), None
    config = gitfiles.read_config(real)
    dependencies.append(file_state(os.path.join(real, "config")))
    if gitfiles.truth(config.get("core.bare")):
        return Found("dot_bare", None, real, None, None, f"{marker} names the bare {real}"), None
    if f"{os.sep}modules{os.sep}" in real:
        how = f"{marker} names {real}: a submodule"
        return Found("submodule", folder, real, None, folder, how), None
    how = f"{marker} names the separate git directory {real}"
    return Found("separate", folder, real, None, folder, how), None


def link_target(marker: str) -> tuple[str | None, str | None]:
    """The git directory that a `.git` file names, or why there is none to look at."""
    target = gitfiles.read_gitlink(marker)
    if target is None:
        return None, f"{marker} is no link to a git directory"
    name = os.path.relpath(target, os.path.dirname(marker))
    if gitfiles.is_foreign(name):
        target = gitfiles.from_windows(name)
        if target is None:
            return None, f"{marker} names a path of another system"
    return target, None


def _worktree(folder: str, common: str, admin: str) -> Found:
    kind, main = layout_of(common)
    how = f"{folder}/.git leads to {admin}, and its commondir to {common}"
    return Found(kind, folder, common, admin, main, how)


def _inside_git_dir(folder: str) -> Found:
    """A bare repository, or the inside of a `.git` folder."""
    real = os.path.realpath(folder)
    common = _common_of(real) or real
    kind, main = layout_of(common)
    return Found(kind, None, common, None, main, f"{folder} is a git directory")


def layout_of(common: str) -> tuple[Kind, str | None]:
    """The layout and the main checkout of a common dir, as far as the dir itself tells."""
    config = gitfiles.read_config(common)
    if gitfiles.truth(config.get("core.bare")):
        return ("dot_bare" if os.path.basename(common).startswith(".") else "bare"), None
    main = _core_worktree(config, common)
    if f"{os.sep}modules{os.sep}" in common:
        return "submodule", main
    if main is not None:
        return "separate", main
    if os.path.basename(common) == ".git":
        return "plain", os.path.dirname(common)
    return "separate", None


def _core_worktree(config: dict[str, str], git_dir: str) -> str | None:
    value = config.get("core.worktree")
    return gitfiles.resolve(value, git_dir) if value else None


def _common_of(git_dir: str) -> str | None:
    line = gitfiles.read_line(os.path.join(git_dir, "commondir"))
    return os.path.realpath(gitfiles.resolve(line, git_dir)) if line else None


def common_dir_of(git_dir: str) -> str:
    """The directory that all worktrees of `git_dir`'s repository share."""
    real = os.path.realpath(git_dir)
    return _common_of(real) or real


def named_after(common_dir: str, kind: Kind) -> str:
    """The name of a repository without a main checkout: `.bare` after the folder around it."""
    return os.path.basename(around(common_dir, kind)).removesuffix(".git")


def around(common_dir: str, kind: Kind) -> str:
    """The folder that stands for a repository without a main checkout."""
    hidden = os.path.basename(common_dir).startswith(".")
    return os.path.dirname(common_dir) if kind == "dot_bare" or hidden else common_dir
