"""One read-only session with a claude-mem server's database. No wait outlasts the deadline, also
where the network swallows packets."""

from __future__ import annotations

import re
import select
import time
from typing import Any, Final

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.failures import slow, store_error
from claudemem_daemon.stores.postgres.sql import Parameter, Query

Rows = list[tuple[Any, ...]]

CONNECT_SECONDS: Final = 10
"""For one attempt, which runs in the background; no request waits so long."""
BEGIN: Final = Query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
TIMEOUT: Final = "SELECT set_config('statement_timeout', $1, true)"
SNAPSHOT: Final = Query("SELECT pg_current_snapshot()::text")
STATE: Final = Query(
    f"{SNAPSHOT.text}, (extract(epoch FROM now()) * 1000000)::bigint,"
    " pg_snapshot_xmin(pg_current_snapshot()) <> pg_snapshot_xmax(pg_current_snapshot()),"
    " pg_backend_pid(),"
    " set_config('jit', 'off', true), set_config('enable_sort', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true),"
    " set_config('plan_cache_mode', 'force_generic_plan', true)"
)
"""The planner has no statistics of our filters, and would read and sort all rows of a project for
the newest few. With these it goes down the index where there is one, and plans a statement once.
They end with the transaction: behind a pooler the next session is another's."""
LATE_MICROSECONDS: Final = 2_000_000
"""A row is dated when its transaction began. So long may one have run before it was committed."""
GRACE_SECONDS: Final = 0.25
"""How much longer than the server's own `statement_timeout` we wait for its answer."""
WAIT_MS: Final = 100
"""Then the deadline is compared again: another thread can bring it forward."""
BINARY: Final = 1
UNKNOWN: Final = re.compile(r"^(database|role) .* does not exist$")
"""Of a connection that failed there is nothing but text."""
WRONG_URL: Final = re.compile(rf"{UNKNOWN.pattern}|\binvalid \S+ value\b")
NO_PASSWORD: Final = re.compile("authentication failed|no password supplied")
NO_ENTRY: Final = re.compile("pg_hba.conf|not permitted to log in|permission denied for database")

_FAILURES: Final = (StoreError, psycopg.Error, OSError, ValueError)


