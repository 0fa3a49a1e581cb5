"""Which checkouts there are around any path, however it is spelled."""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import MAX_LINKS, folder_identity, something_at
from claudemem_daemon.repository.layout import checkout_at
from claudemem_daemon.repository.records import named_after

MAX_BYTES: Final = 4096
"""Of a path; no file system takes a longer one."""
MAX_REMEMBERED: Final = 20_000


class Checkout(NamedTuple):
    """A folder with a git directory or a link to one. All worktrees of one repository have the same
    `repository`."""

    folder: str
    repository: tuple[int, int]
    """Device and inode of the common git directory."""
    names: frozenset[str]
    """The folder's, under each name it was reached by, and the repository's."""


class _Step(NamedTuple):
    path: str
    """With links followed as far as there is something."""
    there: bool
    """Whether it is a folder that can hold others."""
    checkouts: tuple[Checkout, ...]
    """Those it is in or is, the innermost first."""


class PathOwnership:
    """Checks each folder once, and none below a missing one. For one answer: it does not notice
    changes."""

    def __init__(self) -> None:
        self._steps: dict[str, _Step] = {}

    def around(self, path: str) -> tuple[Checkout, ...]:
        """The checkouts that hold the absolute `path`, or are it; the innermost first. Symbolic
        links and `..` mean what they mean to the system; where nothing is any more, what the text
        says."""
        return self._resolved(path, MAX_LINKS).checkouts

    def _resolved(self, path: str, links: int) -> _Step:
        if path in self._steps or not _possible(path):
            return self._steps.get(path, _ROOT)
        if len(self._steps) > MAX_REMEMBERED:
            self._steps.clear()
        step, spelled, back = _ROOT, "", "/.." in path
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if not (step.there or back):
                break
            spelled = f"{spelled}/{part}"
            known = self._steps.get(spelled)
            if known is None:
                if part == "..":
                    known = self._resolved(os.path.dirname(step.path), links)
                else:
                    known = self._below(step, part, links)
                self._steps[spelled] = known
            step = known
        return step

    def _below(self, above: _Step, name: str, links: int) -> _Step:
        path = os.path.join(above.path, name)
        gone = _Step(path, False, above.checkouts)
        if not above.there:
            return gone
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return self._behind(above, path, os.readlink(path), links)
        except OSError:
            return gone
        if not stat.S_ISDIR(mode):
            return gone
        own = _checkout(path)
        return _Step(path, True, (own, *above.checkouts) if own is not None else above.checkouts)

    def _behind(self, above: _Step, path: str, target: str, links: int) -> _Step:
        """What a symbolic link leads to; a checkout's own folder has its name as well then."""
        if not links:
            return _Step(path, False, above.checkouts)
        target = os.path.join(above.path, target)
        step = self._resolved(target, links - 1)
        if not step.there:
            return _Step(os.path.normpath(target), False, step.checkouts)
        if not step.checkouts or step.checkouts[0].folder != step.path:
            return step
        own, *others = step.checkouts
        named = own._replace(names=own.names | {os.path.basename(path)})
        return step._replace(checkouts=(named, *others))


_ROOT: Final = _Step("/", True, ())


def _possible(path: str) -> bool:
    try:
        return "\0" not in path and len(os.fsencode(path)) <= MAX_BYTES
    except UnicodeEncodeError:
        return False


def _checkout(folder: str) -> Checkout | None:
    """The checkout whose root is `folder`. A link to a missing git directory makes none; a link to
    another folder's makes it a repository of its own."""
    if not something_at(os.path.join(folder, ".git")):
        return None
    found = checkout_at(folder)
    if found is None or (found.common_dir is None and (found.link_text or found.top is None)):
        return None
    identity = folder_identity(found.common_dir or folder)
    if identity is None:
        return None
    own_name = name = os.path.basename(folder)
    if found.main is not None:
        name = found.main.name
    elif found.common_dir is not None:
        name = named_after(found.common_dir, found.kind)
    return Checkout(folder, identity, frozenset((own_name, name)))
