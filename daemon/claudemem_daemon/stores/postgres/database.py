"""The database of a claude-mem server as a store: a session or two, let go after a while, and what
to do while the server is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import RemoteDependency
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.failures import store_error
from claudemem_daemon.stores.interface import StoreUse, store_use
from claudemem_daemon.stores.model import StoreVersion
from claudemem_daemon.stores.postgres import sql
from claudemem_daemon.stores.postgres.connection import Session
from claudemem_daemon.stores.postgres.reader import Answers, DatabaseReader, Plan
from claudemem_daemon.stores.postgres.sql import Query
from claudemem_daemon.stores.recent import RecentRows, RecentValues

MAX_IDLE: Final = 2
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts to connect; each pause is twice the one before."""
PROBE_SECONDS: Final = 0.25
"""For the one round trip that tells whether anything was committed."""
MANY_ROWS: Final = 10_000
"""From so many on, a question takes longer without the index than a person waits."""
PLAN_SECONDS: Final = 300.0
"""How long it is taken for granted that the index is there, or is not needed."""


@dataclass(frozen=True, slots=True)
class DatabaseVersion(StoreVersion, RemoteDependency):
    """One state of a database, or one reason why it is away."""

    def holds_with(self, others: Callable[[], bool]) -> bool:
        return self.still(self.number, others)


