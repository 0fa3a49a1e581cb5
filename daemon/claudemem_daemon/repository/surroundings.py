"""Which checkouts there are around any path: judged by what they are, not by how they are spelled."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.repository import gitfiles
from claudemem_daemon.repository.layout import (
    common_dir_of,
    layout_of,
    link_target,
    named_after,
)

Identity = tuple[int, int]
"""device, inode"""

MOST_BYTES: Final = 4096
"""No file system takes a longer path, so there is nothing at one."""
MOST_LINKS: Final = 40
MOST_REMEMBERED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with a git directory of its own or a link to one. Two spellings of one checkout, and
    all worktrees of one repository, have the same `repository`."""

    folder: str
    repository: Identity
    """Of the common git directory."""
    names: frozenset[str]
    """The folder's, under each name it was reached by, and the repository's."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    """With links followed as far as there is something."""
    there: bool
    """Whether it is a folder that can hold others."""
    checkouts: tuple[Checkout, ...]
    """Those it is in or is, the innermost first."""


class Surroundings:
    """Looks at each folder once, and at none below one that is not there. For one answer: what was
    found out is not checked again."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def around(self, path: str) -> tuple[Checkout, ...]:
        """The checkouts that hold the absolute `path`, or are it; the innermost first. Symbolic
        links and `..` mean what they mean to the system; where nothing is any more, what the text
        says."""
        return self._place(path, MOST_LINKS).checkouts

    def _place(self, path: str, links: int) -> _Place:
        known = self._places.get(path)
        if known is not None:
            return known
        if not _possible(path):
            return _ROOT
        if len(self._places) > MOST_REMEMBERED:
            self._places.clear()
        place = _ROOT
        spelled = ""
        back = "/.." in path
        for part in path.split("/"):
            if part in ("", "."):
                continue
            spelled = f"{spelled}/{part}"
            if part != ".." and not place.there:
                if not back:
                    return place
                place = _Place(os.path.join(place.path, part), False, place.checkouts)
                continue
            known = self._places.get(spelled)
            if known is None:
                if part == "..":
                    known = self._place(os.path.dirname(place.path), links)
                else:
                    known = self._below(place, part, links)
                self._places[spelled] = known
            place = known
        return place

    def _below(self, above: _Place, name: str, links: int) -> _Place:
        path = os.path.join(above.path, name)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return _Place(path, False, above.checkouts)
        if stat.S_ISLNK(mode):
            return self._behind(above, path, links)
        if not stat.S_ISDIR(mode):
            return _Place(path, False, above.checkouts)
        own = _checkout(path)
        return _Place(path, True, (own, *above.checkouts) if own is not None else above.checkouts)

    def _behind(self, above: _Place, path: str, links: int) -> _Place:
        """What a symbolic link leads to; a checkout's own folder has its name as well then."""
        try:
            target = os.path.join(above.path, os.readlink(path)) if links else ""
        except OSError:
            target = ""
        if not target:
            return _Place(path, False, above.checkouts)
        place = self._place(target, links - 1)
        if not place.there:
            return _Place(os.path.normpath(target), False, place.checkouts)
        if not place.checkouts or place.checkouts[0].folder != place.path:
            return place
        own, *others = place.checkouts
        named = Checkout(own.folder, own.repository, own.names | {os.path.basename(path)})
        return _Place(place.path, place.there, (named, *others))


_ROOT: Final = _Place("/", True, ())


def identity_of(common_dir: str) -> Identity | None:
    """What tells one git directory from another, whatever its path; None where there is none."""
    try:
        seen = os.stat(common_dir)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def _possible(path: str) -> bool:
    try:
        return "\0" not in path and len(os.fsencode(path)) <= MOST_BYTES
    except UnicodeEncodeError:
        return False


def _checkout(folder: str) -> Checkout | None:
    """The checkout whose root is `folder`; a link that leads nowhere makes none."""
    marker = os.path.join(folder, ".git")
    try:
        whole = stat.S_ISDIR(os.stat(marker).st_mode)
    except OSError:
        return None
    git_dir = marker if whole else link_target(marker)[0]
    if git_dir is None or not gitfiles.is_git_dir(git_dir):
        return None
    common = common_dir_of(git_dir)
    identity = identity_of(common)
    if identity is None:
        return None
    kind, main = layout_of(common)
    name = os.path.basename(main) if main is not None else named_after(common, kind)
    return Checkout(folder, identity, frozenset((os.path.basename(folder), name)))
