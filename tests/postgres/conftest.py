"""One PostgreSQL server for all tests here, and a database of its own for each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.daemon import Daemon, clean_environ, run_to_end
from tests.support.postgres import SCHEMA, Cluster, server_folder
from tests.support.stores import add_observation, make_store

NUMBERS = count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if server_folder() is None:
        pytest.skip("no PostgreSQL server on PATH, in /usr/lib/postgresql or from a wheel")
    with Cluster() as running:
        yield running


@pytest.fixture
def database(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a database as the server of a team has it, without rows."""
    name = f"claude_mem_{next(NUMBERS)}"
    cluster.create(name, getattr(request, "param", ""))
    with cluster.admin(name) as admin:
        admin.execute(SCHEMA)
    return name


@pytest.fixture
def admin(cluster: Cluster, database: str) -> Iterator[psycopg.Connection[Any]]:
    with cluster.admin(database) as connection:
        yield connection


@dataclass(frozen=True, slots=True)
class Machine:
    """A HOME with a repository `shop`, its worktree `shop-cart`, and a local store with one row."""

    home: Path
    shop: Path
    cart: Path

    def context(self, **environ: str) -> str:
        found = run_to_end(clean_environ(self.home, **environ), "context", "--cwd", str(self.shop))
        assert found.returncode == 0, found.stderr
        return found.stdout

    def query(self, daemon: Daemon, **asked: Any) -> Any:
        reply = daemon.post("/v1/query", {"cwd": str(self.shop), **asked})
        assert reply.status == 200, reply.text
        return reply.json()

    def hook(self, daemon: Daemon, event: str, session: str, cwd: Path | None = None) -> str:
        body = {"session_id": session, "hook_event_name": event, "cwd": str(cwd or self.shop)}
        if event == "UserPromptSubmit":
            body["prompt"] = f"{session} {next(NUMBERS)}"
        return daemon.post("/v1/hooks/claude-code", body).text


def make_machine(home: Path, url: str) -> Machine:
    shop, cart = home / "src" / "shop", home / "src" / "shop-cart"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", str(shop)], check=True)
    subprocess.run([*git, "-C", str(shop), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "-C", str(shop), "worktree", "add", "-q", str(cart)], check=True)
    data = home / ".claude-mem"
    data.mkdir()
    (data / "settings.json").write_text(
        json.dumps({"CLAUDE_MEM_DAEMON_STORES": {"*": url}, "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 5000})
    )
    make_store(data / "claude-mem.db")
    add_observation(data / "claude-mem.db", project="shop", title="Local row")
    return Machine(home, shop, cart)


@pytest.fixture
def machine(home: Path, cluster: Cluster, database: str) -> Machine:
    return make_machine(home, cluster.url(database))
