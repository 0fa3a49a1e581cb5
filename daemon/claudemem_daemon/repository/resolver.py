"""From a working directory to its repository."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from claudemem_daemon.dependencies import (
    Dependency,
    WatchedFiles,
    each_path_once,
    file_identity,
    real_path,
)
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.memo import Memo
from claudemem_daemon.notices import Group, Notices
from claudemem_daemon.repository import layout
from claudemem_daemon.repository.gitfiles import same_folder
from claudemem_daemon.repository.layout import Found
from claudemem_daemon.repository.model import Repository, Worktree
from claudemem_daemon.repository.separate import with_main
from claudemem_daemon.repository.worktrees import Links, list_worktrees
from claudemem_daemon.warning import AnswerWarning

MAX_REMEMBERED: Final = 512
WORKTREE_WEIGHT: Final = 20
"""Bytes; the worktrees themselves belong to their list, which is shared."""

MANY_WORKTREES: Final = 64
"""From here on the kernel watches the links of a repository's worktrees: a stat for each would cost
a warm answer more than everything else."""


@dataclass(frozen=True, slots=True)
class _Listing:
    worktrees: tuple[Worktree, ...]
    dependencies: tuple[Dependency, ...]
    links: Links
    group: Group | None = None


class Repositories:
    """What was resolved, by working directory, and what was learned on the way: which folders
    belonged to which repository before they were removed. Safe from several threads."""

    def __init__(self, home: str | None, memo: Memo | None = None) -> None:
        self._home = os.path.realpath(home) if home else None
        self._memo = memo or Memo()
        self._seen: OrderedDict[str, Repository] = OrderedDict()
        """By common dir, or by folder outside any."""
        self._checkouts: OrderedDict[str, str] = OrderedDict()
        self._notices: Notices | None = None
        self._lock = threading.Lock()

    def resolve(self, cwd: str | None) -> Repository:
        """The repository that holds `cwd`; kind "none" outside any.

        Raises `InvalidRequest` for a path that is not absolute: it would mean our own folder.
        """
        if not cwd or not cwd.startswith("/") or "\0" in cwd:
            raise InvalidRequest(f"cwd must be an absolute path, not {cwd!r}")
        if "/.." in cwd:
            # What `..` leads to behind a link is for the system to say.
            cwd = real_path(cwd)
        cwd = os.path.normpath(cwd).replace("//", "/", 1)
        with each_path_once():
            return self._memo.made(
                ("repository", cwd),
                lambda: self._resolved(cwd),
                lambda made: WORKTREE_WEIGHT * len(made.worktrees),
            )

    def _resolved(self, cwd: str) -> Repository:
        repository = self._resolve(cwd, depth=0)
        with self._lock:
            _remember(self._seen, repository.common_dir or repository.cwd, repository)
        return repository

    def known(self) -> tuple[Repository, ...]:
        """The repositories answered for so far, each once."""
        with self._lock:
            return tuple(self._seen.values())

    def close(self) -> None:
        """Give the kernel its watches back."""
        if self._notices is not None:
            self._notices.close()

    def _resolve(self, cwd: str, depth: int) -> Repository:
        real = real_path(cwd)
        if not os.path.isdir(real):
            return self._vanished(cwd, real, depth)
        search = self._memo.made(("found", real), lambda: layout.find(real, self._home))
        at_top = search.found is not None and cwd == search.found.top
        # Where nothing is looked at inside `cwd` itself, only this notices that it is gone.
        around = () if at_top else (file_identity(cwd),)
        dependencies = (*around, *search.dependencies)
        found = search.found
        if found is None or found.common_dir is None:
            return _without_git_dir(cwd, real, found, dependencies)
        return self._found(cwd, real, found, found.common_dir, dependencies, depth)

    def _found(
        self,
        cwd: str,
        real: str,
        found: Found,
        common_dir: str,
        dependencies: tuple[Dependency, ...],
        depth: int,
    ) -> Repository:
        listing = self._list(common_dir)
        found, beside = with_main(found, [one.path for one in listing.worktrees])
        if found.common_dir is None:
            return _without_git_dir(cwd, real, found, (*dependencies, *listing.dependencies))
        main_path = found.main
        worktrees, current = _with_current(listing.worktrees, found)
        main = _main(main_path) if main_path is not None else None
        if current is None and main is not None and found.top == main.path:
            current = main
        link = self._link_name(cwd, real, found.top or layout.around(common_dir, found.kind))
        name = os.path.basename(main_path or "") or layout.named_after(common_dir, found.kind)
        others: list[str] = []
        separate = found.kind == "separate" or (found.kind == "submodule" and found.admin_dir)
        # A git directory inside the checkout came with it, whatever its name says.
        if separate and not common_dir.startswith(f"{main_path}/"):
            others.append(os.path.basename(common_dir).removesuffix(".git"))
        if link is not None:
            if current is not None and not current.main:
                renamed = replace(current, other_names=(*current.other_names, link))
                worktrees = tuple(renamed if one is current else one for one in worktrees)
                current = renamed
            else:
                others.append(link)
        superproject = None
        if found.kind == "submodule" and found.top is not None and depth < 8:
            superproject = self._superproject(main_path or found.top, common_dir, depth)
        self._remember_checkouts(main_path, worktrees)
        return Repository(
            kind=found.kind,
            cwd=cwd,
            name=name,
            top=found.top,
            common_dir=common_dir,
            main=main,
            worktrees=worktrees,
            current=current,
            fallback_names=tuple(one for one in dict.fromkeys(others) if one and one != name),
            superproject=superproject,
            resolved_by=found.how,
            warnings=(*_warnings(found), *_other_owner(common_dir)),
            excluded_by=(layout.around(common_dir, found.kind),),
            dependencies=(
                *dependencies,
                *beside,
                *listing.dependencies,
                *(superproject.dependencies if superproject is not None else ()),
            ),
        )

    def _superproject(self, top: str, common_dir: str, depth: int) -> Repository | None:
        """The repository around a submodule, if the submodule's git directory lies in its own."""
        around = self._resolve(os.path.dirname(top), depth + 1)
        if around.common_dir is None or not common_dir.startswith(around.common_dir + os.sep):
            return None
        return around

    def _link_name(self, cwd: str, real: str, top: str) -> str | None:
        """The last part of a symbolic link through which `cwd` reached `top`, if it has another
        name, and if no repository brought the link along."""
        if cwd == real:
            return None
        below = os.path.relpath(real, top)
        logical = cwd
        if below != "." and not below.startswith(".."):
            if not cwd.endswith("/" + below):
                return None
            logical = cwd[: -len(below) - 1]
        above, leaf = os.path.split(logical)
        if not leaf or leaf == os.path.basename(top):
            return None
        return None if layout.find(real_path(above), self._home).found else leaf

    def _list(self, common_dir: str) -> _Listing:
        key = ("worktrees", common_dir)
        before: _Listing | None = self._memo.last(key)

        def make() -> _Listing:
            listing = _Listing(*list_worktrees(common_dir, before.links if before else {}))
            if len(listing.links) >= MANY_WORKTREES:
                listing = self._watched(common_dir, listing)
            return listing

        listing = self._memo.made(key, make)
        if before is not None and before is not listing and before.group is not None:
            before.group.close()
        return listing

    def _watched(self, common_dir: str, listing: _Listing) -> _Listing:
        """The list again, read after the watches stand: nothing can change unseen from then on."""
        try:
            notices = self._notices = self._notices or Notices()
        except OSError:
            return listing
        group = notices.watch(listing.links)
        if group is None:
            return listing
        worktrees, dependencies, links = list_worktrees(common_dir, {})
        if links.keys() != listing.links.keys():
            group.close()
            return listing
        folder, *members = dependencies
        return _Listing(worktrees, (folder, WatchedFiles(tuple(members), group)), links, group)

    def _remember_checkouts(self, main: str | None, worktrees: tuple[Worktree, ...]) -> None:
        anchor = main or (worktrees[0].path if worktrees else None)
        if anchor is None:
            return
        with self._lock:
            for one in (anchor, *(tree.path for tree in worktrees)):
                _remember(self._checkouts, one, anchor, most=MAX_REMEMBERED * 8)

    def _vanished(self, cwd: str, real: str, depth: int) -> Repository:
        """A folder that is gone: the repository it was seen in as a checkout, or the one around
        what is left of its path, or nothing."""
        missing, there = real, os.path.dirname(real)
        while not os.path.isdir(there):
            missing, there = there, os.path.dirname(there)
        with self._lock:
            folder = real
            while len(folder) > len(there) and folder not in self._checkouts:
                folder = os.path.dirname(folder)
            anchor = self._checkouts.get(folder)
        dependencies = (file_identity(cwd), file_identity(missing))
        known = len(folder) > len(there) and anchor not in (None, folder)
        seen = None
        if known and anchor is not None and os.path.isdir(anchor):
            seen = self._resolve(anchor, depth)
        elif there != self._home:
            seen = self._resolve(_as_spelled(cwd, there), depth)
        what = "this is no folder" if os.path.lexists(real) else "no such folder"
        if seen is None or (seen.common_dir is None and seen.top is None):
            warning = AnswerWarning("cwd_vanished", f"{cwd}: {what}", path=cwd)
            around = seen.dependencies if seen is not None else ()
            return _outside(cwd, real, (*dependencies, *around), (warning,), name="")
        repository = seen.main.path if seen.main is not None else seen.common_dir or seen.top
        message = f"{cwd}: {what}; answered for its repository, {repository}"
        return replace(
            seen,
            cwd=cwd,
            current=_vanished_one(seen.worktrees, real, there) or seen.current,
            warnings=(*seen.warnings, AnswerWarning("cwd_vanished", message, path=cwd)),
            dependencies=(*dependencies, *seen.dependencies),
        )


