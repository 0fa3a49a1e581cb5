"""From a folder upwards to the repository around it: which layout, which checkout.

The repository decides which folders belong to it: a `.git` that leads to a git directory counts
unless that directory's own record contradicts it. So a copy or a counterfeit of a checkout has no
part in the other's memory.

What is found here is a `Repository` without its worktrees and its name.
"""

from __future__ import annotations

import os
from typing import Final

from claudemem_daemon.dependencies import (
    file_identity,
    file_state,
    is_closed,
    is_folder,
    real_path,
    recording,
    something_at,
    unrecorded,
)
from claudemem_daemon.repository import gitfiles, records
from claudemem_daemon.repository.gitfiles import same_folder
from claudemem_daemon.repository.model import LinkText, Repository, main_checkout
from claudemem_daemon.repository.records import leads_to
from claudemem_daemon.warning import AnswerWarning

NOT_FOUND: Final = Repository("none", "no repository around this folder")


def find(cwd: str, home: str | None) -> Repository:
    """The repository around the absolute path `cwd`."""
    with recording() as recorded:
        found = _around(cwd, home)
    return found._replace(dependencies=tuple(recorded.values()))


def _around(cwd: str, home: str | None) -> Repository:
    real = real_path(cwd)
    with unrecorded():
        gone = not is_folder(real)
    found = NOT_FOUND if gone else _walk(real, home)
    if cwd != found.top:
        # No other path depends on whether `cwd` itself exists.
        file_identity(cwd)
    return found._replace(cwd=cwd, real=real, gone=gone)


def _walk(start: str, home: str | None) -> Repository:
    """Walk up from `start` (real). The home folder counts only for itself: dotfiles under git do not
    make one project of everything below."""
    inner: Repository | None = None
    folder = start
    while folder != home or folder == start:
        marked = file_state(os.path.join(folder, ".git")).state is not None
        found = checkout_at(folder) if marked else None
        if found is not None:
            return found
        if not marked and inner is None:
            inner = _without_marker(folder, start)
            if inner is not None and "/.git/" in f"{folder}/":
                break
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return inner or NOT_FOUND


def _without_marker(folder: str, start: str) -> Repository | None:
    """A bare repository, the inside of a `.git` folder, or a jj workspace. Any checkout can contain
    an imitation, so a checkout around it takes precedence."""
    head, jj = os.path.join(folder, "HEAD"), os.path.join(folder, ".jj")
    if folder == start:
        # This folder may become one; those above it hardly will.
        file_identity(head)
        file_identity(jj)
    with unrecorded():
        is_repository, is_workspace = gitfiles.is_git_dir(folder), something_at(jj)
    if is_repository:
        file_state(folder)
        kind, main = records.layout_of(folder)
        how = f"{folder} is a git directory"
        return Repository(kind, how, None, folder, main_checkout(main))
    return _jj_workspace(folder, jj) if is_workspace else None


def checkout_at(folder: str) -> Repository | None:
    """What the `.git` of a folder makes of it; None for a `.git` folder without a repository."""
    marker = git_dir = os.path.join(folder, ".git")
    text = None
    if not is_folder(marker):
        target = gitfiles.read_gitlink(marker)
        if target is None:
            return _unreadable(folder, f"{marker} is not a link to a git directory", None)
        text = records.read_link_text(target)
        git_dir = gitfiles.on_this_system(target) or ""
        if not git_dir:
            return _unreadable(folder, f"{marker} names a path of another system", text)
    real = real_path(git_dir)
    if gitfiles.is_of_worktree(real) or records.is_admin_dir(real):
        return _linked_worktree(folder, real)
    if gitfiles.is_git_dir(real):
        return _main_checkout(folder, marker, real)
    if git_dir == marker:
        return None
    if is_closed(os.path.join(real, "HEAD")):
        problem = f"the git directory that {marker} names may not be looked into"
        return _unreadable(folder, problem, text, "chmod -R a+rX .git")
    return _unreadable(folder, f"the git directory that {marker} names is not there", text)


def _unreadable(
    folder: str, problem: str, text: LinkText | None, remedy: str = "git worktree repair"
) -> Repository:
    """The warning quotes nothing of the link: a model reads it, and anyone can write a link."""
    if text is None:
        message = f"{problem}: no repository here; {remedy} may mend it"
        return Repository("none", problem, warnings=_warned("unreadable", folder, message))
    message = (
        f"{problem}: answered by the names in the link alone; {remedy}, run in the main"
        " checkout, may mend it"
    )
    return Repository(
        "unreachable",
        f"{problem}; its text says {text.project} and {text.worktree_id}",
        folder,
        warnings=_warned("unreadable", folder, message),
        excluded_by=(text.main,),
        link_text=text,
    )


