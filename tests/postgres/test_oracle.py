"""Random rows in both kinds of store of one repository, against plain SQL over all of them."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.postgres.conftest import Machine
from tests.support.daemon import Daemon
from tests.support.postgres import add_row
from tests.support.stores import add_observations, iso

Admin = psycopg.Connection[Any]
PROJECTS = (
    "shop", "shop/shop-cart", "shop-cart", "shop/gone", "shopper", "other", "shop%", "SHOP/a",
    "Shop/zz", "shop/\U0001f600", "shop.x", "shop",
)  # fmt: skip
OURS = ("shop", "shop/shop-cart", "shop-cart", "shop/gone", "shop/\U0001f600")
TYPES = ("bugfix", "discovery", "feature")
CONCEPTS = ("gotcha", "pattern", "how-it-works")
FIRST = 1_790_000_000_000

LOCAL = """
SELECT title, created_at_epoch, project FROM observations
WHERE project IN ('shop', 'shop/shop-cart', 'shop-cart', 'shop/gone', 'shop/\U0001f600') AND type IN ({types})
AND EXISTS (SELECT 1 FROM json_each(concepts) WHERE value IN ({concepts}))
"""
REMOTE = """
SELECT metadata->>'title', floor(extract(epoch FROM created_at) * 1000)::bigint,
    metadata->>'project'
FROM observations
WHERE metadata->>'project' = ANY(%s) AND kind = ANY(%s) AND metadata->'concepts' ?| %s
"""
GONE = """
DELETE FROM observations WHERE id IN (SELECT id FROM observations ORDER BY created_at DESC LIMIT %s)
"""


@pytest.mark.parametrize("database", ["", "en-US"], indirect=True)
@pytest.mark.parametrize("seed", range(3))
def test_the_one_list_is_what_plain_sql_says(machine: Machine, admin: Admin, seed: int) -> None:
    chance = random.Random(seed)
    store = machine.home / ".claude-mem" / "claude-mem.db"
    # Each time is one store's, so that ties are between projects of that store alone.
    times = chance.sample(range(400), 200)
    local = [described(chance, f"local {n}", at) for n, at in enumerate(times[:100])]
    add_observations(store, [{**row, "concepts": f'["{row["concepts"][0]}"]'} for row in local])
    if seed:
        admin.execute("CREATE INDEX ON observations ((metadata->>'project'), created_at DESC)")
    for number, at in enumerate(times[100:]):
        add(admin, described(chance, f"remote {number}", at if number % 5 else times[100]))
    with Daemon(machine.home) as daemon:
        for turn in range(12):
            types = chance.sample(TYPES, chance.randint(1, 3))
            concepts = chance.sample(CONCEPTS, chance.randint(1, 3))
            limit = chance.choice((1, 7, 50, 300))
            answer = machine.query(daemon, types=types, concepts=concepts, limit=limit)
            found = [
                (row["created_at_epoch"], row["project"], row["title"])
                for row in answer["observations"]
            ]
            expected = by_sql(store, admin, types, concepts)
            assert [row[:2] for row in found] == [row[:2] for row in expected[:limit]]
            assert set(found) <= set(expected)
            assert len(set(found)) == len(found)
            if turn % 3:
                admin.execute(GONE, (chance.randint(0, 20),))
                add(admin, described(chance, f"later {turn}", chance.choice(times[100:])))


def add(admin: Admin, row: dict[str, Any]) -> None:
    add_row(
        admin,
        row["project"],
        row["title"],
        kind=row["type"],
        at=iso(row["created_at_epoch"]),
        concepts=row["concepts"],
    )


def described(chance: random.Random, title: str, at: int) -> dict[str, Any]:
    return {
        "project": chance.choice(PROJECTS),
        "title": title,
        "type": chance.choice(TYPES),
        "concepts": [chance.choice(CONCEPTS)],
        "created_at_epoch": FIRST + at,
    }


def by_sql(
    store: Any, admin: Admin, types: list[str], concepts: list[str]
) -> list[tuple[int, str, str]]:
    def listed(names: list[str]) -> str:
        return ", ".join(f"'{name}'" for name in names)

    with closing(sqlite3.connect(store)) as db:
        db.execute("DELETE FROM observations WHERE title = 'Local row'")
        db.commit()
        rows = db.execute(LOCAL.format(types=listed(types), concepts=listed(concepts))).fetchall()
    rows += admin.execute(REMOTE, (list(OURS), types, concepts)).fetchall()
    return sorted(((at, project, title) for title, at, project in rows), reverse=True)
