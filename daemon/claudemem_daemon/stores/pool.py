"""Open connections to stores, kept between requests, and the glance that tells a change."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeVar

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.connection import (
    Connection,
    Identity,
    Replaced,
    Sentinel,
    identify,
    may_be_immutable,
    translate,
    wal_pending,
)
from claudemem_daemon.stores.kept import Kept
from claudemem_daemon.stores.model import Schema, StoreRef, StoreState
from claudemem_daemon.stores.reader import StoreReader
from claudemem_daemon.stores.recent import RecentRows
from claudemem_daemon.stores.schema import probe

T = TypeVar("T")

MOST_STORES: Final = 128
IDLE_CONNECTIONS: Final = 2
"""Kept open for each store between requests; more are opened while more requests run."""
MOST_TRIES: Final = 5
"""How often a store that is replaced at every look is opened again."""
BACK_OFF_SECONDS: Final = 5.0
"""How long a store with I/O errors is left alone; a network share does not get better by asking."""


@dataclass(slots=True)
class _Store:
    path: str
    identity: Identity | None = None
    idle: list[Connection] = field(default_factory=list)
    open: int = 0
    sentinel: Sentinel | None = None
    mark: int = 0
    """Number of the sentinel in the pool's life: each counts versions from the start."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    glance: threading.Lock = field(default_factory=threading.Lock)
    """Held while the sentinel is used; apart from `lock`, for a locked store can keep it long."""
    schema: tuple[Identity, int, Schema] | None = None
    """Of which file, at which PRAGMA schema_version; one value, for threads read it at any time."""
    error: StoreError | None = None
    asleep_until: float = 0.0
    read_ms: float | None = None
    kept: Kept = field(default_factory=Kept)


@dataclass(frozen=True, slots=True)
class StoreUse:
    """What `status` tells of one store; `read_ms` is how long its last reading took."""

    path: str
    ok: bool
    error: str | None
    reason: str | None
    schema_version: int | None
    connections: int
    read_ms: float | None


