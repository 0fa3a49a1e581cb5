"""From a working directory to its repository."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from claudemem_daemon.dependencies import (
    each_path_once,
    forget_paths,
    is_folder,
    real_path,
    record,
    recording,
    something_at,
    unrecorded,
)
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.memo import Memo
from claudemem_daemon.notices import watch
from claudemem_daemon.repository import layout
from claudemem_daemon.repository.gitfiles import same_folder
from claudemem_daemon.repository.model import Repository, Worktree, linked_worktree
from claudemem_daemon.repository.records import around, named_after
from claudemem_daemon.repository.separate import with_main
from claudemem_daemon.repository.worktrees import Listing, list_worktrees
from claudemem_daemon.warning import AnswerWarning

WORKTREE_WEIGHT: Final = 20
"""Bytes; the worktrees themselves belong to their list, which is shared."""

MAX_DEPTH: Final = 8
"""Submodules in submodules."""

MANY_WORKTREES: Final = 64
"""From here on the kernel watches the links of a repository's worktrees: a stat for each would cost
a warm answer more than everything else."""


class Repositories:
    """What was resolved, by working directory. Safe from several threads."""

    def __init__(self, home: str | None, memo: Memo | None = None) -> None:
        self._home = os.path.realpath(home) if home else None
        self._memo = memo or Memo()

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
            return self._memo.value(
                ("repository", cwd),
                lambda: self._resolved(cwd),
                lambda made: WORKTREE_WEIGHT * len(made.worktrees),
            )

    def _resolved(self, cwd: str) -> Repository:
        with recording() as recorded:
            repository = self._resolve(cwd)
        return repository._replace(dependencies=tuple(recorded.values()))

    def known(self) -> tuple[Repository, ...]:
        """The repositories answered for so far, as far as they are remembered; each once."""
        found: Iterable[Repository] = self._memo.last_of("repository")
        return tuple({each.common_dir or each.cwd: each for each in found}.values())

    def _resolve(self, cwd: str, depth: int = 0) -> Repository:
        found = self._find(cwd)
        if found.gone:
            return self._vanished(found, depth)
        if found.common_dir is None:
            return _without_git_dir(found)
        return self._in_git(found, found.common_dir, depth)

    def _find(self, cwd: str) -> Repository:
        found: Repository = self._memo.value(("found", cwd), lambda: layout.find(cwd, self._home))
        record(*found.dependencies)
        return found

    def _in_git(self, found: Repository, common_dir: str, depth: int) -> Repository:
        listing = self._list(common_dir)
        found = with_main(found, listing.worktrees)
        if found.common_dir is None:
            return _without_git_dir(found)
        main, kind = found.main, found.kind
        worktrees, current = _with_current(listing.worktrees, found)
        if current is None and main is not None and found.top == main.path:
            current = main
        folder = around(common_dir, kind)
        name = (main is not None and main.name) or named_after(common_dir, kind)
        others: list[str] = []
        # The name of a git directory inside the checkout is the choice of whoever made that.
        inside = main is not None and common_dir.startswith(f"{main.path}/")
        if not inside and (kind == "separate" or (kind == "submodule" and found.admin_dir)):
            others.append(os.path.basename(common_dir).removesuffix(".git"))
        link = self._link_name(found, found.top or folder)
        if link is not None and current is not None and not current.main:
            renamed = current._replace(other_names=(*current.other_names, link))
            worktrees = tuple(renamed if tree is current else tree for tree in worktrees)
            current = renamed
        elif link is not None:
            others.append(link)
        superproject = None
        if kind == "submodule" and found.top is not None and depth < MAX_DEPTH:
            outside = os.path.dirname(main.path if main is not None else found.top)
            superproject = self._superproject(outside, common_dir, depth)
        return found._replace(
            name=name,
            worktrees=worktrees,
            current=current,
            fallback_names=tuple(
                other for other in dict.fromkeys(others) if other not in ("", name)
            ),
            superproject=superproject,
            excluded_by=(folder,),
        )

    def _superproject(self, outside: str, common_dir: str, depth: int) -> Repository | None:
        """The repository around a submodule, if the submodule's git directory lies in its own."""
        outer = self._resolve(outside, depth + 1)
        inside = outer.common_dir is not None and common_dir.startswith(outer.common_dir + "/")
        return outer if inside else None

    def _link_name(self, found: Repository, top: str) -> str | None:
        """The last part of a symbolic link through which `cwd` reached `top`, if it has another
        name, and if no repository brought the link along."""
        cwd, real = found.cwd, found.real
        below = real.removeprefix(top) if real.startswith(f"{top}/") else ""
        if cwd == real or not cwd.endswith(below):
            return None
        above, leaf = os.path.split(cwd.removesuffix(below))
        if not leaf or leaf == os.path.basename(top):
            return None
        brought = self._find(real_path(above))
        return None if brought.top or brought.common_dir else leaf

    def _list(self, common_dir: str) -> Listing:
        key = ("worktrees", common_dir)
        before: Listing = self._memo.last(key) or Listing()

        def make() -> Listing:
            listing = list_worktrees(common_dir, before.links)
            many = len(listing.links) >= MANY_WORKTREES
            return self._watched(common_dir, listing) if many else listing

        with unrecorded():
            listing = self._memo.value(key, make)
        record(*listing.dependencies)
        if before is not listing and before.group is not None:
            before.group.close()
        return listing

    def _watched(self, common_dir: str, listing: Listing) -> Listing:
        """The list again, checked after it is watched: from then on no change can be missed."""
        group = watch(listing.links)
        if group is None:
            return listing
        forget_paths()
        known = {
            path: link
            for path, link in listing.links.items()
            if link.marker is not None and link.marker.holds()
        }
        anew = list_worktrees(common_dir, known)
        if anew.links.keys() != listing.links.keys():
            group.close()
            return anew
        return anew.watched(group)

    def _vanished(self, found: Repository, depth: int) -> Repository:
        """Of a folder that is gone: the repository around what is left of its path, if any."""
        cwd = found.cwd
        there = os.path.dirname(cwd)
        while not is_folder(there):
            there = os.path.dirname(there)
        real = real_path(there)
        around = self._resolve(there, depth) if real != self._home else None
        what = "this is not a folder" if something_at(cwd) else "no such folder"
        if around is None or (around.common_dir is None and around.top is None):
            warnings = (AnswerWarning("cwd_vanished", f"{cwd}: {what}", path=cwd),)
            return found._replace(warnings=warnings)
        repository = around.main.path if around.main else around.common_dir or around.top
        message = f"{cwd}: {what}; answered for its repository, {repository}"
        return around._replace(
            cwd=cwd,
            current=_vanished_worktree(around.worktrees, found.real, real) or around.current,
            warnings=(*around.warnings, AnswerWarning("cwd_vanished", message, path=cwd)),
        )


