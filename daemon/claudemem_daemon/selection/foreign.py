"""Path evidence: rows of another repository that happens to have the same name.

Two repositories `/one/api` and `/two/api` share the key `api` in one store. What tells them apart
is where a row's files lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from claudemem_daemon.repository.names import Identity, identity_of
from claudemem_daemon.repository.ownership import Checkout, PathOwnership
from claudemem_daemon.stores.rows import Cell


def may_be_absolute(cell: Cell) -> bool:
    """Whether a cell's list of paths can hold an absolute one; told without parsing it, and wrong
    only in saying yes."""
    if not isinstance(cell, str):
        return cell is not None
    # A JSON text that starts with an escape may start with that of a slash.
    return cell.startswith("/") or '"/' in cell or '"\\' in cell


class Neighbours:
    """Tells our repository's paths from another's. Keeps what it saw: for one answer."""

    def __init__(self, checkouts: Iterable[str], common_dirs: Iterable[str]) -> None:
        self._roots = tuple(checkout.rstrip("/") + "/" for checkout in checkouts)
        self._common_dirs = tuple(common_dirs)
        self._path_ownership = PathOwnership()

    def owner(self, paths: Iterable[str], names: Iterable[str]) -> str | None:
        """The other repository's checkout, if none of a row's absolute paths lies in our
        repository and one lies in a checkout there is now of another one that has one of `names`,
        by its own folder or by its repository's.

        A removed worktree's folder is not there any more, and so never another repository.
        """
        if not self._roots:
            return None
        absolute = [path for path in paths if path.startswith("/")]
        if any(self._is_below_ours(path + "/") for path in absolute):
            return None
        wanted = frozenset(name for name in names if name)
        other: str | None = None
        for path in absolute:
            for checkout in self._around(path, wanted):
                if checkout.repository in self._ours:
                    return None
                if other is None and not wanted.isdisjoint(checkout.names):
                    other = checkout.folder
        return other

    def _is_below_ours(self, path: str) -> bool:
        """By its spelling, which needs no look at anything."""
        return path.startswith(self._roots) and "/../" not in path

    def _around(self, path: str, wanted: frozenset[str]) -> tuple[Checkout, ...]:
        # What a row names is mostly a file, and of a link to a file only the folder counts.
        folder, _, leaf = path.rstrip("/").rpartition("/")
        whole = leaf in wanted or leaf == ".."
        return self._path_ownership.around(path if whole else folder)

    @cached_property
    def _ours(self) -> frozenset[Identity]:
        found = (identity_of(one) for one in self._common_dirs)
        return frozenset(one for one in found if one is not None)