Value = TypeVar("Value")


def _remember(
    memory: OrderedDict[str, Value], key: str, value: Value, most: int = MAX_REMEMBERED
) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > most:
        memory.popitem(last=False)


def _with_current(
    worktrees: tuple[Worktree, ...], found: Found
) -> tuple[tuple[Worktree, ...], Worktree | None]:
    """The list, and the one in it that `cwd` is in. A worktree that was moved without `git
    worktree repair` is where its own `.git` file is; its recorded name stays a name of it."""
    if found.admin_dir is None or found.top is None:
        return worktrees, None
    admin = os.path.basename(found.admin_dir)
    listed = next((one for one in worktrees if one.admin_id == admin), None)
    if listed is None:
        return worktrees, None
    if same_folder(listed.path, found.top):
        return worktrees, listed
    names = dict.fromkeys((listed.name, *listed.other_names, admin))
    leaf = os.path.basename(found.top)
    moved = replace(
        listed,
        path=found.top,
        name=leaf,
        state="ok",
        other_names=tuple(one for one in names if one != leaf),
    )
    return tuple(moved if one is listed else one for one in worktrees), moved


def _main(path: str) -> Worktree:
    return Worktree(path, os.path.basename(path), None, None, None, False, None, "ok", main=True)


def _linked(path: str) -> Worktree:
    return replace(_main(path), main=False)


