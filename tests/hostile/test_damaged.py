"""Damaged stores: each costs its own rows at most, is named, and stays as it is."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.daemon import Daemon
from tests.support.stores import (
    GENERATIONS,
    add_observations,
    add_session,
    add_summary,
    make_store,
)

SIDES: Final = ("", "-wal", "-journal")
HEALTHY: Final = [f"healthy {n}" for n in range(5)]
SEED: Final = 20_261_202
FEW: Final = 50
MANY: Final = 2_500

Damage = Callable[[random.Random, bytearray], None]


def flip(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.choice([1, 1, 8, 64])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def head(chance: random.Random, data: bytearray) -> None:
    """The file's header, where sizes, versions and salts are."""
    for _ in range(chance.choice([1, 4])):
        data[chance.randrange(min(100, len(data)))] = chance.randrange(256)


def schema(chance: random.Random, data: bytearray) -> None:
    """The first page: the root of the schema, or the first frame of a WAL."""
    for _ in range(chance.choice([1, 4, 16])):
        data[chance.randrange(min(4096, len(data)))] = chance.randrange(256)


def structure(chance: random.Random, data: bytearray) -> None:
    """The beginning of a page: its kind, cell count, free blocks and cell pointers."""
    start = chance.randrange(0, len(data), 4096)
    for _ in range(chance.choice([1, 3])):
        data[min(len(data) - 1, start + chance.randrange(32))] = chance.choice([0, 1, 13, 255])


def zero(chance: random.Random, data: bytearray) -> None:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([4, 512, 4096, 16_384]))
    data[start:end] = bytes(end - start)


def noise(chance: random.Random, data: bytearray) -> None:
    start = chance.randrange(0, len(data), 512)
    end = min(len(data), start + chance.choice([16, 512, 4096]))
    data[start:end] = chance.randbytes(end - start)


