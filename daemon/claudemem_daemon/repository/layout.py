"""From a folder upwards to the repository around it: which layout, which checkout.

Whose a folder is, its repository decides and not the folder: a `.git` that leads to a git directory
is taken at its word only where that directory's own record does not say otherwise. So a copy of a
checkout, or one made to look like another's, has no part in the other's memory.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import (
    Dependency,
    file_identity,
    file_state,
    is_folder,
    real_path,
    recording,
    something_at,
    unrecorded,
)
from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.gitfiles import same_folder
from claudemem_daemon.repository.model import Kind
from claudemem_daemon.repository.records import (
    LinkText,
    common_dir_of,
    core_worktree,
    is_admin_dir,
    is_alone,
    is_of_submodule,
    layout_of,
    leads_to,
    main_folder,
    named_common_dir,
    read_link_text,
    recorded_folder,
)
from claudemem_daemon.warning import AnswerWarning

MAX_LEVELS: Final = 256


class Found(NamedTuple):
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
    warnings: tuple[AnswerWarning, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    unsure: bool = False
    """Whether these files alone do not tell the main checkout."""
    real: str = ""
    """The folder where the search began, without links."""
    gone: bool = False
    """Whether there is no such folder."""


NOT_FOUND: Final = Found("none", None, None, "no repository around this folder")


def find(cwd: str, home: str | None) -> Found:
    """The repository around the absolute path `cwd`."""
    with recording() as recorded:
        found = _around(cwd, home)
    return found._replace(dependencies=tuple(recorded.values()))


def _around(cwd: str, home: str | None) -> Found:
    real = real_path(cwd)
    with unrecorded():
        gone = not is_folder(real)
    found = (NOT_FOUND if gone else _walk(real, home))._replace(real=real, gone=gone)
    if cwd != found.top:
        # Where nothing is looked at inside `cwd` itself, only this notices that it is gone.
        file_identity(cwd)
    if found.common_dir is None:
        return found
    warnings = (*found.warnings, *_other_owner(found.common_dir))
    return found._replace(warnings=warnings, unsure=_is_unsure(found, found.common_dir))


def _walk(start: str, home: str | None) -> Found:
    """Walk up from `start` (real). The home folder counts as a repository only for itself: dotfiles
    under git do not make one project of all that is below."""
    inner: Found | None = None
    folder = start
    for _ in range(MAX_LEVELS):
        if folder == home and folder != start:
            break
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


def _is_unsure(found: Found, common_dir: str) -> bool:
    if found.kind == "separate":
        return layout_of(common_dir)[1] is None
    # Named `.git`, such a directory looks like one in a checkout, but nothing is beside it. That
    # something comes or goes there would be the rarest of news, and is told all day.
    with unrecorded():
        linked = found.admin_dir is not None or found.top is None
        return linked and found.kind == "plain" and is_alone(common_dir)


def _without_marker(folder: str, start: str) -> Found | None:
    """A bare repository, the inside of a `.git` folder, or a jj workspace. Any checkout can hold
    what looks like one, so a checkout around it wins."""
    head, jj = os.path.join(folder, "HEAD"), os.path.join(folder, ".jj")
    if folder == start:
        # It may become one of these itself; those above it hardly will.
        file_identity(head)
        file_identity(jj)
    with unrecorded():
        is_repository, is_workspace = gitfiles.is_git_dir(folder), something_at(jj)
    if is_repository:
        file_state(folder)
        kind, main = layout_of(folder)
        return Found(kind, None, folder, f"{folder} is a git directory", None, main)
    return _jj_workspace(folder, jj) if is_workspace else None


def checkout_at(folder: str) -> Found | None:
    """What the `.git` of a folder makes of it; None for a `.git` folder without a repository."""
    marker = git_dir = os.path.join(folder, ".git")
    text = None
    if not is_folder(marker):
        target = gitfiles.read_gitlink(marker)
        if target is None:
            return _unreadable(folder, f"{marker} is not a link to a git directory", None)
        text = read_link_text(target)
        git_dir = gitfiles.on_this_system(target) or ""
        if not git_dir:
            return _unreadable(folder, f"{marker} names a path of another system", text)
    real = real_path(git_dir)
    if gitfiles.is_of_worktree(real) or is_admin_dir(real):
        return _linked_worktree(folder, real)
    if gitfiles.is_git_dir(real):
        return _main_checkout(folder, marker, real)
    if git_dir == marker:
        return None
    return _unreadable(folder, f"the git directory that {marker} names is not there", text)


def _unreadable(folder: str, problem: str, text: LinkText | None) -> Found:
    """No word of the link is repeated here: warnings are read by a model, and anyone can bring a
    link."""
    if text is None:
        message = f"{problem}: no repository here; git worktree repair may mend it"
        return Found("none", None, None, problem, warnings=_told("unreadable", folder, message))
    message = (
        f"{problem}: answered by the names in the link alone; git worktree repair, run in the main"
        " checkout, may mend it"
    )
    warnings = _told("unreadable", folder, message)
    how = f"{problem}; its text says {text.project} and {text.worktree_id}"
    return Found("unreachable", folder, None, how, None, None, text, (text.main,), warnings)


def _told(what: str, folder: str, message: str) -> tuple[AnswerWarning, ...]:
    return (AnswerWarning(f"git_{what}", message, path=folder),)


def _contradicted(folder: str, git_dir: str, why: str) -> Found:
    message = (
        f"{folder}/.git leads to a git directory that is not this folder's ({why}): answered for"
        " the folder alone; in a checkout of your own, git worktree repair mends the link"
    )
    return Found(
        "none",
        folder,
        None,
        f"{folder}/.git leads to {git_dir}, and {why}",
        excluded_by=(main_folder(common_dir_of(git_dir)),),
        warnings=_told("contradicted", folder, message),
    )


def unproven(folder: str, git_dir: str) -> Found:
    """A main checkout that another folder may be as well: its names count, and no worktree's."""
    message = (
        f"{folder}/.git leads to a git directory that does not tell whose it is: worktrees are left"
        " out; `git config core.worktree FOLDER`, run there, tells"
    )
    how = f"{folder}/.git leads to {git_dir}, which does not tell whose it is"
    warnings = _told("contradicted", folder, message)
    return Found("separate", folder, None, how, None, folder, warnings=warnings)