def _as_spelled(cwd: str, there: str) -> str:
    """The folder `there` above `cwd`, by the name it has in `cwd`: links have names of their own."""
    spelled = os.path.dirname(cwd)
    while not os.path.isdir(spelled):
        spelled = os.path.dirname(spelled)
    return spelled if real_path(spelled) == there else there


def _vanished_one(worktrees: tuple[Worktree, ...], real: str, there: str) -> Worktree | None:
    """The worktree that git still lists and whose folder went with `real`."""
    around = [one for one in worktrees if (real + "/").startswith(one.path + "/")]
    found = max(around, key=lambda one: len(one.path), default=None)
    return found if found is not None and len(found.path) > len(there) else None


def _warnings(found: Found) -> tuple[AnswerWarning, ...]:
    return (found.warning,) if found.warning is not None else ()


def _without_git_dir(
    cwd: str, real: str, found: Found | None, dependencies: tuple[Dependency, ...]
) -> Repository:
    """A folder outside any repository, or one whose link leads to none that is there and its own."""
    if found is None:
        return _outside(cwd, real, dependencies, ())
    top = found.top
    outside = _outside(cwd, top or real, dependencies, _warnings(found))
    described = replace(
        outside,
        kind=found.kind,
        top=top,
        main=_main(found.main) if found.main is not None else None,
        excluded_by=found.excluded_by,
        resolved_by=found.how,
    )
    if found.text is None or top is None:
        return described
    leaf, first = os.path.basename(top), found.text.worktree_id
    worktree = replace(_linked(top), other_names=(first,) if first != leaf else ())
    return replace(described, name=found.text.project, worktrees=(worktree,), current=worktree)


def _outside(
    cwd: str,
    real: str,
    dependencies: tuple[Dependency, ...],
    warnings: tuple[AnswerWarning, ...],
    name: str | None = None,
) -> Repository:
    return Repository(
        kind="none",
        cwd=cwd,
        name=os.path.basename(real) if name is None else name,
        top=None,
        common_dir=None,
        main=None,
        worktrees=(),
        current=None,
        fallback_names=(),
        superproject=None,
        resolved_by="no repository around this folder",
        warnings=warnings,
        dependencies=dependencies,
    )


def _other_owner(common_dir: str) -> tuple[AnswerWarning, ...]:
    """git refuses other people's repositories for what it would run; we run nothing of it."""
    try:
        owner = os.stat(common_dir).st_uid
    except OSError:
        return ()
    if owner == os.geteuid():
        return ()
    message = f"{common_dir} belongs to user {owner}; only its link files are read"
    return (AnswerWarning("foreign_owner", message, path=common_dir),)
