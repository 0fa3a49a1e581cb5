"""A repository as git's own files describe it, and the project keys that follow from it."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from claudemem_daemon.dependencies import Dependency, FileDependency
from claudemem_daemon.warning import AnswerWarning

Kind = Literal["plain", "bare", "dot_bare", "separate", "submodule", "unreachable", "none"]
WorktreeState = Literal["ok", "missing", "unreachable", "replaced"]
Role = Literal["main", "worktree", "removed", "alias"]
Match = Literal["exact", "prefix"]


class Worktree(NamedTuple):
    """One checkout: the main one or a linked one. Paths are absolute, in `os.fsdecode` form."""

    path: str
    name: str
    """The folder's name, by which claude-mem keys its rows."""
    admin_id: str | None = None
    """Folder below `<common dir>/worktrees`; None for the main checkout."""
    branch: str | None = None
    """Short branch name; None when detached or unborn HEAD cannot be read."""
    head: str | None = None
    """Object id of a detached HEAD."""
    locked: str | None = None
    """The reason, possibly empty; None = not locked."""
    state: WorktreeState = "ok"
    """missing: the folder is gone (git calls it prunable); unreachable: a path of another system;
    replaced: another repository's checkout is there now."""
    main: bool = False
    other_names: tuple[str, ...] = ()
    """Of its rows, besides `name`: that of the admin folder (the first name of a moved worktree), of
    a former folder, of the symbolic link through which `cwd` came."""


def main_checkout(path: str | None) -> Worktree | None:
    return None if path is None else Worktree(path, os.path.basename(path), main=True)


def linked_worktree(path: str, first_name: str, admin_id: str | None = None) -> Worktree:
    """`first_name` is that of its folder when it was made."""
    name = os.path.basename(path)
    other_names = (first_name,) if first_name != name else ()
    return Worktree(path, name, admin_id, other_names=other_names)


class LinkText(NamedTuple):
    """The names in a worktree's link, `<main checkout>/.git/worktrees/<worktree>`, for where that git
    directory is not there: in a container, on a drive that is not mounted, after `git worktree prune`.
    claude-mem names rows by them."""

    main: str
    """The main checkout, or the repository's folder; not to be opened: a link can name any folder."""
    project: str
    """P of the contract."""
    worktree_id: str


class Repository(NamedTuple):
    """What a working directory belongs to. `kind` "none" is a folder outside any repository, or one
    with no part in the repository that its `.git` leads to; "unreachable" one of which only the text
    of its link is known."""

    kind: Kind
    resolved_by: str
    """One line: how it was found, for `explain` and `worktrees`."""
    top: str | None = None
    """Root of the checkout that holds `cwd`; None in a bare repository or outside any."""
    common_dir: str | None = None
    """The git directory that all checkouts share; None where it is not there or not ours."""
    main: Worktree | None = None
    """None for a bare repository, and where the main checkout cannot be told."""
    warnings: tuple[AnswerWarning, ...] = ()
    excluded_by: tuple[str, ...] = ()
    """Other folders whose exclusion counts here too, and except for kind "none" their mapped stores."""
    cwd: str = ""
    real: str = ""
    """`cwd` without links."""
    gone: bool = False
    """Whether there is no such folder."""
    admin_dir: str | None = None
    """The folder of the linked worktree that holds `cwd` below the common dir."""
    link_text: LinkText | None = None
    """Of a link whose git directory is not there."""
    name: str = ""
    """P of the contract: names the rows of the main checkout."""
    worktrees: tuple[Worktree, ...] = ()
    """Linked worktrees, in the order of `git worktree list`."""
    current: Worktree | None = None
    """The one of `main` and `worktrees` that holds `cwd`."""
    fallback_names: tuple[str, ...] = ()
    """Other names of its rows: that of a separate git dir, the last part of a symbolic link through
    which `cwd` came."""
    superproject: Repository | None = None
    """For a submodule: the repository around it, whose memory comes after its own."""
    dependencies: tuple[Dependency, ...] = ()

    @property
    def linked(self) -> Worktree | None:
        """The linked worktree that holds `cwd`."""
        return self.current if self.current is not None and not self.current.main else None

    @property
    def checkouts(self) -> tuple[Worktree, ...]:
        """The main checkout, if known, then the linked worktrees."""
        return (self.main, *self.worktrees) if self.main is not None else self.worktrees


class ProjectKey(NamedTuple):
    """A name of this repository's rows in a store.

    key     the text of the project column, or with match "prefix" its beginning (`P/`), byte for byte
    role    whose rows: the main checkout's, a worktree's, removed worktrees', an alias's
    path    the checkout; None for removed ones and aliases
    rule    one line for `worktrees` and `explain`: why this key counts
    bare    a worktree's folder name alone (W): admitted only in a store without another repository's
            `X/W`
    """

    key: str
    match: Match
    role: Role
    path: str | None
    rule: str
    bare: bool = False


class ProjectKeys(NamedTuple):
    """All keys of one question; `excluded` are those of excluded checkouts, which no prefix admits."""

    keys: tuple[ProjectKey, ...]
    excluded: tuple[str, ...]
    name: str
    """What the header calls this project."""
    checkouts: tuple[str, ...]
    """Paths of this repository's checkouts, for path evidence."""
    warnings: tuple[AnswerWarning, ...]
    common_dirs: tuple[str, ...] = ()
    """Of this repository and those around it."""
    dependencies: tuple[FileDependency, ...] = ()
    here: str | None = None
    """The checkout that asks."""
    shared_folders: tuple[str, ...] = ()
    """Where several worktrees have one key, the folders of those that count, the current one's first:
    rows with files in another one do not. Else empty."""