class StorePool:
    """Every open store. Safe from several threads; a connection serves one at a time."""

    def __init__(self) -> None:
        self._stores: OrderedDict[str, _Store] = OrderedDict()
        self._lock = threading.Lock()
        self._marks = count(1)
        self._closed = False
        self._kept = Kept()
        self._recent = RecentRows()

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """As `StoreReader.made`, for what depends on several stores."""
        return self._kept.made(of, make)

    @contextmanager
    def reading(self, ref: StoreRef, deadline: Deadline) -> Iterator[StoreReader]:
        """One consistent state of the store, for one request.

        Raises `StoreError` for everything that keeps it from being read, also in the middle.
        """
        store = self._store(ref.path)
        known = store.error
        if known is not None and time.monotonic() < store.asleep_until:
            raise StoreError(known.message, path=known.path, reason=known.reason)
        started = time.monotonic()
        try:
            with self._connection(store, deadline) as (connection, version):
                connection.begin(deadline)
                try:
                    schema = self._schema(store, connection)
                    # Before the reading: what goes wrong in its middle is told by `failed`.
                    store.error = None
                    yield StoreReader(connection, schema, version, store.kept, self._recent)
                finally:
                    connection.end()
        except apsw.Error as error:
            raise self._failed(store, translate(error, ref.path)) from None
        except StoreError as error:
            raise self._failed(store, error) from None
        store.read_ms = (time.monotonic() - started) * 1000

    def failed(self, path: str, error: StoreError) -> None:
        """A reading that was caught in the middle, for `describe` and for the back-off."""
        self._failed(self._store(path), error)

    def unchanged(self, states: Iterable[StoreState]) -> bool:
        """Whether each store is the same file in the same state. Costs a stat and one step of
        SQLite each, waits for nothing; any doubt is a no."""
        for state in states:
            store = self._stores.get(state.path)
            if store is None or state.identity is None or store.sentinel is None:
                return False
            try:
                seen = os.stat(state.path)
            except OSError:
                return False
            if (seen.st_dev, seen.st_ino) != state.identity or store.identity != state.identity:
                return False
            if not store.glance.acquire(blocking=False):
                return False
            try:
                if _stamp(store, 0) != state.data_version:
                    return False
            except apsw.Error:
                return False
            finally:
                store.glance.release()
        return True

    def describe(self) -> tuple[StoreUse, ...]:
        with self._lock:
            stores = list(self._stores.values())
        return tuple(
            StoreUse(
                one.path,
                one.error is None,
                one.error.message if one.error is not None else None,
                one.error.reason if one.error is not None else None,
                one.schema[2].version if one.schema is not None else None,
                one.open,
                one.read_ms,
            )
            for one in stores
        )

    def close(self) -> None:
        """Let go of everything; a reading that still runs closes its connection itself."""
        self._closed = True
        with self._lock:
            stores = list(self._stores.values())
            self._stores.clear()
        for store in stores:
            _let_go(store)

    def _store(self, path: str) -> _Store:
        with self._lock:
            store = self._stores.get(path)
            if store is None:
                store = self._stores[path] = _Store(path)
            self._stores.move_to_end(path)
            evicted = []
            while len(self._stores) > MOST_STORES:
                evicted.append(self._stores.popitem(last=False)[1])
        for one in evicted:
            _let_go(one)
        return store

    @contextmanager
    def _connection(
        self, store: _Store, deadline: Deadline
    ) -> Iterator[tuple[Connection, int | None]]:
        """A connection of the file that is there now, and the version it had before we read."""
        connection = self._idle_or_new(store, deadline)
        identity = connection.identity
        healthy = False
        try:
            yield connection, self._version(store, connection, deadline)
            healthy = True
        finally:
            with store.lock:
                keep = (
                    healthy
                    and not connection.immutable
                    and store.identity == identity
                    and len(store.idle) < IDLE_CONNECTIONS
                    and not self._closed
                )
                if keep:
                    store.idle.append(connection)
                else:
                    store.open -= 1
            if not keep:
                connection.close()

    def _idle_or_new(self, store: _Store, deadline: Deadline) -> Connection:
        for left in reversed(range(MOST_TRIES)):
            identity, _ = identify(store.path)
            if store.identity != identity:
                # In this order: a sentinel that another thread opens meanwhile is let go as well.
                store.identity = identity
                _let_go(store)
            with store.lock:
                if store.idle and store.idle[-1].identity == identity:
                    return store.idle.pop()
            try:
                connection = self._open(store, identity, deadline)
            except Replaced:
                if not left:
                    raise
                continue
            with store.lock:
                store.open += 1
            return connection
        raise AssertionError("the last try returns or raises")

    def _open(self, store: _Store, identity: Identity, deadline: Deadline) -> Connection:
        path = store.path
        try:
            return _opened(path, identity, deadline, immutable=False)
        except apsw.Error as error:
            if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError) and may_be_immutable(
                path
            ):
                return _opened(path, identity, deadline, immutable=True)
            raise

    def _version(self, store: _Store, connection: Connection, deadline: Deadline) -> int | None:
        """SQLite's data_version before the reading starts, so that a write in between only costs
        a needless second reading. None for a store that cannot be glanced at, also because another
        file has taken its place: the sentinel's version may be the new one's."""
        if connection.immutable:
            return None
        half = deadline.remaining() / 2
        if not store.glance.acquire(timeout=half):
            return None
        try:
            if store.identity != connection.identity:
                return None
            if store.sentinel is None:
                store.sentinel = Sentinel(store.path)
                store.mark = next(self._marks)
            return _stamp(store, max(1, int(half * 1000)))
        except apsw.BusyError:
            raise
        except apsw.Error:
            return None
        finally:
            store.glance.release()

    def _schema(self, store: _Store, connection: Connection) -> Schema:
        stamp = int(connection.db.execute("PRAGMA schema_version").fetchall()[0][0])  # type: ignore[arg-type]  # a whole number, always
        known = store.schema
        if known is not None and known[:2] == (connection.identity, stamp):
            return known[2]
        schema = probe(connection.db, store.path)
        store.schema = (connection.identity, stamp, schema)
        return schema

    def _failed(self, store: _Store, error: StoreError) -> StoreError:
        store.error = error
        if error.reason == "io":
            store.asleep_until = time.monotonic() + BACK_OFF_SECONDS
        if error.reason in ("corrupt", "io", "unreadable", "wal_pending", "foreign"):
            _let_go(store)
        if error.reason == "missing":
            with self._lock:
                self._stores.pop(store.path, None)
            _let_go(store)
        return error


def _opened(path: str, identity: Identity, deadline: Deadline, *, immutable: bool) -> Connection:
    connection = Connection(path, identity, immutable=immutable)
    try:
        connection.guard.deadline = deadline
        connection.db.set_busy_timeout(max(1, int(deadline.remaining() * 1000)))
        connection.prepare()
        # SQLite opens lazily: only a statement tells whether the file can be read.
        connection.db.execute("SELECT 1 FROM sqlite_schema LIMIT 1", can_cache=False).fetchall()
    except BaseException:
        connection.close()
        raise
    if immutable and wal_pending(path):
        connection.close()
        raise StoreError(
            f"{path}: store not readable: WAL pending, directory not writable",
            path=path,
            reason="wal_pending",
        )
    return connection


def _stamp(store: _Store, busy_ms: int) -> int | None:
    """The sentinel's version, told apart from that of any sentinel before it. Call it with
    `glance` held. Raises `apsw.Error`."""
    if store.sentinel is None:
        return None
    return store.mark << 32 | store.sentinel.version(busy_ms)


def _let_go(store: _Store) -> None:
    """Close what is open and not in use; what is in use is closed when it comes back."""
    with store.lock:
        idle = store.idle[:]
        store.idle.clear()
        store.open -= len(idle)
    for connection in idle:
        with suppress(apsw.Error):
            connection.close()
    with store.glance:
        if store.sentinel is not None:
            with suppress(apsw.Error):
                store.sentinel.close()
            store.sentinel = None
