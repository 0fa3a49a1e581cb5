"""From a folder upwards to the repository around it: which layout, which checkout.

Whose a folder is, its repository decides and not the folder: a `.git` that leads to a git directory
is taken at its word only where that directory's own record does not say otherwise. So a copy of a
checkout, or one made to look like another's, has no part in the other's memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from claudemem_daemon.dependencies import FileState, file_state, real_path
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.gitfiles import same_folder
from claudemem_daemon.repository.linktext import (
    JJ_STORE,
    LinkText,
    main_folder,
    read_link_text,
)
from claudemem_daemon.repository.model import Kind
from claudemem_daemon.warning import AnswerWarning

MAX_LEVELS: Final = 256


@dataclass(frozen=True, slots=True)
class Found:
    """What the `.git` of a folder leads to."""

    kind: Kind
    top: str | None
    """The checkout's root; None inside a bare repository."""
    common_dir: str | None
    """The git directory that all checkouts share; None where it is not there or not ours."""
    how: str
    admin_dir: str | None = None
    """A linked worktree's own folder below the common dir."""
    main: str | None = None
    """The main checkout, where these files alone tell it."""
    text: LinkText | None = None
    """Of a link whose git directory is not there."""
    excluded_by: tuple[str, ...] = ()
    """Other folders whose exclusion is this one's too."""
    warning: AnswerWarning | None = None
    dependencies: tuple[FileState, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    found: Found | None
    dependencies: tuple[FileState, ...]


def find(start: str, home: str | None) -> Search:
    """Walk up from `start` (real, absolute). The home folder counts as a repository only for
    itself: dotfiles under git do not make one project of all that is below."""
    dependencies: list[FileState] = []
    inner: Found | None = None
    folder = start
    for _ in range(MAX_LEVELS):
        if folder == home and folder != start:
            break
        marker = file_state(os.path.join(folder, ".git"))
        dependencies.append(marker)
        found = checkout_at(folder) if marker.state is not None else None
        if found is not None:
            return Search(found, (*dependencies, *found.dependencies))
        if marker.state is None and inner is None:
            inner = _without_marker(folder)
            if inner is not None and "/.git/" in f"{folder}/":
                break
        if folder == start:
            # It may become a bare repository itself; those above it hardly will.
            dependencies.append(file_state(os.path.join(folder, "HEAD")))
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return Search(inner, (*dependencies, *(inner.dependencies if inner is not None else ())))


def _without_marker(folder: str) -> Found | None:
    """A git directory, or a jj workspace. Any checkout can hold what looks like one, so a checkout
    around it wins."""
    if gitfiles.is_git_dir(folder):
        return _inside_git_dir(folder)
    jj = file_state(os.path.join(folder, ".jj"))
    if jj.state is None:
        return None
    repo = file_state(os.path.join(jj.path, "repo"))
    found = _jj_workspace(folder, jj.path)
    return replace(found, dependencies=(jj, repo)) if found is not None else None


def checkout_at(folder: str) -> Found | None:
    """What the `.git` of a folder makes of it; None for a `.git` folder without a repository."""
    marker = os.path.join(folder, ".git")
    if os.path.isdir(marker):
        return _git_dir(folder, marker, marker) if gitfiles.is_git_dir(marker) else None
    target = gitfiles.read_gitlink(marker)
    if target is None:
        return _unreadable(folder, f"{marker} is no link to a git directory", None)
    text = target
    written = os.path.relpath(target, folder)
    if gitfiles.is_windows(written):
        text, mounted = written, gitfiles.from_windows(written)
        if mounted is None:
            problem = f"{marker} names a path of another system"
            return _unreadable(folder, problem, read_link_text(text))
        target = mounted
    if not gitfiles.is_git_dir(target):
        # It may come, or come back, with this link as it is. What makes a folder a git directory
        # lies right in it, so that its own times tell.
        problem = f"the git directory that {marker} names is not there"
        found = _unreadable(folder, problem, read_link_text(text))
        return replace(found, dependencies=(file_state(target),))
    return _git_dir(folder, marker, target)


def _unreadable(folder: str, problem: str, text: LinkText | None) -> Found:
    """No word of the link is repeated here: warnings are read by a model, and anyone can bring a
    link."""
    if text is None:
        message = f"{problem}: no repository here; `git worktree repair` may mend it"
        warning = AnswerWarning("git_unreadable", message, path=folder)
        return Found("none", None, None, f"{problem}", warning=warning)
    message = (
        f"{problem}: answered by the names in the link alone; `git worktree repair`, run in the"
        " main checkout, may mend it"
    )
    warning = AnswerWarning("git_unreadable", message, path=folder)
    how = f"{problem}; its text says {text.project} and {text.worktree_id}"
    return Found("unreachable", folder, None, how, None, None, text, (text.main,), warning)


def _contradicted(folder: str, git_dir: str, why: str) -> Found:
    message = (
        f"{folder}/.git leads to a git directory that is not this folder's ({why}): answered for"
        " the folder alone; in a checkout of your own, `git worktree repair` mends the link"
    )
    return Found(
        "none",
        folder,
        None,
        f"{folder}/.git leads to {git_dir}, and {why}",
        excluded_by=(main_folder(common_dir_of(git_dir)),),
        warning=AnswerWarning("git_contradicted", message, path=folder),
        dependencies=(file_state(git_dir),),
    )


def unproven(folder: str, git_dir: str) -> Found:
    """A main checkout that another folder may be as well: its names count, and no worktree's."""
    message = (
        f"{folder}/.git leads to a git directory that does not tell whose it is: worktrees are left"
        " out; `git config core.worktree FOLDER`, run there, tells"
    )
    how = f"{folder}/.git leads to {git_dir}, which does not tell whose it is"
    warning = AnswerWarning("git_contradicted", message, path=folder)
    return Found("separate", folder, None, how, None, folder, warning=warning)


def _git_dir(folder: str, marker: str, git_dir: str) -> Found:
    """`marker`, the `.git` of `folder`, is the git directory or leads to it."""
    real = real_path(git_dir)
    dependencies = [file_state(os.path.join(real, "commondir"))] if git_dir != marker else []
    if _common_of(real) is not None or _is_admin_dir(real):
        found = _linked_worktree(folder, real)
        return replace(found, dependencies=(*dependencies, *found.dependencies))
    config = gitfiles.read_config(real)
    dependencies += [file_state(os.path.join(real, "config"))] if real != marker else []
    found = _main_checkout(folder, marker, real, config)
    return replace(found, dependencies=(*dependencies, *found.dependencies))


def _main_checkout(folder: str, marker: str, real: str, config: dict[str, str]) -> Found:
    own = real == marker
    if gitfiles.truth(config.get("core.bare")):
        # A bare repository has no checkout: only the folder around it may stand for it.
        if not same_folder(os.path.dirname(real), folder):
            return _contradicted(folder, real, "it is a bare repository elsewhere")
        return Found("dot_bare", None, real, f"{marker} is the bare repository {real}")
    recorded = _core_worktree(config, real)
    if recorded is not None and not same_folder(recorded, folder):
        if leads_to(recorded, real):
            return _contradicted(folder, real, "its core.worktree is another folder")
        if own:
            return replace(
                Found("plain", folder, real, f"{marker} is its git directory", None, folder),
                warning=_core_worktree_ignored(folder),
            )
    if own:
        return Found("plain", folder, real, f"{marker} is its git directory", None, folder)
    if recorded is None and os.path.basename(real) == ".git":
        if is_alone(real):
            return unproven(folder, real)
        return _contradicted(folder, real, "it is the one of the folder around it")
    if _superproject_dir(real) is not None:
        return Found("submodule", folder, real, f"{marker} names {real}: a submodule", None, folder)
    how = f"{marker} names the separate git directory {real}"
    return Found("separate", folder, real, how, None, folder)


def _core_worktree_ignored(folder: str) -> AnswerWarning:
    message = (
        f"core.worktree in {folder}/.git/config is ignored: the folder that it names has no link"
        " back, so its memory is not this repository's"
    )
    return AnswerWarning("core_worktree_ignored", message, path=folder)


def _linked_worktree(folder: str, admin: str) -> Found:
    """`admin` is, or says that it is, a folder of `<common dir>/worktrees`."""
    common = _common_of(admin)
    warning = None
    if common is None or not gitfiles.is_git_dir(common):
        common = os.path.dirname(os.path.dirname(admin))
        text = read_link_text(admin)
        if not _is_admin_dir(admin):
            return _unreadable(folder, f"{admin}/commondir leads to no git directory", text)
        message = (
            f"{admin}/commondir is empty or leads to no git directory: git works there again with"
            " ../.. in it"
        )
        warning = AnswerWarning("git_unreadable", message, path=folder)
    if not same_folder(os.path.dirname(admin), os.path.join(common, "worktrees")):
        return _contradicted(folder, admin, "its repository has no such worktree")
    recorded = recorded_folder(admin)
    moved: tuple[FileState, ...] = ()
    if recorded is not None and not same_folder(recorded, folder):
        moved = (file_state(os.path.join(recorded, ".git")),)
        if leads_to(recorded, admin):
            found = _contradicted(folder, admin, "its repository has this worktree elsewhere")
            return replace(found, dependencies=(*found.dependencies, *moved))
    kind, main = layout_of(common)
    how = f"{folder}/.git leads to {admin}, and its commondir to {common}"
    return Found(kind, folder, common, how, admin, main, warning=warning, dependencies=moved)


def _inside_git_dir(folder: str) -> Found:
    """A bare repository, or the inside of a `.git` folder."""
    common = common_dir_of(folder)
    if not same_folder(common, folder) and not same_folder(
        os.path.dirname(real_path(folder)), os.path.join(common, "worktrees")
    ):
        return _contradicted(folder, folder, "its repository has no such worktree")
    kind, main = layout_of(common)
    return Found(kind, None, common, f"{folder} is a git directory", None, main)


def _jj_workspace(folder: str, jj: str) -> Found | None:
    """The main workspace, whose `.jj/repo` is the repository; or one whose `.jj/repo` is a file that
    names it. jj keeps no record of the folders of workspaces, so that one has the names alone."""
    repo = os.path.join(jj, "repo")
    how = f"{jj} is a jj workspace"
    if os.path.isdir(repo):
        common = os.path.join(repo, "store", "git")
        if real_path(common) == common and gitfiles.is_git_dir(common):
            return Found("plain", folder, common, how, None, folder)
        return Found("none", folder, None, how)
    named = gitfiles.read_line(repo)
    main = gitfiles.resolve(named, jj).removesuffix("/.jj/repo") if named is not None else ""
    name = os.path.basename(main)
    if not name or not os.path.isdir(os.path.join(main, ".jj", "repo")):
        return None
    text = LinkText(main, name, os.path.basename(folder))
    return Found("plain", folder, None, f"{how} of {main}", text=text, excluded_by=(main,))


def layout_of(common: str) -> tuple[Kind, str | None]:
    """The layout and the main checkout of a common dir, as far as the dir itself tells."""
    if common.endswith(JJ_STORE):
        return "plain", main_folder(common)
    config = gitfiles.read_config(common)
    if gitfiles.truth(config.get("core.bare")):
        hidden = os.path.basename(common).startswith(".")
        return ("dot_bare" if hidden or leads_to(os.path.dirname(common), common) else "bare"), None
    main = _core_worktree(config, common)
    if main is not None and not leads_to(main, common):
        main = None
    if _superproject_dir(common) is not None:
        return "submodule", main
    if main is None and os.path.basename(common) == ".git":
        return "plain", os.path.dirname(common)
    if main is not None and same_folder(os.path.join(main, ".git"), common):
        return "plain", main
    return "separate", main


def leads_to(folder: str, git_dir: str) -> bool:
    """Whether the `.git` of `folder` is this very git directory, or a link to it."""
    marker = os.path.join(folder, ".git")
    if os.path.isdir(marker):
        return same_folder(marker, git_dir)
    target = link_target(marker)
    return target is not None and same_folder(target, git_dir)


def link_target(marker: str) -> str | None:
    """The git directory that a `.git` file names, if that can be a path of this system."""
    target = gitfiles.read_gitlink(marker)
    if target is None:
        return None
    written = os.path.relpath(target, os.path.dirname(marker))
    return gitfiles.from_windows(written) if gitfiles.is_windows(written) else target


def recorded_folder(admin: str) -> str | None:
    """Where the repository says that the worktree of this admin folder is."""
    line = gitfiles.read_line(os.path.join(admin, "gitdir"))
    if line is None:
        return None
    if gitfiles.is_windows(line):
        line = gitfiles.from_windows(line)
    return os.path.dirname(gitfiles.resolve(line, admin)) if line else None


def common_dir_of(git_dir: str) -> str:
    """The directory that all worktrees of `git_dir`'s repository share."""
    real = real_path(git_dir)
    return _common_of(real) or real


def named_after(common_dir: str, kind: Kind) -> str:
    """The name of a repository without a main checkout."""
    return os.path.basename(around(common_dir, kind)).removesuffix(".git")


def around(common_dir: str, kind: Kind) -> str:
    """The folder that stands for a repository without a main checkout."""
    return os.path.dirname(common_dir) if kind == "dot_bare" else main_folder(common_dir)


def is_alone(git_dir: str) -> bool:
    """Whether nothing lies beside it: a separate git directory, though its name may be `.git`."""
    try:
        with os.scandir(os.path.dirname(git_dir)) as entries:
            return len(list(islice(entries, 2))) == 1
    except OSError:
        return False


def _is_admin_dir(real: str) -> bool:
    above, name = os.path.split(os.path.dirname(real))
    return name == "worktrees" and gitfiles.is_git_dir(above)


def _core_worktree(config: dict[str, str], git_dir: str) -> str | None:
    value = config.get("core.worktree")
    return gitfiles.resolve(value, git_dir) if value else None


def _common_of(git_dir: str) -> str | None:
    line = gitfiles.read_line(os.path.join(git_dir, "commondir"))
    return real_path(gitfiles.resolve(line, git_dir)) if line else None


def _superproject_dir(git_dir: str) -> str | None:
    """The git directory in whose `modules` this one lies."""
    return next((one for one in _above_modules(git_dir) if gitfiles.is_git_dir(one)), None)


def _above_modules(path: str) -> Iterator[str]:
    end = path.find("/modules/")
    while end >= 0:
        yield path[:end]
        end = path.find("/modules/", end + 1)