class DatabaseStore:
    """`Store` of a database. Safe from several threads."""

    IDLE_SECONDS: ClassVar = 3.0

    def __init__(self, path: str, url: str, numbers: Iterator[int], recent: RecentRows) -> None:
        self.path = path
        self.url = url
        self._numbers = numbers
        self._lock = threading.RLock()
        self._attempted = threading.Condition(self._lock)
        """Notified when an attempt to connect has ended."""
        self._connecting = False
        self._idle: list[Session] = []
        self._in_use: set[Session] = set()
        self._last_used = 0.0
        self._error: StoreError | None = None
        """What went wrong last, until something goes right."""
        self._away: StoreError | None = None
        """Why no session can be had."""
        self._away_number = 0
        self._pause = FIRST_PAUSE
        self._retry_at = 0.0
        self._answers: Answers | None = None
        self._answers_at = 0.0
        self._outdated = 0
        """The number of a state that the database left."""
        self._remembered = RecentValues(), recent
        self._plan: Plan = "table"
        self._plan_until = 0.0
        self._read_ms: float | None = None
        self._closed = False

    @contextmanager
    def reading(self, deadline: Deadline, *, locked: bool = True) -> Iterator[DatabaseReader]:  # noqa: ARG002 - nobody waits for a reader here
        """One state of the database. Where it cannot be had, what was read last stands in, and the
        reader has `trouble`; where nothing was read, raises `StoreError`."""
        started, known = time.monotonic(), self._error
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._session(deadline))
                reader = self._begin(session, deadline)
                stack.callback(session.end)
            except StoreError as error:
                reader = self._stand_in(self.failed(error))
            yield reader
        if reader.trouble is not None:
            return
        self._read_ms = (time.monotonic() - started) * 1000
        # Something was read, and nothing failed this time.
        back = known is not None and known.reason == "away"
        if self._error is known and (reader.has_read or back):
            self._error = None

    @property
    def idle_since(self) -> float | None:
        """When a session was last used, on the monotonic clock; None where none is open."""
        if self._in_use:
            return time.monotonic()
        return self._last_used if self._idle else None

    def failed(self, error: StoreError) -> StoreError:
        """Note what ended a reading, for `describe` and for the back-off."""
        if error.reason == "away" and error.lasting is None:
            error = self._note_away(error)
        self._error = error
        return error

    def describe(self) -> StoreUse:
        connections = len(self._idle) + len(self._in_use)
        return store_use(self.path, self._error, None, connections, self._read_ms)

    def let_go(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def retire(self) -> None:
        self._closed = True
        self.let_go()

    def interrupt(self) -> None:
        self._closed = True
        with self._lock:
            for session in self._in_use:
                session.interrupt()

    def _begin(self, session: Session, deadline: Deadline) -> DatabaseReader:
        snapshot, complete = session.begin(deadline)
        now = time.monotonic()
        if now > self._plan_until or self._plan == "table":
            ((present, rows),) = session.rows(Query(sql.INDEXED))
            self._plan = "index" if present else "table" if rows >= MANY_ROWS else "small table"
            self._plan_until = now + PLAN_SECONDS
        with self._lock:
            self._answers_at = time.time()
            answers = self._answers
            if answers is None or answers.snapshot != snapshot or answers.full:
                oldest = answers.oldest if answers is not None else {}
                answers = Answers(snapshot, next(self._numbers), complete, oldest)
                self._answers = answers
        return self._reader(answers, self._version(answers.number), session)

    def _stand_in(self, error: StoreError) -> DatabaseReader:
        """What was read last. Raises `error` where nothing was."""
        answers = self._answers
        if answers is None or not answers.known:
            raise error
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self._answers_at))
        self._error = StoreError(
            f"{error.message}; its rows here were read at {at}",
            path=self.path,
            reason=error.reason,
            lasting=error.lasting,
        )
        return self._reader(answers, self._version(self._away_number), self._error)

    def _version(self, number: int) -> DatabaseVersion:
        return DatabaseVersion(self.path, (self.path,), number, racy=False, still=self._still)

    def _reader(
        self, answers: Answers, version: DatabaseVersion, source: Session | StoreError
    ) -> DatabaseReader:
        return DatabaseReader(answers, version, self._remembered, self._plan, source)

    def _still(self, number: int, others: Callable[[], bool] = lambda: True) -> bool:
        """Whether nothing was committed since, and `others` are true: one round trip. An answer
        without the server holds while there is no session to be had, for the same reason."""
        if self._away is not None:
            self._connect_if_due()
            return number == self._away_number and self._away is not None and others()
        answers = self._answers
        if answers is None or number != answers.number or number == self._outdated:
            return False
        try:
            session = self._take(Deadline.after(PROBE_SECONDS))
        except StoreError:
            # Where it is the connection that takes longer, a question has the time to wait for it.
            return False
        try:
            session.ask_snapshot()
            if not others():
                return False
            if session.snapshot(Deadline.after(PROBE_SECONDS)) == answers.snapshot:
                return True
        except StoreError as error:
            self.failed(error)
            return False
        finally:
            self._give_back(session)
        self._outdated = number
        return False

    @contextmanager
    def _session(self, deadline: Deadline) -> Iterator[Session]:
        """A session of its own for what is inside. Raises `StoreError`; one from inside is noted."""
        session = self._take(deadline)
        try:
            yield session
        except StoreError as error:
            raise self.failed(error) from None
        finally:
            self._give_back(session)

    def _take(self, deadline: Deadline) -> Session:
        """An idle session, or a new one, which is waited for unless the server is known to be
        away. Raises `StoreError`."""
        with self._lock:
            self._last_used = time.monotonic()
            while not self._idle:
                self._connect_if_due()
                if self._away is not None or self._closed or deadline.passed:
                    break
                self._attempted.wait(deadline.remaining())
            if not self._idle:
                what = "the server is away (no answer yet)"
                raise self._away or store_error(self.path, "away", what)
            session = self._idle.pop()
            self._in_use.add(session)
            return session

    def _give_back(self, session: Session) -> None:
        with self._lock:
            self._in_use.remove(session)
            keep = session.usable and not self._closed and len(self._idle) < MAX_IDLE
            if keep:
                self._idle.append(session)
        if not keep:
            session.close()

    def _connect_if_due(self) -> None:
        with self._lock:
            if self._connecting or self._closed or time.monotonic() < self._retry_at:
                return
            self._connecting = True
        threading.Thread(target=self._connect, name="claudemem-postgres", daemon=True).start()

    def _connect(self) -> None:
        """In a thread of its own: it can take as long as the network likes."""
        session: Session | None = None
        try:
            session = Session(self.url, self.path)
        except StoreError as error:
            self._note_away(error)
        with self._lock:
            self._connecting = False
            if session is not None:
                self._away, self._pause, self._retry_at = None, FIRST_PAUSE, 0.0
                self._idle.append(session)
            self._attempted.notify_all()
        if self._closed:
            self.let_go()

    def _note_away(self, error: StoreError) -> StoreError:
        """No request waits for this server before an attempt succeeds. Answers hold that long, or
        until it fails in other words."""
        with self._lock:
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            if self._away is None or self._away.message != error.message:
                self._away_number = next(self._numbers)
                self._away = StoreError(
                    error.message,
                    path=self.path,
                    reason=error.reason,
                    lasting=self._version(self._away_number),
                )
            away = self._away
        self.let_go()
        return away
