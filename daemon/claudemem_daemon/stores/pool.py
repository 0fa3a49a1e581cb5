"""The stores that are open, also between requests, until nobody asks for them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from typing import Final, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.interface import Store, StoreReader, StoreUse
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.recent import RecentRows, RecentValues
from claudemem_daemon.stores.sqlite_store import SqliteStore

T = TypeVar("T")

MAX_STORES: Final = 1024
"""What is known of more is forgotten, that of those first that were not asked for longest."""
SWEEP_SECONDS: Final = 0.025
CLOSING_SECONDS: Final = 2.0
"""How long the end of the program waits for a file system that does not answer."""


class StorePool:
    """Every store that was asked lately. Safe from several threads."""

    def __init__(self, idle_seconds: float | None = None, *, untouched: bool = False) -> None:
        """idle_seconds: instead of those of each kind of store. untouched: leave no side files
        beside stores that nobody has open."""
        self._untouched = untouched
        self._idle_seconds = idle_seconds
        self._stores: OrderedDict[str, Store] = OrderedDict()
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._closed = threading.Event()
        self._sweeper: threading.Thread | None = None
        self._asked = False
        """Whether a store was asked for since the sweeper looked."""
        self._values = RecentValues()
        self._recent = RecentRows()

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """As `StoreReader.made`, for what depends on several stores."""
        return self._values.made(of, make)

    def reading(
        self, ref: StoreRef, deadline: Deadline, *, locked: bool = True
    ) -> AbstractContextManager[StoreReader]:
        """One state of the store, for one request.

        What is read with `locked=False` keeps no writer waiting, and has to be confirmed at its end
        (`StoreReader.confirm`). Raises `StoreError` for everything that keeps the store from being
        read, also in the middle, and `StoreChanged`.
        """
        return self._store(ref).reading(deadline, locked=locked)

    def failed(self, ref: StoreRef, error: StoreError) -> None:
        """A reading that was caught in the middle, for `describe` and for the back-off."""
        self._store(ref).failed(error)

    def describe(self) -> tuple[StoreUse, ...]:
        with self._lock:
            stores = list(self._stores.values())
        told = (store.describe() for store in stores)
        return tuple(use for use in told if use.reason != "missing")

    def close(self) -> None:
        """Let go of everything; a reading that still runs is ended."""
        with self._lock:
            stores = list(self._stores.values())
            self._stores.clear()
            self._closed.set()
            sweeper = self._sweeper
        for store in stores:
            store.interrupt()
        # A thread of its own: closing a file may hang where its file system does.
        closing = threading.Thread(target=_let_go, args=(stores,), daemon=True)
        closing.start()
        closing.join(CLOSING_SECONDS)
        if sweeper is not None:
            sweeper.join(CLOSING_SECONDS)

    def _store(self, ref: StoreRef) -> Store:
        evicted: list[Store] = []
        with self._lock:
            store = self._stores.get(ref.path)
            if store is not None and ref.url not in (None, store.url):
                # What was corrected may be the password, which is no part of the path.
                store.interrupt()
                evicted.append(self._stores.pop(ref.path))
                store = None
            if store is None:
                store = self._stores[ref.path] = self._make(ref)
            self._stores.move_to_end(ref.path)
            while len(self._stores) > MAX_STORES:
                evicted.append(self._stores.popitem(last=False)[1])
            self._asked = True
            if self._sweeper is None and not self._closed.is_set():
                self._sweeper = threading.Thread(
                    target=self._sweep, name="claudemem-stores", daemon=True
                )
                self._sweeper.start()
        for left in evicted:
            left.retire()
        return store

    def _make(self, ref: StoreRef) -> Store:
        """A store of the kind that the reference names."""
        if ref.url is not None:
            # psycopg is an extra, and loaded for those who use it alone.
            from claudemem_daemon.stores.postgres import make_store

            return make_store(ref.path, ref.url, self._numbers, self._recent)
        return SqliteStore(ref.path, self._numbers, self._recent, untouched=self._untouched)

    def _sweep(self) -> None:
        """Let go of stores that nobody has asked for a while; ends when none is open."""
        while not self._closed.wait(SWEEP_SECONDS):
            now = time.monotonic()
            with self._lock:
                used = [(store, store.idle_since) for store in self._stores.values()]
                if not self._asked and all(since is None for _, since in used):
                    self._sweeper = None
                    return
                self._asked = False
            _let_go([store for store, since in used if since and now - since > self._idle(store)])

    def _idle(self, store: Store) -> float:
        return store.IDLE_SECONDS if self._idle_seconds is None else self._idle_seconds


def _let_go(stores: list[Store]) -> None:
    for store in stores:
        store.let_go()
