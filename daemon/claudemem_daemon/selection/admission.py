"""Which of a store's projects belong to a question's keys. Pure.

Names are compared byte for byte: `%`, `_`, letter case and Unicode forms never widen a match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.stores.sql import Wanted


@dataclass(frozen=True, slots=True)
class Admitted:
    """Projects of one store, each with the key that admits it. left_out: keys that were not asked
    for here, with the reason."""

    projects: Mapping[str, ProjectKey]
    merged: Mapping[str, ProjectKey]
    left_out: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.projects or self.merged)

    @property
    def names(self) -> dict[str, ProjectKey]:
        return {**self.projects, **self.merged}

    def wanted(self, name: str) -> Wanted:
        """The rows of one of the names."""
        return Wanted(
            (name,) if name in self.projects else (), (name,) if name in self.merged else ()
        )


def admit(
    keys: ProjectKeys,
    present: Iterable[str],
    merged: Iterable[str],
    everything: Callable[[], Iterable[str]] | None = None,
) -> Admitted:
    """The projects among `present` and among the targets of merged rows that the keys name.
    `everything` lists all projects of the store, or those that matter here, and is asked only where
    a bare key has rows; without it `present` are all.

    A worktree's folder name alone (a bare key) is left out where it may belong to another
    repository: when the store has `X/name` of another X, or `name/...`, that is, a repository of
    that name.
    """
    names, targets = tuple(present), tuple(merged)
    exact: dict[str, ProjectKey] = {}
    left_out: dict[str, str] = {}
    here = {*names, *targets}
    bare = {one.key for one in keys.keys if one.bare} & here
    owners = _owners(everything() if everything is not None else names) if bare else {}
    ours = _own_names(keys.keys)
    # A name that is a key in its own right stays one, though it is a worktree's folder as well.
    for one in sorted(keys.keys, key=lambda key: key.bare):
        if one.match != "exact" or one.key in exact:
            continue
        other = sorted(owners.get(one.key, set()) - ours) if one.bare else []
        if other:
            left_out[one.key] = f"left out: {other[0]} has one of that name too"
        else:
            exact[one.key] = one
    prefixes = [one for one in keys.keys if one.match == "prefix"]
    away = set(keys.excluded) | set(left_out)

    def key_of(name: str) -> ProjectKey | None:
        if name in away:
            return None
        return exact.get(name) or next((p for p in prefixes if name.startswith(p.key)), None)

    return Admitted(
        {name: key for name in names if (key := key_of(name)) is not None},
        {name: key for name in targets if (key := key_of(name)) is not None},
        left_out,
    )


def _own_names(keys: Iterable[ProjectKey]) -> set[str]:
    """What this repository calls itself: P and its other names."""
    names: set[str] = set()
    for one in keys:
        if one.match == "prefix":
            names.add(one.key.removesuffix("/"))
        elif not one.bare:
            names.add(one.key.partition("/")[0])
    return names


def _owners(names: Iterable[str]) -> dict[str, set[str]]:
    """Folder name -> the repositories that have a worktree, or are themselves, of that name."""
    owners: dict[str, set[str]] = {}
    for name in names:
        top, slash, leaf = name.partition("/")
        if slash:
            owners.setdefault(leaf, set()).add(top)
            owners.setdefault(top, set()).add(top)
    return owners
