"""While a server is away in the same way, nothing is made anew; and nobody waits for it."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.select import select as real_select
from claudemem_daemon.stores.postgres import database as database_module
from claudemem_daemon.stores.postgres.connection import Session
from claudemem_daemon.stores.postgres.database import DatabaseStore, DatabaseVersion
from claudemem_daemon.stores.postgres.sql import Query
from claudemem_daemon.stores.recent import RecentRows
from tests.postgres.conftest import Machine, make_machine
from tests.support.daemon import clean_environ, eventually
from tests.support.postgres import SCHEMA, Cluster, add_row

NOBODY = "postgresql://reader@127.0.0.1:1/team"


class Counted:
    """A pipeline in this process, the selections that it made, and the attempts to connect."""

    def __init__(
        self, machine: Machine, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.machine = machine
        self.pipeline = pipeline
        self.selections = 0
        self.attempts = 0
        connect = psycopg.connect

        def selecting(*given: Any) -> Any:
            self.selections += 1
            return real_select(*given)

        def connecting(*given: Any, **named: Any) -> Any:
            self.attempts += 1
            return connect(*given, **named)

        monkeypatch.setattr("claudemem_daemon.pipeline.select", selecting)
        monkeypatch.setattr(psycopg, "connect", connecting)
        monkeypatch.setattr(database_module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(database_module, "LONGEST_PAUSE", 0.05)

    def ask(self, **asked: Any) -> tuple[list[str], list[str]]:
        """Titles and warnings."""
        question = Question(str(self.machine.shop), **asked)
        answer = self.pipeline.ask(question, Deadline.after(5))
        titles = [row.row.cells[1] for row in answer.selection.observations]
        return sorted(map(str, titles)), [warning.message for warning in answer.warnings]

    def is_warm(self) -> bool:
        before = self.selections
        self.ask()
        return self.selections == before

    def stays_warm(self) -> None:
        """Over several attempts to connect."""
        eventually(self.is_warm, "an answer is used again")
        made, attempts = self.selections, self.attempts
        eventually(lambda: bool(self.ask()) and self.attempts > attempts + 3, "it is tried again")
        assert self.selections == made


@pytest.fixture
def counted(
    home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Counted]:
    machine = make_machine(home, getattr(request, "param", NOBODY))
    with open_pipeline(clean_environ(home)) as pipeline:
        yield Counted(machine, pipeline, monkeypatch)


def test_rows_that_stand_in_are_selected_once(
    counted: Counted,
) -> None:
    with Cluster() as cluster:
        cluster.create("team")
        with cluster.admin("team") as admin:
            admin.execute(SCHEMA)
            add_row(admin, "shop", "Server row")
        settings = counted.machine.home / ".claude-mem" / "settings.json"
        settings.write_text(settings.read_text().replace(NOBODY, cluster.url("team")))
        assert counted.ask() == (["Local row", "Server row"], [])
        cluster.stop(signal.SIGKILL)
        counted.stays_warm()
        rows, (warning,) = counted.ask()
        assert rows == ["Local row", "Server row"]
        # A question that cannot be answered from what was read leaves the words as they were.
        assert counted.ask(types=("feature",))[0] == []
        assert warning.count("were read at") == 1
        assert counted.ask() == (rows, [warning])
        counted.stays_warm()
        assert counted.ask() == (rows, [warning])
        cluster.start()
        eventually(lambda: counted.ask() == (rows, []), "the server is asked again")


def test_a_warm_answer_takes_one_round_trip(
    counted: Counted, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = counted.machine.home / ".claude-mem" / "settings.json"
    settings.write_text(settings.read_text().replace(NOBODY, cluster.url(database)))
    eventually(counted.is_warm, "an answer is used again")
    trips = 0
    send = Session._send

    def sending(session: Session, *queries: Query) -> None:
        nonlocal trips
        trips += 1
        send(session, *queries)

    monkeypatch.setattr(Session, "_send", sending)
    assert counted.is_warm()
    assert trips == 1


def test_files_are_checked_while_the_server_makes_its_answer(
    cluster: Cluster, database: str, admin: psycopg.Connection[Any]
) -> None:
    store = DatabaseStore(database, cluster.url(database), count(1), RecentRows())
    with store.reading(Deadline.after(5)) as reader:
        version = reader.version
    assert isinstance(version, DatabaseVersion)
    assert version.holds_with(lambda: bool([s for s in store._in_use if s._unread == 2]))
    # An answer that nobody read proves nothing later on.
    assert not version.holds_with(lambda: False)
    add_row(admin, "shop", "Written")
    assert not version.holds()
    store.let_go()


def test_local_rows_without_the_server_are_selected_once(counted: Counted) -> None:
    counted.stays_warm()
    rows, (warning,) = counted.ask()
    assert rows == ["Local row"]
    assert warning.startswith(f"{NOBODY}: the server is away (")


def test_the_pauses_between_attempts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DatabaseStore(NOBODY, NOBODY, count(1), RecentRows())
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pauses = []
    for _ in range(8):
        error = store.failed(StoreError("away", path=NOBODY, reason="away"))
        assert store.failed(error) is error  # told again, it is no other failure
        pauses.append(store._retry_at - now)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def silent_server() -> socket.socket:
    """It takes a connection, and says nothing."""
    return socket.create_server(("127.0.0.1", 0))


def test_an_attempt_that_hangs_is_waited_for_once() -> None:
    """The deadline of the second question is longer than an attempt takes."""
    with silent_server() as server:
        url = f"postgresql://reader@127.0.0.1:{server.getsockname()[1]}/team?sslmode=disable"
        store = DatabaseStore(url, url, count(1), RecentRows())
        for seconds in (0.05, 60):
            with (
                pytest.raises(StoreError, match=r"the server is away \(no answer yet\)"),
                store.reading(Deadline.after(seconds)),
            ):
                pass
        store.interrupt()


def test_a_server_that_connects_slowly_is_not_away() -> None:
    """Slower than a probe may take, and no slower than the question has time for."""
    with Cluster() as cluster:
        cluster.create("team")
        url = cluster.url("team")
        store = DatabaseStore(url, url, count(1), RecentRows())
        with store.reading(Deadline.after(5)) as reader:
            version = reader.version
        store.let_go()
        assert cluster.process is not None
        os.kill(cluster.process.pid, signal.SIGSTOP)
        try:
            assert not version.holds()
        finally:
            os.kill(cluster.process.pid, signal.SIGCONT)
        with store.reading(Deadline.after(5)) as reader:
            assert reader.trouble is None
        assert store.describe().ok
        store.let_go()
