"""A team's database beside the local store: warm, after a write, without the index that the docs
recommend, and with its server stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import psycopg

from claudemem_daemon.database_url import CREATE_INDEX
from tests.benchmarks.client import HEALTHZ, inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.support.postgres import SCHEMA, Cluster, add_row, server_folder
from tests.support.stores import add_observation, make_store

_FILL: Final = """
INSERT INTO observations (id, kind, content, metadata, created_at)
SELECT gen_random_uuid()::text, CASE WHEN hashint4(n) & 31 = 0 THEN 'summary'
    ELSE (array['bugfix', 'feature', 'discovery', 'decision'])[1 + n %% 4] END, 'text',
    jsonb_build_object('title', 'Row ' || n, 'concepts', jsonb_build_array('gotcha'),
        'narrative', repeat('words ', 50), 'project',
        CASE WHEN n %% 10 < 5 AND n %% 7 < 6 THEN 'shop' WHEN n %% 10 < 6 THEN 'shop/w' || n %% 50
        ELSE 'other' || n %% 2000 END),
    now() - interval '1 day' - n * interval '30 seconds'
FROM generate_series(1, %s) AS n
"""
_BY_HAND: Final = """
SELECT o.id, o.kind, o.metadata FROM unnest(array['shop'] || %s::text[]) AS wanted(project), LATERAL (
    SELECT id, kind, metadata, created_at FROM observations
    WHERE metadata->>'project' = wanted.project AND kind <> 'summary'
    ORDER BY created_at DESC LIMIT 50) AS o
WHERE o.metadata->'concepts' ? 'gotcha' ORDER BY o.created_at DESC LIMIT 50
"""
"""The newest rows of the same projects, whose names are known."""
_BY_HAND_UNINDEXED: Final = """
SELECT id, kind, metadata FROM observations
WHERE metadata->>'project' = ANY(array['shop'] || %s::text[]) AND kind <> 'summary'
    AND metadata->'concepts' ? 'gotcha' ORDER BY created_at DESC LIMIT 50
