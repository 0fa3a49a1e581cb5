"""One read-only session with a claude-mem server's database. No wait outlasts the deadline, also
where the network swallows packets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.failures import slow, store_error

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]

CONNECT_SECONDS: Final = 10
"""For one attempt, which runs in the background; no request waits so long."""
SNAPSHOT: Final = "SELECT pg_current_snapshot()::text"
STATE: Final = (
    f"{SNAPSHOT}, (extract(epoch FROM now()) * 1000000)::bigint,"
    " pg_snapshot_xmin(pg_current_snapshot()) <> pg_snapshot_xmax(pg_current_snapshot())"
)
LATE_MICROSECONDS: Final = 2_000_000
"""A row is dated when its transaction began. So long may one have run before it was committed."""
BEGIN: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off;"
    " SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off;"
    " SET LOCAL plan_cache_mode = force_generic_plan"
)
"""The planner has no statistics of our filters, and would read and sort all rows of a project for
the newest few. With these it goes down the index where there is one, and plans a statement once."""
UNKNOWN: Final = re.compile(r"^(database|role) .* does not exist$")
"""Of a connection that failed there is nothing but text."""
WRONG_URL: Final = re.compile(rf"{UNKNOWN.pattern}|\binvalid \S+ value\b")
GRACE_SECONDS: Final = 0.25
"""How much longer than the server's own `statement_timeout` we wait for its answer."""


class Late(psycopg.OperationalError):
    """The deadline came before the server's answer."""


class Server(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's connection, whose waits end at `deadline`."""

    deadline: Deadline | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if self.deadline is not None:
            left = self.deadline.remaining() + GRACE_SECONDS
            timeout = left if timeout is None else min(left, timeout)
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError as error:
            # What the server said has a state; it is not away.
            if self.deadline is not None and self.deadline.passed and error.sqlstate is None:
                raise Late from None
            raise


class Session:
    """An open connection, used by one thread at a time."""

    def __init__(self, url: str, path: str) -> None:
        """Connect. Raises `StoreError`."""
        self.path = path
        """The URL without secrets, for messages."""
        self._allowed = 0.0
        """Seconds that the server lets a statement take, in the transaction that runs."""
        try:
            self._server = Server.connect(
                url,
                autocommit=True,
                application_name="claudemem-daemon",
                connect_timeout=CONNECT_SECONDS,
                # A peer that is gone without a word is noticed though nobody asks it.
                keepalives_idle=30,
                keepalives_interval=10,
                keepalives_count=3,
            )
        except (psycopg.Error, OSError, ValueError) as error:
            raise translate(error, path) from None

    @property
    def usable(self) -> bool:
        return not self._server.closed

    def begin(self, deadline: Deadline) -> tuple[str, int]:
        """Start a transaction that sees one state: what tells that state from every other, and up
        to which microsecond it has every row. Rows dated later may be of a transaction that began
        earlier: while one runs, those of the last seconds are not sure.

        Raises `StoreError`, as every method does.
        """
        self._server.deadline = deadline
        # One message, one round trip. All LOCAL: behind a pooler the next session is another's.
        cursor = self._run(f"{BEGIN}; {self._set_timeout(deadline.remaining())}; {STATE}")
        while cursor.nextset():
            pass
        snapshot, now, running = cursor.fetchone() or ("", 0, True)
        return str(snapshot), int(now) - (LATE_MICROSECONDS if running else 0)

    def snapshot(self, deadline: Deadline) -> str:
        """The state that a transaction would see if it began now; one round trip."""
        self._server.deadline = deadline
        return str(self._run(SNAPSHOT).fetchall()[0][0])

    def extend(self, deadline: Deadline) -> None:
        """Give statements until a later deadline; the server cancels those that take longer. An
        earlier one is the caller's to keep: a server that is busy is not away."""
        known = self._server.deadline
        if known is None or deadline.at > known.at:
            self._server.deadline = deadline

    def interrupt(self) -> None:
        self._server.deadline = Deadline.after(0)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> Rows:
        """All rows of a statement, prepared by the server when it comes often."""
        left = self._server.deadline.remaining() if self._server.deadline is not None else 0
        # What it would allow anyhow is not worth a round trip.
        if not left / 2 <= self._allowed <= left + GRACE_SECONDS / 2:
            self._run(self._set_timeout(left))
        return self._run(statement, parameters).fetchall()

    def end(self) -> None:
        """End the transaction; a session that cannot is closed."""
        if self._server.closed:
            return
        try:
            self._server.execute("ROLLBACK")
        except (psycopg.Error, OSError):
            self.close()

    def close(self) -> None:
        # `close` says good-bye to the server, and does not wait for its answer.
        self._server.close()

    def _set_timeout(self, seconds: float) -> str:
        self._allowed = max(0.001, seconds)
        return f"SET LOCAL statement_timeout = {int(self._allowed * 1000)}"

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> Cursor:
        # Without parameters a `%` in the text is no placeholder; a list is an array to the server.
        given = [list(one) if isinstance(one, tuple) else one for one in parameters] or None
        try:
            return self._server.execute(statement, given)
        except (psycopg.Error, OSError) as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> StoreError:
        if isinstance(error, Late | errors.InterfaceError):
            # What the server still sends belongs to no question that we will ask.
            self.close()
        return translate(error, self.path)


def translate(error: Exception, place: str) -> StoreError:
    """What the server's or libpq's complaint means, in one line without a secret."""
    state, words, line = getattr(error, "sqlstate", None), str(error), first_line(error)
    if isinstance(error, Late):
        return store_error(place, "away", "the server is away (no answer in time)")
    if isinstance(error, errors.QueryCanceled | errors.InFailedSqlTransaction):
        return slow(place)
    if isinstance(error, errors.InsufficientPrivilege):
        what = "its user may not read it; grant it SELECT on observations and server_sessions"
        return store_error(place, "refused", what)
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return store_error(place, "foreign", f"not the database of a claude-mem server ({line})")
    if isinstance(error, errors.InvalidPassword | errors.InvalidAuthorizationSpecification) or (
        "authentication failed" in words or "no password supplied" in words
    ):
        what = "the server refuses the password; put the right one into ~/.pgpass"
        return store_error(place, "refused", what)
    if isinstance(error, psycopg.ProgrammingError | ValueError) or WRONG_URL.search(line):
        # What libpq quotes of a URL that it cannot read may be the password.
        told = f"{line}: correct" if UNKNOWN.search(line) else "correct"
        what = f"cannot be asked; {told} its URL in CLAUDE_MEM_DAEMON_STORES"
        return store_error(place, "unreadable", what)
    if state is None or state[:2] in ("08", "57"):
        return store_error(place, "away", f"the server is away ({line})")
    return store_error(place, "unreadable", f"cannot be read ({state}: {line})")


def first_line(error: Exception) -> str:
    """The complaint without libpq's preamble, which repeats host and port."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line.rpartition("failed: ")[2].removeprefix("FATAL:").strip()[:160]
