"""Open connections to stores, kept between requests, and the glance that tells a change."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.connection import (
    Connection,
    Identity,
    Sentinel,
    identify,
    may_be_immutable,
    translate,
    wal_pending,
)
from claudemem_daemon.stores.model import Schema, StoreRef, StoreState
from claudemem_daemon.stores.reader import StoreReader
from claudemem_daemon.stores.schema import probe

MOST_STORES: Final = 128
IDLE_CONNECTIONS: Final = 1
BACK_OFF_SECONDS: Final = 5.0
"""How long a store with I/O errors is left alone; a network share does not get better by asking."""


@dataclass(slots=True)
class _Store:
    path: str
    identity: Identity | None = None
    idle: list[Connection] = field(default_factory=list)
    open: int = 0
    sentinel: Sentinel | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    schema: Schema | None = None
    schema_stamp: int | None = None
    error: StoreError | None = None
    asleep_until: float = 0.0
    read_ms: float | None = None


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
                    yield StoreReader(connection, schema, version)
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
            if not store.lock.acquire(blocking=False):
                return False
            try:
                if store.sentinel is None or store.sentinel.version() != state.data_version:
                    return False
            except apsw.Error:
                return False
            finally:
                store.lock.release()
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
                one.schema.version if one.schema is not None else None,
                one.open,
                one.read_ms,
            )
            for one in stores
        )

    def close(self) -> None:
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
            while len(self._stores) > MOST_STORES:
                _, oldest = self._stores.popitem(last=False)
                _let_go(oldest)
            return store

    @contextmanager
    def _connection(
        self, store: _Store, deadline: Deadline
    ) -> Iterator[tuple[Connection, int | None]]:
        """A connection of the file that is there now, and the version it had before we read."""
        identity, _ = identify(store.path)
        with store.lock:
            if store.identity != identity:
                _let_go(store)
                store.identity = identity
                store.schema = None
            connection = store.idle.pop() if store.idle else None
        if connection is None:
            connection = self._open(store, identity, deadline)
            with store.lock:
                store.open += 1
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
                )
                if keep:
                    store.idle.append(connection)
                else:
                    store.open -= 1
            if not keep:
                connection.close()

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
        a needless second reading. None for a store that cannot be glanced at."""
        if connection.immutable:
            return None
        with store.lock:
            try:
                if store.sentinel is None:
                    store.sentinel = Sentinel(store.path)
                return store.sentinel.version(busy_ms=max(1, int(deadline.remaining() * 500)))
            except apsw.BusyError:
                raise
            except apsw.Error:
                return None

    def _schema(self, store: _Store, connection: Connection) -> Schema:
        stamp = int(connection.db.execute("PRAGMA schema_version").fetchall()[0][0])  # type: ignore[arg-type]  # a whole number, always
        schema = store.schema
        if schema is None or store.schema_stamp != stamp:
            schema = probe(connection.db, store.path)
            store.schema, store.schema_stamp = schema, stamp
        return schema

    def _failed(self, store: _Store, error: StoreError) -> StoreError:
        store.error = error
        if error.reason == "io":
            store.asleep_until = time.monotonic() + BACK_OFF_SECONDS
        if error.reason in ("corrupt", "io", "unreadable", "wal_pending", "foreign"):
            with store.lock:
                _let_go(store)
        return error


def _opened(path: str, identity: Identity, deadline: Deadline, *, immutable: bool) -> Connection:
    connection = Connection(path, identity, immutable=immutable)
    try:
        connection.guard.deadline = deadline
        connection.db.set_busy_timeout(max(1, int(deadline.remaining() * 1000)))
        connection.prepare()
        # SQLite opens lazily: only a statement tells whether the file can be read.
        connection.db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
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


def _let_go(store: _Store) -> None:
    for connection in store.idle:
        with suppress(apsw.Error):
            connection.close()
    store.open -= len(store.idle)
    store.idle.clear()
    if store.sentinel is not None:
        with suppress(apsw.Error):
            store.sentinel.close()
        store.sentinel = None
