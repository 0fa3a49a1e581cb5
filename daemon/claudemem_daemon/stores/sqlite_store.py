"""One SQLite store: its connections, and which state it is in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import ClassVar, Final

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import file_state
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.connection import (
    Connection,
    Mode,
    at_rest,
    check_openable,
    open_connection,
)
from claudemem_daemon.stores.failures import as_store_error, has_content, store_error, wal_of
from claudemem_daemon.stores.interface import StoreChanged, StoreUse, store_use
from claudemem_daemon.stores.model import Schema, StoreVersion
from claudemem_daemon.stores.reader import SqliteReader, StoreState
from claudemem_daemon.stores.recent import RecentRows, RecentValues
from claudemem_daemon.stores.schema import probe
from claudemem_daemon.stores.sql import Plan
from claudemem_daemon.stores.states import SqliteStates

MAX_IDLE: Final = 2
"""Connections that stay open between requests; more are opened while more requests run."""
MAX_TRIES: Final = 5
"""How often a reading begins anew because the store changed while it began."""
BACK_OFF_SECONDS: Final = 5.0
"""How long a store with I/O errors is left alone; a network share does not get better by asking."""
LET_GO_AFTER: Final = ("corrupt", "io", "unreadable", "wal_pending", "foreign", "missing")


class SqliteStore:
    """Safe from several threads; a connection serves one at a time."""

    IDLE_SECONDS: ClassVar = 0.05
    """Beside an open connection nobody can change the journal mode, and a writer that ends does not
    move its WAL into the file, so that whoever copies the file has not all of it. To open a store
    again takes about 1 ms, a fifth of an answer after a write: one that follows soon saves it."""
    url: ClassVar = None

    def __init__(
        self,
        path: str,
        numbers: Iterator[int],
        recent: RecentRows,
        *,
        untouched: bool = False,
    ) -> None:
        """untouched: leave no side files beside a store that nobody has open."""
        self.path = path
        self._untouched = untouched
        self._states = SqliteStates(path, numbers)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._in_use: list[Connection] = []
        self._rollback_journal = False
        """Whether a writer has to wait for our locks."""
        self._schema: tuple[tuple[object, ...], Schema] | None = None
        """Of which opening, PRAGMA schema_version and size; the last tells a file that was
        overwritten while it was closed."""
        self._last_read: StoreState | None = None
        self._error: StoreError | None = None
        self._retired = False
        self._asleep_until = 0.0
        self._read_ms: float | None = None
        self._remembered = RecentValues(), recent, dict[tuple[object, ...], Plan]()

    @contextmanager
    def reading(self, deadline: Deadline, *, locked: bool = True) -> Iterator[SqliteReader]:
        known = self._error
        if known is not None and time.monotonic() < self._asleep_until:
            raise StoreError(known.message, path=known.path, reason=known.reason)
        started = time.monotonic()
        try:
            connection = None
            state = None if locked or self._untouched else self._unchanged(deadline)
            if state is None:
                connection, state = self._begin(deadline, locked)
            begin = partial(self._begin, locked=False)
            reader = SqliteReader(
                self.path, state, connection, begin, self._number, self._remembered
            )
            reader.extend(deadline)
            healthy = False
            before = file_state(self.path).state if self._untouched else None
            try:
                # Before the reading: what goes wrong in its middle is told by `failed`.
                self._error = None
                yield reader
                healthy = state.version.number > 0
                if self._untouched and connection and connection.mode == "immutable":
                    wal = has_content(wal_of(self.path))
                    if wal or file_state(self.path).state != before:
                        raise store_error(self.path, "busy", "written to while it was read")
            except (apsw.Error, StoreError):
                reader.confirm()
                raise
            finally:
                if reader.connection is not None:
                    self._give_back(reader.connection, healthy=healthy)
        except StoreChanged:
            raise
        except Exception as error:  # noqa: BLE001 - it costs this store alone
            raise self.failed(as_store_error(error, self.path)) from None
        finally:
            if self._retired:
                self.let_go()
        self._read_ms = (time.monotonic() - started) * 1000

    @property
    def idle_since(self) -> float | None:
        if self._in_use:
            return time.monotonic()
        return self._states.last_used if self._idle or self._states.is_open else None

    def failed(self, error: StoreError) -> StoreError:
        self._error = error
        if error.reason == "io":
            self._asleep_until = time.monotonic() + BACK_OFF_SECONDS
        if error.reason in LET_GO_AFTER:
            self._states.opening += 1
            self.let_go()
        return error

    def describe(self) -> StoreUse:
        version = self._schema[1].version if self._schema is not None else None
        connections = len(self._idle) + len(self._in_use)
        return store_use(self.path, self._error, version, connections, self._read_ms)

    def let_go(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._states.let_go()

    def retire(self) -> None:
        self._retired = True
        self.let_go()

    def interrupt(self) -> None:
        with self._lock:
            for connection in self._in_use:
                connection.db.interrupt()

    def _unchanged(self, deadline: Deadline) -> StoreState | None:
        """What was read last, if the store is in that state still; opens nothing where its files
        alone tell."""
        last = self._last_read
        check_openable(self.path)
        if last is None or self._number(deadline) != (last.version.number, False):
            return None
        return last

    def _begin(self, deadline: Deadline, locked: bool) -> tuple[Connection, StoreState]:
        """A connection that reads one state, and that state's version. Equal numbers before and
        after the state was fixed say that nothing was committed in between."""
        for left in reversed(range(MAX_TRIES)):
            identity = check_openable(self.path)
            resting = self._untouched and at_rest(self.path)
            before, racy = (0, True) if resting else self._number(deadline)
            mode = "immutable" if resting else self._mode(before, locked)
            try:
                with ExitStack() as undo:
                    connection = self._take(mode, deadline)
                    undo.callback(self._give_back, connection, healthy=False)
                    self._rollback_journal = connection.begin(deadline)
                    number = 0 if connection.mode == "immutable" else before
                    usual = connection.mode == "usual"
                    changed = number and usual and self._number(deadline)[0] != number
                    if identity != check_openable(self.path) or (changed and left):
                        continue
                    if not connection.fits(self._states.main):
                        self._states.opening += 1
                        continue
                    number, still = 0 if changed else number, self._states.still
                    version = StoreVersion(self.path, identity, number, racy, still)
                    state = StoreState(version, self._schema_of(connection))
                    self._last_read = None if racy else state
                    undo.pop_all()
                    return connection, state
            except (apsw.Error, StoreError):
                if mode != "nolock":
                    raise
                locked = True
        what = "replaced again and again while it was opened"
        raise store_error(self.path, "unreadable", what)

    def _mode(self, number: int, locked: bool) -> Mode:
        free = not locked and number and self._rollback_journal and self._states.wal_is_empty
        return "nolock" if free else "usual"

    def _number(self, deadline: Deadline) -> tuple[int, bool]:
        """The number of the present state; none while connections from before an overwriting are
        in use, for they share what SQLite remembers of the WAL with all that are opened."""
        with self._lock:
            outdated = any(used.opening != self._states.opening for used in self._in_use)
        return (0, True) if outdated else self._states.number(deadline)

    def _take(self, mode: Mode, deadline: Deadline) -> Connection:
        """An idle connection or a new one; none from before an overwriting."""
        opening = self._states.opening
        with self._lock:
            outdated = [idle for idle in self._idle if idle.opening != opening]
            self._idle = [idle for idle in self._idle if idle.opening == opening]
            connection = next((idle for idle in self._idle if idle.mode == mode), None)
            if connection is not None:
                self._idle.remove(connection)
                self._in_use.append(connection)
        for idle in outdated:
            idle.close()
        if connection is None:
            connection = open_connection(self.path, opening, mode, deadline)
            with self._lock:
                self._in_use.append(connection)
        return connection

    def _give_back(self, connection: Connection, *, healthy: bool) -> None:
        if healthy:
            with suppress(apsw.Error):
                connection.end()
        keep = healthy and connection.opening == self._states.opening
        with self._lock:
            self._in_use.remove(connection)
            keep = keep and sum(idle.mode == connection.mode for idle in self._idle) < MAX_IDLE
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def _schema_of(self, connection: Connection) -> Schema:
        key = connection.opening, connection.schema_version, connection.schema_size
        known = self._schema
        if known is not None and known[0] == key:
            return known[1]
        schema = probe(connection.db, self.path, connection.schema_damage)
        # What is damaged now may be mended without a change of the schema.
        self._schema = (key if not schema.left_out else (), schema)
        return schema