def _contradicted(folder: str, git_dir: str, why: str) -> Repository:
    message = (
        f"{folder}/.git leads to a git directory that is not this folder's ({why}): answered for"
        " the folder alone; in a checkout of your own, git worktree repair mends the link, and for a"
        " separate git directory `git config core.worktree FOLDER` tells whose it is"
    )
    return Repository(
        "none",
        f"{folder}/.git leads to {git_dir}, and {why}",
        folder,
        warnings=_warned("contradicted", folder, message),
        excluded_by=(records.main_folder(records.common_dir_of(git_dir)),),
    )


def _warned(what: str, folder: str, message: str) -> tuple[AnswerWarning, ...]:
    return (AnswerWarning(f"git_{what}", message, path=folder),)


def _main_checkout(folder: str, marker: str, real: str) -> Repository:
    """`marker`, the `.git` of `folder`, is the git directory or leads to it."""
    own, main = real == marker, main_checkout(folder)
    config = gitfiles.read_config(real)
    if gitfiles.truth(config.get("core.bare")):
        # A bare repository has no checkout; only the folder around it counts as one.
        if not same_folder(os.path.dirname(real), folder):
            return _contradicted(folder, real, "it is a bare repository elsewhere")
        return Repository("dot_bare", f"{marker} is the bare repository {real}", None, real)
    recorded = records.core_worktree(config, real)
    warnings: tuple[AnswerWarning, ...] = ()
    if recorded is not None and not same_folder(recorded, folder):
        if leads_to(recorded, real):
            return _contradicted(folder, real, "its core.worktree is another folder")
        if own:
            message = (
                f"core.worktree in the configuration of {folder} is ignored: the folder that it names"
                " has no link back, so its memory is not this repository's"
            )
            warnings = (AnswerWarning("core_worktree_ignored", message, path=folder),)
    if own:
        return Repository("plain", f"{marker} is its git directory", folder, real, main, warnings)
    if recorded is None and os.path.basename(real) == ".git":
        return _contradicted(folder, real, "it is the one of the folder around it")
    if records.is_of_submodule(real):
        return Repository("submodule", f"{marker} names {real}: a submodule", folder, real, main)
    how = f"{marker} names the separate git directory {real}"
    return Repository("separate", how, folder, real, main)


def _linked_worktree(folder: str, admin: str) -> Repository:
    """`admin` is, or claims to be, a folder of `<common dir>/worktrees`."""
    list_folder = os.path.dirname(admin)
    common = os.path.dirname(list_folder)
    named = records.named_common_dir(admin)
    warnings: tuple[AnswerWarning, ...] = ()
    if named != common or os.path.basename(list_folder) != "worktrees":
        if named is None or not gitfiles.is_git_dir(named):
            problem = f"{admin}/commondir leads to no git directory"
            if not records.is_admin_dir(admin):
                return _unreadable(folder, problem, records.read_link_text(admin))
            message = f"{problem}: git works there again with ../.. in it"
            warnings = _warned("unreadable", folder, message)
        elif same_folder(list_folder, os.path.join(named, "worktrees")):
            common = named
        else:
            return _contradicted(folder, admin, "its repository has no such worktree")
    recorded = records.recorded_folder(admin)
    if recorded is not None and not same_folder(recorded, folder) and leads_to(recorded, admin):
        return _contradicted(folder, admin, "its repository has this worktree elsewhere")
    kind, main = records.layout_of(common)
    how = f"{folder}/.git leads to {admin}, and its commondir to {common}"
    found = Repository(kind, how, folder, common, main_checkout(main), warnings)
    return found._replace(admin_dir=admin)


def _jj_workspace(folder: str, jj: str) -> Repository | None:
    """The main workspace, whose `.jj/repo` is the repository; or one whose `.jj/repo` is a file that
    names it. jj does not record the folders of workspaces, so of that one only the names are known."""
    repo = os.path.join(jj, "repo")
    how = f"{jj} is a jj workspace"
    if is_folder(repo):
        common = os.path.join(repo, "store", "git")
        if real_path(common) == common and gitfiles.is_git_dir(common):
            return Repository("plain", how, folder, common, main_checkout(folder))
        return Repository("none", how, folder)
    named = gitfiles.read_line(repo)
    main = gitfiles.resolve(named, jj).removesuffix("/.jj/repo") if named is not None else ""
    name = os.path.basename(main)
    if not name or not is_folder(os.path.join(main, ".jj", "repo")):
        return None
    text = LinkText(main, name, os.path.basename(folder))
    return Repository("plain", f"{how} of {main}", folder, excluded_by=(main,), link_text=text)
