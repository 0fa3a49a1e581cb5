"""Which projects of an open store a question's keys name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.admission import Admitted, admit
from claudemem_daemon.stores.interface import COLUMNS, StoreReader
from claudemem_daemon.stores.sql import Table

MAX_PROBES: Final = 64
"""More keys are not looked up one by one where all names have to be listed anyhow."""


def match_keys(reader: StoreReader, table: Table, keys: ProjectKeys) -> Admitted:
    """What `admit` says of this table. Raises `StoreError`."""
    if len(keys.keys) > MAX_PROBES and any(key.bare for key in keys.keys):
        names, targets = (reader.projects(table, column) for column in COLUMNS)
        return reader.made(
            ("admitted of all", table, keys, names, targets),
            lambda: admit(keys, _among(keys, names), _among(keys, targets), lambda: names),
        )
    exact, prefixes = _by_match(keys)
    present, merged = reader.present(table, exact, prefixes)
    found = {*present, *merged}
    bare = [key.key for key in keys.keys if key.bare and key.key in found]
    others = reader.namesakes(table, bare) if bare else ()
    return reader.made(
        ("admitted", table, keys, present, merged, others),
        lambda: admit(keys, present, merged, lambda: others),
    )


def _among(keys: ProjectKeys, names: Sequence[str]) -> Iterable[str]:
    """What `StoreReader.present` finds, in its order, in a list of all names."""
    exact, prefixes = _by_match(keys)
    every = frozenset(names)
    found = [name for prefix in prefixes for name in names if name.startswith(prefix)]
    return dict.fromkeys((*found, *(name for name in exact if name in every)))


def _by_match(keys: ProjectKeys) -> tuple[list[str], list[str]]:
    return (
        [key.key for key in keys.keys if key.match == "exact"],
        [key.key for key in keys.keys if key.match == "prefix"],
    )
