"""Which of a store's projects belong to a question's keys.

Names are compared byte for byte: `%`, `_`, letter case and Unicode forms never widen a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.stores.interface import COLUMNS, StoreReader
from claudemem_daemon.stores.sql import TABLES, Wanted

MAX_PROBES: Final = 512
"""With more keys than this, all names of the store are listed instead of looking up each key."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """Projects of one store, each with the key that admits it. left_out: keys that are not used in
    this store, with the reason."""

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


def _admit(
    keys: ProjectKeys, present: Iterable[str], merged: Iterable[str], others: Iterable[str]
) -> Admitted:
    """The projects among `present`, and among `merged` (the targets of merged rows), that the keys
    name. `others` are all projects of the store, or those that matter to bare keys.

    A bare key, a worktree's folder name alone, is left out where it may belong to another
    repository: where the store has `X/name` of another X, or `name/...`, which means a repository
    of that name.
    """
    names, targets = tuple(present), tuple(merged)
    exact: dict[str, ProjectKey] = {}
    left_out: dict[str, str] = {}
    here = {*names, *targets}
    bare = {key.key for key in keys.keys if key.bare} & here
    owners = _owners(others) if bare else {}
    ours = _own_names(keys.keys)
    # Keys that are not bare first: a name that is such a key stays one.
    for key in sorted(keys.keys, key=attrgetter("bare")):
        if key.match != "exact" or key.key in exact:
            continue
        other = sorted(owners.get(key.key, set()) - ours) if key.bare else []
        if other:
            left_out[key.key] = f"left out: {other[0]} has one of that name too"
        else:
            exact[key.key] = key
    prefixes = [key for key in keys.keys if key.match == "prefix"]
    unwanted = set(keys.excluded) | set(left_out)

    def key_of(name: str) -> ProjectKey | None:
        if name in unwanted:
            return None
        return exact.get(name) or next((p for p in prefixes if name.startswith(p.key)), None)

    return Admitted(
        {name: found for name in names if (found := key_of(name)) is not None},
        {name: found for name in targets if (found := key_of(name)) is not None},
        left_out,
    )


def _own_names(keys: Iterable[ProjectKey]) -> set[str]:
    """What this repository calls itself: P and its other names."""
    names: set[str] = set()
    for key in keys:
        if key.match == "prefix":
            names.add(key.key.removesuffix("/"))
        elif not key.bare:
            names.add(key.key.partition("/")[0])
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


def match_keys(reader: StoreReader, keys: ProjectKeys) -> tuple[Admitted, Admitted]:
    """The projects of observations, and those of session summaries, that the keys name. The names in
    both tables decide whether a bare key is left out. Raises `StoreError`."""
    if len(keys.keys) > MAX_PROBES and any(key.bare for key in keys.keys):
        names = [reader.projects(table, column) for table in TABLES for column in COLUMNS]
        return reader.made(
            ("admitted of all", keys, *names),
            lambda: _admit_both(keys, [_among(keys, n) for n in names], (*names[0], *names[2])),
        )
    exact, prefixes = _by_match(keys)
    present = [names for table in TABLES for names in reader.present(table, exact, prefixes)]
    found = {name for names in present for name in names}
    bare = [key.key for key in keys.keys if key.bare and key.key in found]
    others = reader.namesakes(bare) if bare else ()
    return reader.made(
        ("admitted", keys, *present, others), lambda: _admit_both(keys, present, others)
    )


def _admit_both(
    keys: ProjectKeys, names: Sequence[Iterable[str]], others: Sequence[str]
) -> tuple[Admitted, Admitted]:
    """names: projects and targets of observations, then of summaries."""
    observed, merged, summarized, merged_summaries = names
    return (
        _admit(keys, observed, merged, others),
        _admit(keys, summarized, merged_summaries, others),
    )


def _among(keys: ProjectKeys, names: Sequence[str]) -> Iterable[str]:
    """As `StoreReader.present`, in the same order, from a list of all names."""
    exact, prefixes = _by_match(keys)
    every = frozenset(names)
    found = [name for prefix in prefixes for name in names if name.startswith(prefix)]
    return dict.fromkeys((*found, *(name for name in exact if name in every)))


def _by_match(keys: ProjectKeys) -> tuple[list[str], list[str]]:
    return (
        [key.key for key in keys.keys if key.match == "exact"],
        [key.key for key in keys.keys if key.match == "prefix"],
    )