class Session:
    """An open connection, used by one thread at a time. Every method raises `StoreError`; then the
    session is closed, and whoever asks again gets the same error."""

    def __init__(self, url: str, path: str) -> None:
        """path: the URL without secrets, for messages."""
        self._path = path
        self._deadline = Deadline.after(0)
        self._allowed = 0.0
        """Seconds that the server lets a statement take, in the transaction that runs."""
        self._is_direct = False
        """Whether no pooler is between, which would give the next transaction another server
        process, without the statements that this one has prepared."""
        self._prepared: dict[str, bytes] = {}
        """Text of a statement -> its name on the server."""
        self._unread = 0
        """How many messages were sent whose results were not read."""
        self._error: StoreError | None = None
        try:
            self._connection = psycopg.connect(
                url,
                autocommit=True,
                application_name="claudemem-daemon",
                client_encoding="UTF8",
                connect_timeout=CONNECT_SECONDS,
            )
        except (psycopg.ProgrammingError, ValueError):
            raise wrong_url(path) from None
        except (psycopg.Error, OSError) as error:
            raise translate(path, "", str(error)) from None
        # libpq itself: what a cursor does around it takes longer than the round trip.
        self._server = self._connection.pgconn
        self._server.nonblocking = 1
        self._server.enter_pipeline_mode()
        self._poll = select.poll()
        self._loader = Transformer(self._connection)

    @property
    def usable(self) -> bool:
        return self._error is None

    def begin(self, deadline: Deadline) -> tuple[str, int]:
        """Start a transaction that sees one state: what tells that state from every other, and up
        to which microsecond it has every row. Rows dated later may be of a transaction that began
        earlier: while one runs, those of the last seconds are not sure."""
        self._deadline = deadline
        state = self._ask(BEGIN, self._timeout(), STATE)
        ((snapshot, now, running, process, *_),) = state
        # A pooler tells a number of its own.
        self._is_direct = process == self._server.backend_pid
        return snapshot, now - (LATE_MICROSECONDS if running else 0)

    def ask_snapshot(self) -> None:
        """Send the question that `snapshot` reads the answer to, or else the next question does."""
        try:
            self._send(SNAPSHOT)
        except _FAILURES as error:
            raise self._failed(error) from None

    def snapshot(self, deadline: Deadline) -> str:
        """The state that a transaction would have seen when the server was asked."""
        self._deadline = deadline
        try:
            # Files were checked since it was asked: mostly the answer is here.
            self._server.consume_input()
            answer = self._receive().get_value(0, 0)
        except _FAILURES as error:
            raise self._failed(error) from None
        return (answer or b"").decode()

    def extend(self, deadline: Deadline) -> None:
        """Give statements until a later deadline; the server cancels those that take longer. An
        earlier one is the caller's to keep: a server that is busy is not away."""
        if deadline.at > self._deadline.at:
            self._deadline = deadline

    def interrupt(self) -> None:
        self._deadline = Deadline.after(-GRACE_SECONDS)

    def rows(self, query: Query) -> Rows:
        left = self._deadline.remaining()
        if left / 2 <= self._allowed <= left + GRACE_SECONDS / 2:
            return self._ask(query)
        return self._ask(self._timeout(), query)

    def end(self) -> None:
        """End the transaction. What the server says to it is read with the next answer."""
        if self.usable:
            try:
                self._send(Query("ROLLBACK"))
            except _FAILURES as error:
                self._failed(error)

    def close(self) -> None:
        self._failed(store_error(self._path, "away", "the connection was closed"))

    def _timeout(self) -> Query:
        self._allowed = max(0.001, self._deadline.remaining())
        return Query(TIMEOUT, (int(self._allowed * 1000),))

    def _ask(self, *queries: Query) -> Rows:
        """The rows of the last query, in one round trip."""
        try:
            self._send(*queries)
            result = self._receive()
            self._loader.set_pgresult(result)
            return self._loader.load_rows(0, result.ntuples, tuple)
        except _FAILURES as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> StoreError:
        """The session's first error; that one closes it."""
        if self._error is None:
            if isinstance(error, TimeoutError):
                error = store_error(self._path, "away", "the server is away (no answer in time)")
            elif not isinstance(error, StoreError):
                error = translate(self._path, "", str(error))
            self._error = error
            self._connection.close()
        return self._error

    def _send(self, *queries: Query) -> None:
        if self._error is not None:
            raise self._error
        for query in queries:
            name = self._prepare(query.text)
            values = [_encoded(value) for value in query.parameters]
            self._server.send_query_prepared(name, values, result_format=BINARY)
        self._server.pipeline_sync()
        self._unread += 1

    def _prepare(self, text: str) -> bytes:
        """The statement's name on the server; empty for one that the next replaces."""
        name = self._prepared.get(text)
        if name is None:
            name = b"%d" % len(self._prepared) if self._is_direct else b""
            self._server.send_prepare(name, text.encode())
            if name:
                self._prepared[text] = name
        return name

    def _receive(self) -> PGresult:
        """The last rows of all that was asked. Raises `StoreError` for the first failure."""
        rows: PGresult | None = None
        failure: StoreError | None = None
        while self._unread:
            while self._server.is_busy():
                self._wait()
            result = self._server.get_result()
            if result is None:  # the end of one statement
                if self._server.status != ConnStatus.OK:
                    raise psycopg.OperationalError(self._server.get_error_message())
            elif result.status == ExecStatus.PIPELINE_SYNC:
                self._unread -= 1
            elif result.status == ExecStatus.TUPLES_OK:
                rows = result
            elif result.status == ExecStatus.FATAL_ERROR and failure is None:
                state = result.error_field(DiagnosticField.SQLSTATE) or b""
                message = result.error_field(DiagnosticField.MESSAGE_PRIMARY)
                words = message.decode(errors="replace") if message else result.get_error_message()
                failure = translate(self._path, state.decode(), words)
        if failure is not None or rows is None:
            raise failure or psycopg.OperationalError("no rows")
        return rows

    def _wait(self) -> None:
        """For more of the answer. Raises `TimeoutError`."""
        left = self._deadline.at + GRACE_SECONDS - time.monotonic()
        if left <= 0:
            raise TimeoutError
        unsent = select.POLLOUT if self._server.flush() else 0
        self._poll.register(self._server.socket, select.POLLIN | unsent)
        self._poll.poll(min(left * 1000, WAIT_MS))
        self._server.consume_input()


def _encoded(value: Parameter) -> bytes | None:
    """A value as PostgreSQL reads it, which has no NUL in texts."""
    if value is None:
        return None
    written = array(value) if isinstance(value, tuple) else str(value)
    return written.replace("\0", "\ufffd").encode(errors="replace")


def array(values: tuple[str, ...]) -> str:
    """As PostgreSQL writes an array."""
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"


def translate(path: str, state: str, message: str) -> StoreError:
    """What the server's or libpq's complaint means, in one line without a secret. state: the
    SQLSTATE, empty where there is text alone."""
    # libpq's preamble repeats host and port.
    line = message.strip().partition("\n")[0].rpartition("failed: ")[2]
    line = line.removeprefix("FATAL:").strip()[:160]
    if state == "57014":
        return slow(path)
    if state == "42501":
        what = "its user may not read it; grant it SELECT on observations and server_sessions"
        return store_error(path, "refused", what)
    if state.startswith("42"):
        return store_error(path, "foreign", f"not the database of a claude-mem server ({line})")
    if NO_PASSWORD.search(message):
        what = "the server refuses the password; put the right one into ~/.pgpass"
        return store_error(path, "refused", what)
    if NO_ENTRY.search(line):
        return store_error(path, "refused", f"the server does not let its user in ({line})")
    if WRONG_URL.search(line):
        return wrong_url(path, f"{line}: " if UNKNOWN.search(line) else "")
    if not state or state[:2] in ("08", "57"):
        return store_error(path, "away", f"the server is away ({line})")
    return store_error(path, "corrupt", f"cannot be read ({state}: {line})")


def wrong_url(path: str, why: str = "") -> StoreError:
    """What libpq quotes of a URL that it cannot read may be the password."""
    what = f"cannot be asked; {why}correct its URL in CLAUDE_MEM_DAEMON_STORES"
    return store_error(path, "unreadable", what)
