"""Path evidence: rows of another repository that happens to have the same name.

Two repositories `/one/api` and `/two/api` share the key `api` in one store. What tells them apart
is where a row's files lie.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from claudemem_daemon.stores.rows import Cell

Exists = Callable[[str], bool]


def roots_of(checkouts: Iterable[str]) -> tuple[str, ...]:
    """What the paths inside our checkouts start with."""
    return tuple(checkout.rstrip("/") + "/" for checkout in checkouts)


def may_be_absolute(cell: Cell) -> bool:
    """Whether a cell's list of paths can hold an absolute one; told without parsing it, and wrong
    only in saying yes."""
    if not isinstance(cell, str):
        return cell is not None
    # A JSON text that starts with an escape may start with that of a slash.
    return cell.startswith("/") or '"/' in cell or '"\\' in cell


def another_repository(
    paths: Iterable[str], names: Iterable[str], roots: tuple[str, ...], exists: Exists
) -> str | None:
    """The other repository's folder, if every absolute path of a row lies outside our `roots`
    and one of them inside another folder with one of our `names` that is a checkout now.

    A removed worktree's folder is not there any more, and so never another repository. `exists`
    is asked for `<folder>/.git`.
    """
    if not roots:
        return None
    absolute = [path for path in paths if path.startswith("/") and "\0" not in path]
    if not absolute or any((path + "/").startswith(roots) for path in absolute):
        return None
    wanted = {name for name in names if name}
    for path in absolute:
        folder = os.path.dirname(os.path.normpath(path))
        while len(folder) > 1:
            if os.path.basename(folder) in wanted and exists(os.path.join(folder, ".git")):
                return folder
            folder = os.path.dirname(folder)
    return None
