"""Whatever happens to the server, the local rows are answered, and one line says what is missing."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import psycopg
import pytest

from claudemem_daemon.database_url import CREATE_INDEX
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.postgres import make_store
from claudemem_daemon.stores.recent import RecentRows
from tests.postgres.conftest import Machine
from tests.support.daemon import Daemon, eventually
from tests.support.postgres import SCHEMA, Cluster, add_row

Admin = psycopg.Connection[Any]


def ask(machine: Machine, daemon: Daemon) -> tuple[list[str], list[str]]:
    answer = machine.query(daemon)
    for warning in answer["warnings"]:
        assert "\n" not in warning["message"]
    return (
        [row["title"] for row in answer["observations"]],
        [one["message"] for one in answer["warnings"]],
    )


def set_url(machine: Machine, url: str) -> None:
    (machine.home / ".claude-mem" / "settings.json").write_text(
        json.dumps({"CLAUDE_MEM_DAEMON_STORES": {"*": url}, "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 5000})
    )


@pytest.mark.parametrize("indexed", [False, True])
def test_a_killed_server_is_stood_in_for_and_comes_back(machine: Machine, indexed: bool) -> None:
    with Cluster() as cluster:
        cluster.create("team")
        with cluster.admin("team") as admin:
            admin.execute(SCHEMA)
            add_row(admin, "shop", "Server row")
            if indexed:
                admin.execute(CREATE_INDEX)
        set_url(machine, cluster.url("team"))
        with Daemon(machine.home) as daemon:
            assert "Server row" in machine.context()
            rows, warnings = ask(machine, daemon)
            assert (sorted(rows), warnings) == (["Local row", "Server row"], [])
            cluster.stop(signal.SIGKILL)
            assert "Server row" in machine.context()
            for _ in range(3):
                rows, warnings = ask(machine, daemon)
                assert sorted(rows) == ["Local row", "Server row"]
                assert len(warnings) == 1
                assert "the server is away" in warnings[0]
                assert "were read at" in warnings[0]
            (use,) = [s for s in daemon.get("/v1/status").json()["stores"] if not s["ok"]]
            assert "the server is away" in use["error"]
            cluster.start()
            with cluster.admin("team") as admin:
                add_row(admin, "shop", "After the crash")
            everything = ["After the crash", "Local row", "Server row"]
            eventually(
                lambda: (answer := ask(machine, daemon)) and sorted(answer[0]) == everything,
                "the server's rows are back",
            )


def test_without_a_first_answer_the_local_rows_are_all(machine: Machine) -> None:
    set_url(machine, "postgresql://reader@127.0.0.1:1/team")
    with Daemon(machine.home) as daemon:
        for _ in range(2):
            rows, warnings = ask(machine, daemon)
            assert rows == ["Local row"]
            assert len(warnings) == 1
            assert "postgresql://reader@127.0.0.1:1/team: the server is away" in warnings[0]


@pytest.mark.parametrize(
    ("statement", "user", "words"),
    [
        ("CREATE ROLE {} LOGIN", "nothing_granted", "may not read it; grant it SELECT"),
        ("CREATE ROLE with_password LOGIN PASSWORD 'right'", "with_password:wrong", "~/.pgpass"),
        ("ALTER TABLE observations DROP COLUMN metadata", "postgres", "not the database of a"),
        ("SELECT 1", "nobody_here", 'cannot be asked; role "nobody_here'),
        ("ALTER TABLE observations ALTER metadata TYPE text", "postgres", "not the database of a"),
        (
            "ALTER TABLE observations ALTER id TYPE uuid USING gen_random_uuid()",
            "postgres",
            "not the database of a claude-mem server",
        ),
        ("DROP TABLE observations", "postgres", "not the database of a claude-mem server"),
    ],
)
def test_each_trouble_has_one_clear_line(
    machine: Machine, cluster: Cluster, database: str, admin: Admin,
    statement: str, user: str, words: str,
) -> None:  # fmt: skip
    add_row(admin, "shop", "Server row")
    role = f"{user.partition(':')[0]}_{database}" if "{}" in statement else user
    with suppress(psycopg.errors.DuplicateObject):
        admin.execute(statement.format(role))
    set_url(machine, cluster.url(database, role))
    with Daemon(machine.home) as daemon:
        rows, warnings = ask(machine, daemon)
        assert rows == ["Local row"]
        assert len(warnings) == 1
        assert words in warnings[0]
        assert "wrong" not in warnings[0]
        (use,) = [one for one in daemon.get("/v1/status").json()["stores"] if not one["ok"]]
        assert use["error"] == warnings[0]
        assert ask(machine, daemon) == (rows, warnings)
        asked = {"cwd": str(machine.shop), "q": "row"}
        found = daemon.get("/v1/search", asked).json()
        assert [row["title"] for row in found["observations"]] == ["Local row"]
        assert all(words in one["message"] for one in found["warnings"])


@contextmanager
def stalling_proxy(target: str) -> Iterator[tuple[int, threading.Event]]:
    """A port that passes everything on to the Unix socket until the event is set; from then on it
    swallows it, as a network does that drops packets."""
    stalled, ended = threading.Event(), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = [listener]

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not stalled.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while not ended.is_set():
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(target)
                opened.extend((client, server))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], stalled
    finally:
        ended.set()
        for one in opened:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_a_network_that_swallows_packets_costs_no_answer(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    add_row(admin, "shop", "Server row")
    target = f"{cluster.socket_folder}/.s.PGSQL.{cluster.port}"
    with stalling_proxy(target) as (port, stalled), Daemon(machine.home) as daemon:
        set_url(machine, f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
        daemon.post("/v1/reload")
        assert sorted(ask(machine, daemon)[0]) == ["Local row", "Server row"]
        stalled.set()
        for _ in range(3):
            rows, warnings = ask(machine, daemon)
            assert "Local row" in rows
            assert any("the server is away" in one for one in warnings)
        assert "Local row" in machine.hook(daemon, "SessionStart", "s")


def test_a_server_that_is_busy_is_not_away(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    """A migration holds the table: the question ends in time, and the next one is answered."""
    add_row(admin, "shop", "Server row")
    set_url(machine, cluster.url(database))
    with Daemon(machine.home) as daemon:
        with admin.transaction():
            admin.execute("LOCK TABLE observations")
            rows, warnings = ask(machine, daemon)
            assert rows == ["Local row"]
            assert len(warnings) == 1
            assert "not read to the end in time" in warnings[0]
        assert ask(machine, daemon) == (["Server row", "Local row"], [])


def test_nothing_is_left_open_after_a_while(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    add_row(admin, "shop", "Server row")
    with Daemon(machine.home) as daemon:
        ask(machine, daemon)
        mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'claudemem-daemon'"

        def sessions() -> int:
            ((number,),) = admin.execute(mine, (database,)).fetchall()
            return int(number)

        assert sessions() == 1
        eventually(lambda: sessions() == 0, "the session is closed")
        assert "Server row" in ask(machine, daemon)[0]


def test_it_asks_no_more_than_it_is_granted(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    """SELECT on two tables is all, and the session could not write."""
    admin.execute(f"CREATE ROLE reader_{database} LOGIN")
    admin.execute(f"GRANT SELECT ON observations, server_sessions TO reader_{database}")
    add_row(admin, "shop", "Server row", session="one")
    set_url(machine, cluster.url(database, f"reader_{database}"))
    with Daemon(machine.home) as daemon:
        assert ask(machine, daemon) == (["Server row", "Local row"], [])
        for route in ("/v1/projects", "/v1/search"):
            assert daemon.get(route, {"cwd": str(machine.shop), "q": "row"}).status == 200
        assert daemon.post("/v1/explain", {"cwd": str(machine.shop)}).status == 200


def test_without_psycopg_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("claudemem_daemon.stores.p")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="pipx inject claudemem-daemon"):
        make_store(
            "postgresql://reader@db/team",
            "postgresql://reader:secret@db/team",
            count(1),
            RecentRows(),
        )


def test_a_password_that_is_corrected_in_the_url_is_used(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    """In messages the two URLs are the same."""
    with suppress(psycopg.errors.DuplicateObject):
        admin.execute("CREATE ROLE with_password LOGIN")
    admin.execute("ALTER ROLE with_password PASSWORD 'right'")
    admin.execute("GRANT SELECT ON observations, server_sessions TO with_password")
    add_row(admin, "shop", "Server row")
    with Daemon(machine.home) as daemon:
        set_url(machine, cluster.url(database, "with_password:wrong"))
        assert "refuses the password" in ask(machine, daemon)[1][0]
        set_url(machine, cluster.url(database, "with_password:right"))
        assert ask(machine, daemon) == (["Server row", "Local row"], [])
        assert daemon.get("/healthz").json()["status"] == "ok"
