"""The database of a claude-mem server as a store: a session or two, let go after a while, and what
to do while the server is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.interface import StoreUse, store_use
from claudemem_daemon.stores.model import StoreVersion
from claudemem_daemon.stores.postgres import sql
from claudemem_daemon.stores.postgres.connection import Session
from claudemem_daemon.stores.postgres.reader import Answers, DatabaseReader, Index
from claudemem_daemon.stores.recent import RecentRows, RecentValues

MAX_IDLE: Final = 2
RETRY_SECONDS: Final = (1.0, 60.0)
"""The first pause after a failed attempt, and the longest; each is twice the one before."""
PROBE_SECONDS: Final = 0.25
"""For the one round trip that tells whether anything was committed."""
MANY_ROWS: Final = 10_000
"""From so many on, a question takes longer without the index than a person waits."""
INDEX_SECONDS: Final = 300.0
"""How long it is taken for granted that the index is there, or is not."""


class DatabaseStore:
    """`Store` of a database. Safe from several threads."""

    IDLE_SECONDS: ClassVar = 3.0

    def __init__(self, path: str, url: str, numbers: Iterator[int], recent: RecentRows) -> None:
        self.path = path
        self._url = url
        self._numbers = numbers
        self._lock = threading.Lock()
        self._attempted = threading.Condition(self._lock)
        self._connecting = False
        self._idle: list[Session] = []
        self._in_use: set[Session] = set()
        self._last_used: float | None = None
        self._error: StoreError | None = None
        self._away: StoreError | None = None
        self._away_number = 0
        self._failures = 0
        self._retry_at = 0.0
        self._answers: Answers | None = None
        self._remembered = RecentValues(), recent
        self._outdated = 0
        """The number of a state that the database left."""
        self._answers_at = 0.0
        self._index: Index = "missing"
        self._index_until = 0.0
        self._read_ms: float | None = None
        self._closed = False

    @contextmanager
    def reading(self, deadline: Deadline, *, locked: bool = True) -> Iterator[DatabaseReader]:  # noqa: ARG002 - nobody waits for a reader here
        """One state of the database. Where its server is away, what was read last stands in, and
        the reader has `trouble`; where nothing was read, raises `StoreError`."""
        started = time.monotonic()
        try:
            session = self._session(deadline)
        except StoreError as error:
            yield self._stand_in(error)
            return
        try:
            try:
                answers = self._state(*session.begin(deadline))
                indexed = self._find_index(session)
            except StoreError as error:
                if error.reason != "away":
                    raise
                yield self._stand_in(error)
                return
            if self._error is not None and self._error.reason == "away":
                self._error = None
            known = self._error
            reader = DatabaseReader(
                answers, self._version(answers.number), self._remembered, session, indexed
            )
            yield reader
            if reader.has_read and self._error is known:  # nothing failed this time
                self._error = None
        except StoreError as error:
            raise self.failed(error) from None
        finally:
            session.end()
            self._give_back(session)
        self._read_ms = (time.monotonic() - started) * 1000

    @property
    def idle_since(self) -> float | None:
        """When a session was last used, on the monotonic clock; None where none is open."""
        with self._lock:
            if self._in_use:
                return time.monotonic()
            return self._last_used if self._idle else None

    def failed(self, error: StoreError) -> StoreError:
        """Note what ended a reading, for `describe` and for the back-off."""
        self._error = error
        if error.reason == "away":
            with self._lock:
                self._note_away(error)
        return error

    def describe(self) -> StoreUse:
        connections = len(self._idle) + len(self._in_use)
        return store_use(self.path, self._error, None, connections, self._read_ms)

    def let_go(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def interrupt(self) -> None:
        self._closed = True
        with self._lock:
            for session in self._in_use:
                session.interrupt()

    def _version(self, number: int) -> StoreVersion:
        return StoreVersion(self.path, (self.path,), number, racy=False, still=self._still)

    def _still(self, number: int) -> bool:
        """Whether nothing was committed since: one round trip. An answer without the server holds
        until an attempt to reach it has ended."""
        with self._lock:
            away, answers = self._away is not None, self._answers
            if number == self._outdated or number != (
                self._away_number if away else answers.number if answers else 0
            ):
                return False
        if away:
            self._attempt_if_due()
            return self._away_number == number and self._away is not None
        deadline = Deadline.after(PROBE_SECONDS)
        try:
            session = self._session(deadline)
        except StoreError:
            return False
        try:
            if answers is not None and session.snapshot(deadline) == answers.snapshot:
                return True
            self._outdated = number
            return False
        except StoreError as error:
            self.failed(error)
            return False
        finally:
            self._give_back(session)

    def _stand_in(self, error: StoreError) -> DatabaseReader:
        """What was read last. Raises `StoreError` where nothing was."""
        self.failed(error)
        answers = self._answers
        if not answers:
            raise error
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self._answers_at))
        trouble = StoreError(
            f"{error.message}; its rows here were read at {at}", path=self.path, reason="away"
        )
        version = self._version(self._away_number)
        return DatabaseReader(answers, version, self._remembered, None, self._index, trouble)

    def _session(self, deadline: Deadline) -> Session:
        """An idle session, or one that a thread of its own opens: to connect can take as long as
        the network likes. Only the first attempt after a good time is waited for."""
        with self._lock:
            self._last_used = time.monotonic()
            while self._idle:
                session = self._idle.pop()
                if session.usable:
                    self._in_use.add(session)
                    return session
            away = self._away
        self._attempt_if_due()
        if away is not None:
            raise away
        with self._lock:
            while self._connecting and not self._idle and not deadline.passed:
                self._attempted.wait(deadline.remaining())
            if self._idle:
                session = self._idle.pop()
                self._in_use.add(session)
                return session
            known = self._away
        raise known or self.failed(
            StoreError(
                f"{self.path}: the server is away (no answer yet)", path=self.path, reason="away"
            )
        )

    def _attempt_if_due(self) -> None:
        with self._lock:
            if self._connecting or self._closed or time.monotonic() < self._retry_at:
                return
            self._connecting = True
        threading.Thread(target=self._connect, name="claudemem-postgres", daemon=True).start()

    def _connect(self) -> None:
        failure: StoreError | None = None
        try:
            session = Session(self._url, self.path)
        except StoreError as error:
            failure = error
        with self._lock:
            self._connecting = False
            if failure is not None:
                self._note_away(failure)
            else:
                self._away, self._failures, self._retry_at = None, 0, 0.0
                self._idle.append(session)
            self._attempted.notify_all()
        if self._closed:
            self.let_go()

    def _note_away(self, error: StoreError) -> None:
        """With the lock: no request waits for this server before an attempt succeeds."""
        first, longest = RETRY_SECONDS
        now = time.monotonic()
        if self._away is None or now >= self._retry_at:
            self._retry_at = now + min(first * 2**self._failures, longest)
            self._failures = min(self._failures + 1, 10)
            self._away_number = next(self._numbers)
        self._away = error

    def _state(self, snapshot: str, complete: int) -> Answers:
        with self._lock:
            self._answers_at = time.time()
            if self._answers is None or self._answers.snapshot != snapshot:
                oldest = self._answers.oldest if self._answers is not None else {}
                self._answers = Answers(snapshot, next(self._numbers), complete, oldest)
            return self._answers

    def _find_index(self, session: Session) -> Index:
        if time.monotonic() > self._index_until:
            ((present, rows),) = session.rows(sql.INDEXED.text)
            self._index = "present" if present else "missing" if rows >= MANY_ROWS else "needless"
            self._index_until = time.monotonic() + INDEX_SECONDS
        return self._index

    def _give_back(self, session: Session) -> None:
        with self._lock:
            self._in_use.discard(session)
            keep = session.usable and not self._closed and len(self._idle) < MAX_IDLE
            if keep:
                self._idle.append(session)
        if not keep:
            session.close()