"""
_DROP_INDEXES: Final = (
    "DROP INDEX observations_expr_created_at_idx, observations_expr_created_at_idx1"
)
_NAMES: Final = [f"shop/w{number}" for number in range(50)]
_TURNS_UNINDEXED: Final = 5


def database(rows: int, effort: Effort) -> Iterator[Figure]:
    """Nothing where there is no PostgreSQL server."""
    if server_folder() is None:
        return
    with tempfile.TemporaryDirectory(prefix="cm-") as home, Cluster() as cluster:
        cluster.create("team")
        with closing(cluster.admin("team")) as admin:
            admin.execute(SCHEMA)
            admin.execute(_FILL, (rows,))
            admin.execute(CREATE_INDEX)
            admin.execute(CREATE_INDEX + " WHERE kind = 'summary'")
            admin.execute("ANALYZE observations")
            shop = _prepare(home, cluster.url("team"))
            with Daemon(home) as daemon:
                yield from _answers(daemon, admin, shop, rows, effort)
            admin.execute(_DROP_INDEXES)
            with Daemon(home) as daemon:
                yield _unindexed(daemon, admin, shop, rows)
            admin.close()
            with tempfile.TemporaryDirectory(prefix="cm-") as other:
                local_shop = _prepare(other)
                with Daemon(home) as daemon, Daemon(other) as local:
                    ours = daemon, inject(shop)
                    yield _stopped(ours, (local, inject(local_shop)), cluster, rows, effort)


def _prepare(home: str, url: str | None = None) -> str:
    """A repository with one local row, beside the database where one is named."""
    shop = os.path.join(home, "shop")
    subprocess.run(["git", "init", "-q", shop], check=True)
    data = os.path.join(home, ".claude-mem")
    os.mkdir(data)
    with open(os.path.join(data, "settings.json"), "w", encoding="utf-8") as file:
        json.dump({"CLAUDE_MEM_DAEMON_STORES": {"*": url}} if url else {}, file)
    store = os.path.join(data, "claude-mem.db")
    make_store(store)
    add_observation(store, project="shop", title="Local row")
    return shop


def _answers(
    daemon: Daemon, admin: psycopg.Connection[Any], shop: str, rows: int, effort: Effort
) -> Iterator[Figure]:
    request = inject(shop)

    def round_trip() -> float:
        began = time.perf_counter()
        admin.execute("SELECT 1").fetchall()
        return time.perf_counter() - began

    def by_hand() -> float:
        began = time.perf_counter()
        admin.execute(_BY_HAND, (_NAMES,)).fetchall()
        return time.perf_counter() - began

    def after_write() -> float:
        title = f"Written {time.time_ns()}"
        add_row(admin, "shop", title)
        reply = daemon.client.ask(request)
        if title not in reply.text:
            raise AssertionError(reply.text[:500])
        return reply.seconds

    warm: dict[str, Turn] = {
        "ours": lambda: daemon.client.seconds(request),
        "healthz": lambda: daemon.client.seconds(HEALTHZ),
        "trip": round_trip,
    }
    taken = interleave(warm, effort.turns)
    floor = median(taken["healthz"]) + 2 * median(taken["trip"])
    ours = median(taken["ours"])
    yield Figure(
        "team database", "warm", rows, ours, p99=p99(taken["ours"]), floor=floor,
        floor_name="/healthz and two round trips", times=1,
    )  # fmt: skip
    taken = interleave({"ours": after_write, "hand": by_hand, "trip": round_trip}, effort.writes)
    floor, ours = median(taken["hand"]), median(taken["ours"])
    most = 3 * floor + median(taken["trip"])
    yield Figure(
        "team database", "after a write", rows, ours, p99=p99(taken["ours"]), floor=floor,
        floor_name="the best plan by hand", rule=("3 x and one round trip", ours <= most),
    )  # fmt: skip


def _unindexed(daemon: Daemon, admin: psycopg.Connection[Any], shop: str, rows: int) -> Figure:
    cut = 0

    def after_write() -> float:
        nonlocal cut
        title = f"Written {time.time_ns()}"
        add_row(admin, "shop", title)
        reply = daemon.client.ask(inject(shop))
        cut += title not in reply.text
        return reply.seconds

    def by_hand() -> float:
        began = time.perf_counter()
        admin.execute(_BY_HAND_UNINDEXED, (_NAMES,)).fetchall()
        return time.perf_counter() - began

    taken = interleave({"ours": after_write, "hand": by_hand}, _TURNS_UNINDEXED)
    return Figure(
        "team database", "after a write, without the index", rows, median(taken["ours"]),
        p99=p99(taken["ours"]), floor=median(taken["hand"]), floor_name="the table read once",
        note=f"{cut} of {_TURNS_UNINDEXED + 1} were not read to the end in time",
    )  # fmt: skip


def _stopped(
    ours: tuple[Daemon, bytes],
    local: tuple[Daemon, bytes],
    cluster: Cluster,
    rows: int,
    effort: Effort,
) -> Figure:
    """Beside the same question to a daemon that knows of no server."""

    def ask(whom: tuple[Daemon, bytes]) -> float:
        daemon, request = whom
        return daemon.client.seconds(request)

    ask(ours)
    ask(local)
    cluster.stop(signal.SIGKILL)
    first, second = ask(ours), ask(ours)
    taken = interleave({"ours": lambda: ask(ours), "local": lambda: ask(local)}, effort.turns)
    return Figure(
        "team database", "server killed, from the second question on", rows, median(taken["ours"]),
        p99=p99(taken["ours"]), floor=median(taken["local"]), floor_name="a daemon without a server",
        times=1.1, note=f"the first took {first * 1000:.2f} ms, the second {second * 1000:.2f} ms",
    )  # fmt: skip
