"""Behind a pooler, the next transaction may be another server process's."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

import psycopg
import pytest

from claudemem_daemon.database_url import CREATE_INDEX
from tests.postgres.conftest import Machine
from tests.postgres.test_trouble import ask, set_url
from tests.support.daemon import Daemon
from tests.support.pooler import pgbouncer, running_pgbouncer, switching_pooler
from tests.support.postgres import Cluster, add_row

SETTINGS = (
    "enable_sort", "enable_bitmapscan", "jit", "plan_cache_mode", "statement_timeout",
    "default_transaction_read_only",
)  # fmt: skip
KINDS = [
    "ours",
    *(
        pytest.param(mode, marks=pytest.mark.skipif(pgbouncer() is None, reason="no PgBouncer"))
        for mode in ("session", "transaction")
    ),
]


def settings(connection: psycopg.Connection[Any]) -> list[str]:
    return [connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in SETTINGS]


def begin_on_others(url: str, count: int, stack: ExitStack) -> None:
    """Hold server processes, so that the pooler gives others to those who ask."""
    for _ in range(count):
        other = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
        other.execute("SELECT 1")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indexed", [False, True])
def test_a_pooler_may_change_the_session_with_each_transaction(
    machine: Machine,
    cluster: Cluster,
    database: str,
    admin: psycopg.Connection[Any],
    kind: str,
    indexed: bool,
) -> None:
    if indexed:
        admin.execute(CREATE_INDEX)
    pooler: AbstractContextManager[str] = (
        switching_pooler(cluster, database)
        if kind == "ours"
        else running_pgbouncer(cluster, database, kind)
    )
    with pooler as url, Daemon(machine.home) as daemon:
        set_url(machine, url)
        told: list[str] = []
        for number in range(6):
            add_row(admin, "shop", f"Row {number}", at=f"2100-01-01T00:00:0{number}Z")
            told.insert(0, f"Row {number}")
            with ExitStack() as stack:
                begin_on_others(url, number % 3, stack)
                for _ in range(2):
                    assert ask(machine, daemon) == ([*told, "Local row"], [])
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as other:
            for _ in range(2):  # what we set ended with our transactions
                assert settings(other) == settings(admin)