def page_over_another(chance: random.Random, data: bytearray) -> None:
    pages = max(1, len(data) // 4096)
    source, target = (chance.randrange(pages) * 4096 for _ in range(2))
    page = data[source : source + 4096]
    data[target : target + len(page)] = page


def truncate(chance: random.Random, data: bytearray) -> None:
    del data[chance.choice([0, 10, 100, 512, chance.randrange(len(data))]) :]


def grow(chance: random.Random, data: bytearray) -> None:
    data += chance.randbytes(chance.choice([1, 512, 5000]))


def text(chance: random.Random, data: bytearray) -> None:
    """A word of a row or of the schema, which is then no UTF-8."""
    word = chance.choice([b"observation", b"project", b"app", b"INTEGER", b"session", b"What"])
    places = [n for n in range(len(data)) if data.startswith(word, n)]
    for place in chance.sample(places, min(len(places), 20)):
        data[place + chance.randrange(len(word))] = chance.choice([0, 0xFF, 0x22, 0x80])


DAMAGES: Final[tuple[Damage, ...]] = (
    flip, head, schema, structure, zero, noise, page_over_another, truncate, grow, text,
)  # fmt: skip


def fill(path: str) -> None:
    add_session(path)
    rows = [{"facts": ["a fact"] * 5, "files_read": [f"src/{n}.py"]} for n in range(120)]
    rows[60]["narrative"] = "long " * 4_000  # type: ignore[assignment]  # on pages of its own
    add_observations(path, rows)
    add_summary(path)


def original(folder: Path, kind: str, generation: Any) -> dict[str, bytes]:
    """The files of a store in the middle of its life, by what follows its name: with commits in the
    WAL, with a journal left by a writer that died, or alone."""
    path = make_store(
        folder / kind / "s.db", generation, journal="wal" if kind == "wal" else "delete"
    )
    if kind != "wal":
        fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if kind == "wal":
            db.execute("SELECT count(*) FROM observations").fetchall()  # or the last writer ends it
            fill(path)
        if kind == "journal":
            db.execute("PRAGMA cache_size = 1")
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE observations SET title = title || ' again'")
        return contents(path)


def contents(path: str) -> dict[str, bytes]:
    """The files of the store that have any."""
    found = {side: Path(path + side) for side in SIDES if os.path.exists(path + side)}
    return {side: data for side, one in found.items() if (data := one.read_bytes())}


def write(path: str, files: dict[str, bytes]) -> None:
    """As another store: nothing that was open belongs to it."""
    for side in (*SIDES, "-shm"):
        Path(path + side).unlink(missing_ok=True)
    for side, content in sorted(files.items(), reverse=True):
        Path(path + side).write_bytes(content)


def wrong_with(daemon: Daemon, repository: Path, path: str, *, routes: bool) -> str | None:
    """What an answer beside the damaged store at `path` lacks."""
    body = {"cwd": str(repository)}
    answer = daemon.post("/v1/query", body)
    if answer.status != 200:
        return f"query {answer.status}: {answer.text}"
    shape = answer.json()
    titles = [one["title"] for one in shape["observations"]]
    if sorted(one for one in titles if one.startswith("healthy")) != HEALTHY:
        return f"rows of the healthy store: {titles}"
    for store in shape["stores"]:
        if store["ok"]:
            continue
        error = store["error"]
        if (
            store["path"] != path
            or not error.startswith(path + ": ")
            or len(error.splitlines()) != 1
        ):
            return f"said of the store: {store}"
        if path not in [one.get("path") for one in shape["warnings"]]:
            return f"no warning for {store}"
    if not routes:
        return None
    for name, other in (
        ("context", daemon.get("/api/context/inject", {"cwd": str(repository)})),
        ("explain", daemon.post("/v1/explain", body)),
        ("search", daemon.get("/v1/search", {"cwd": str(repository), "q": "happened"})),
        ("projects", daemon.get("/v1/projects", {"cwd": str(repository)})),
        ("status", daemon.get("/v1/status")),
    ):
        if other.status != 200:
            return f"{name} {other.status}: {other.text}"
    return None


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["wal", "journal", "alone"])
def test_a_damaged_store_costs_its_own_rows_at_most(
    home: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    repository = home / "app"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    healthy = make_store(home / "healthy.db")
    add_observations(healthy, [{"title": title} for title in HEALTHY])
    path = str(home / ".claude-mem" / "claude-mem.db")
    os.mkdir(home / ".claude-mem")
    settings = {
        "CLAUDE_MEM_DAEMON_STORES": {"*": healthy},
        "CLAUDE_MEM_CONTEXT_OBSERVATIONS": "200",
        # What others do on the machine decides nothing: processor time is looked at instead.
        "CLAUDE_MEM_DAEMON_TIMEOUT_MS": "60000",
    }
    Path(path).with_name("settings.json").write_text(json.dumps(settings))
    originals = [original(home / one, kind, one) for one in GENERATIONS]
    lost: list[str] = []
    longest = 0.0
    with Daemon(home) as daemon:
        first = daemon.pid
        count = MANY if request.config.getoption("--long") else FEW
        for seed in range(SEED, SEED + count):
            chance = random.Random(seed)
            files = dict(chance.choice(originals))
            damages = chance.sample(DAMAGES, chance.choice([1, 1, 2]))
            side = chance.choice([*files, *files, ""])
            data = bytearray(files[side])
            for damage in damages:
                if data:
                    damage(chance, data)
            files[side] = bytes(data)
            write(path, files)
            spent = daemon.processor_seconds()
            wrong = wrong_with(daemon, repository, path, routes=seed % 3 == 0)
            if wrong is None and contents(path) != {
                side: one for side, one in files.items() if one
            }:
                wrong = "a file was changed"
            spent = daemon.processor_seconds() - spent
            longest = max(longest, spent)
            if wrong is None and spent > 1.5:
                wrong = f"{spent:.1f} s of processor time"
            if wrong is not None:
                names = ", ".join(one.__name__ for one in damages)
                lost.append(f"{seed} {names} of {side or 'the store'}: {wrong[:500]}")
        assert daemon.pid == first
        assert daemon.reachable()
        assert "Traceback" not in daemon.errors()
    assert not lost, "\n".join(lost)
    print(f"{count} damaged stores, {kind}: 0 lost; longest {longest:.2f} s of processor time")