def _with_current(
    worktrees: tuple[Worktree, ...], found: Repository
) -> tuple[tuple[Worktree, ...], Worktree | None]:
    """The list, and the one in it that `cwd` is in. A worktree that was moved without `git worktree
    repair` is where its `.git` file is, and keeps its recorded name as another one."""
    if found.admin_dir is None or found.top is None:
        return worktrees, None
    admin = os.path.basename(found.admin_dir)
    listed = next((tree for tree in worktrees if tree.admin_id == admin), None)
    leaf = os.path.basename(found.top)
    if listed is None:
        # git works in a worktree whose record is lost, and only leaves it out of its list.
        lost = linked_worktree(found.top, admin, admin)
        return (*worktrees, lost), lost
    if same_folder(listed.path, found.top):
        return worktrees, listed
    names = dict.fromkeys((listed.name, *listed.other_names, admin))
    moved = listed._replace(
        path=found.top,
        name=leaf,
        state="ok",
        other_names=tuple(name for name in names if name != leaf),
    )
    return tuple(moved if tree is listed else tree for tree in worktrees), moved


def _vanished_worktree(worktrees: tuple[Worktree, ...], real: str, there: str) -> Worktree | None:
    """The worktree that git still lists and whose folder went with `real`."""
    around = [tree for tree in worktrees if (real + "/").startswith(tree.path + "/")]
    found = max(around, key=lambda tree: len(tree.path), default=None)
    return found if found is not None and len(found.path) > len(there) else None


def _without_git_dir(found: Repository) -> Repository:
    """A folder outside any repository, or without one that is reachable and its own."""
    top, text = found.top, found.link_text
    if top is None or text is None:
        return found._replace(name=os.path.basename(top or found.real))
    worktree = linked_worktree(top, text.worktree_id)
    return found._replace(name=text.project, worktrees=(worktree,), current=worktree)
