"""Values that were made from an object, remembered as long as that object lives."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class Derived(Generic[K, V]):
    """Values by the identity of the object that they were made from, so that no large object is
    compared. Does not keep that object alive. Safe from several threads: each operation is one of
    a dict.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[ref[K], V]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def get(self, of: K) -> V | None:
        """What was put last for this object."""
        found = self._made.get(id(of))
        return found[1] if found is not None and found[0]() is of else None

    def put(self, of: K, value: V) -> V:
        number, made = id(of), self._made

        def gone(dead: ref[K]) -> None:
            # Another object may have the number by now.
            entry = made.get(number)
            if entry is not None and entry[0] is dead:
                del made[number]

        made[number] = (ref(of, gone), value)
        return value
