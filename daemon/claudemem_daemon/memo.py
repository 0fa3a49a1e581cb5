"""Values that are reused while everything they depend on holds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from claudemem_daemon.dependencies import Dependency, all_hold

MAX_COUNT: Final = 2048
MAX_WEIGHT: Final = 4 * 1024 * 1024
"""Bytes, about, of all values together."""
BASE_WEIGHT: Final = 500
DEPENDENCY_WEIGHT: Final = 350


class Dependent(Protocol):
    """A value that knows what it was made from."""

    @property
    def dependencies(self) -> Iterable[Dependency]: ...


V = TypeVar("V", bound=Dependent)


class _Entry(NamedTuple):
    value: Dependent
    dependencies: tuple[Dependency, ...]
    weight: int


class Memo:
    """Values by key, whose first part tells the kind of value. The one used longest ago is removed
    first; none expires by time. Safe from several threads; no path is checked under the lock."""

    def __init__(self, max_count: int = MAX_COUNT, max_weight: int = MAX_WEIGHT) -> None:
        self._max_count = max_count
        self._max_weight = max_weight
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """Bytes, about; never more than the bound."""
        return self._weight

    def value(
        self, key: Hashable, make: Callable[[], V], weigh: Callable[[V], int] = lambda _: 0
    ) -> V:
        """The value of `key` while its dependencies hold, else what `make` makes. `weigh` gives the
        bytes a value takes besides its dependencies."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value, weigh(value))
        return cast(V, value)

    def get(self, key: Hashable) -> Any:
        """The value of `key` while its dependencies hold, else None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        if all_hold(entry.dependencies):
            return entry.value
        return None

    def last(self, key: Hashable) -> Any:
        """The value of `key` whether or not it still holds; touches no path."""
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    def last_of(self, kind: str) -> list[Any]:
        """Those whose keys begin with `kind`, the one used longest ago first."""
        with self._lock:
            entries = list(self._entries.items())
        return [entry.value for key, entry in entries if isinstance(key, tuple) and key[0] == kind]

    def put(self, key: Hashable, value: Dependent, weight: int = 0) -> None:
        dependencies = tuple(dict.fromkeys(value.dependencies))
        weight += BASE_WEIGHT + DEPENDENCY_WEIGHT * len(dependencies)
        with self._lock:
            self._forget(key)
            # A value that fills more than a quarter would push out most others.
            if weight > self._max_weight // 4:
                return
            self._entries[key] = _Entry(value, dependencies, weight)
            self._weight += weight
            while len(self._entries) > self._max_count or self._weight > self._max_weight:
                self._forget(next(iter(self._entries)))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _forget(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry.weight