def _main_checkout(folder: str, marker: str, real: str) -> Found:
    """`marker`, the `.git` of `folder`, is the git directory or leads to it."""
    own = real == marker
    config = gitfiles.read_config(real)
    if gitfiles.truth(config.get("core.bare")):
        # A bare repository has no checkout: only the folder around it may stand for it.
        if not same_folder(os.path.dirname(real), folder):
            return _contradicted(folder, real, "it is a bare repository elsewhere")
        return Found("dot_bare", None, real, f"{marker} is the bare repository {real}")
    recorded = core_worktree(config, real)
    warnings: tuple[AnswerWarning, ...] = ()
    if recorded is not None and not same_folder(recorded, folder):
        if leads_to(recorded, real):
            return _contradicted(folder, real, "its core.worktree is another folder")
        if own:
            message = (
                f"core.worktree in {folder}/.git/config is ignored: the folder that it names has no"
                " link back, so its memory is not this repository's"
            )
            warnings = (AnswerWarning("core_worktree_ignored", message, path=folder),)
    if own:
        how = f"{marker} is its git directory"
        return Found("plain", folder, real, how, None, folder, warnings=warnings)
    if recorded is None and os.path.basename(real) == ".git":
        if is_alone(real):
            return unproven(folder, real)
        return _contradicted(folder, real, "it is the one of the folder around it")
    if is_of_submodule(real):
        return Found("submodule", folder, real, f"{marker} names {real}: a submodule", None, folder)
    how = f"{marker} names the separate git directory {real}"
    return Found("separate", folder, real, how, None, folder)


def _linked_worktree(folder: str, admin: str) -> Found:
    """`admin` is, or says that it is, a folder of `<common dir>/worktrees`."""
    list_folder = os.path.dirname(admin)
    common = os.path.dirname(list_folder)
    named = named_common_dir(admin)
    warnings: tuple[AnswerWarning, ...] = ()
    if named != common or os.path.basename(list_folder) != "worktrees":
        if named is None or not gitfiles.is_git_dir(named):
            problem = f"{admin}/commondir leads to no git directory"
            if not is_admin_dir(admin):
                return _unreadable(folder, problem, read_link_text(admin))
            message = f"{problem}: git works there again with ../.. in it"
            warnings = _told("unreadable", folder, message)
        elif same_folder(list_folder, os.path.join(named, "worktrees")):
            common = named
        else:
            return _contradicted(folder, admin, "its repository has no such worktree")
    recorded = recorded_folder(admin)
    if recorded is not None and not same_folder(recorded, folder) and leads_to(recorded, admin):
        return _contradicted(folder, admin, "its repository has this worktree elsewhere")
    kind, main = layout_of(common)
    how = f"{folder}/.git leads to {admin}, and its commondir to {common}"
    return Found(kind, folder, common, how, admin, main, warnings=warnings)


def _jj_workspace(folder: str, jj: str) -> Found | None:
    """The main workspace, whose `.jj/repo` is the repository; or one whose `.jj/repo` is a file that
    names it. jj keeps no record of the folders of workspaces, so that one has the names alone."""
    repo = os.path.join(jj, "repo")
    how = f"{jj} is a jj workspace"
    if is_folder(repo):
        common = os.path.join(repo, "store", "git")
        if real_path(common) == common and gitfiles.is_git_dir(common):
            return Found("plain", folder, common, how, None, folder)
        return Found("none", folder, None, how)
    named = gitfiles.read_line(repo)
    main = gitfiles.resolve(named, jj).removesuffix("/.jj/repo") if named is not None else ""
    name = os.path.basename(main)
    if not name or not is_folder(os.path.join(main, ".jj", "repo")):
        return None
    text = LinkText(main, name, os.path.basename(folder))
    return Found("plain", folder, None, f"{how} of {main}", text=text, excluded_by=(main,))


def _other_owner(common_dir: str) -> tuple[AnswerWarning, ...]:
    """git refuses other people's repositories for what it would run; we run nothing of it."""
    with unrecorded():
        found = file_identity(common_dir).what
    if len(found) < 4 or found[3] == os.geteuid():
        return ()
    message = f"{common_dir} belongs to user {found[3]}; only its link files are read"
    return (AnswerWarning("foreign_owner", message, path=common_dir),)
