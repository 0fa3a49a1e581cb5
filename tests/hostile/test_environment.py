"""Limits of the machine: an answer, or a refusal in words."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.stores import add_observation, make_store

LIMITED = (
    "import os, resource as r, sys;"
    " r.setrlimit(getattr(r, sys.argv[1]), (int(sys.argv[2]),) * 2);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)


def answer(daemon: Daemon) -> list[str]:
    reply = daemon.post("/v1/query", {"projects": ["app"]})
    assert reply.status == 200, reply.body
    assert "Traceback" not in daemon.errors()
    return [row["title"] for row in reply.json()["observations"]]


@pytest.fixture
def filled(home: Path) -> Path:
    add_observation(make_store(home / ".claude-mem" / "claude-mem.db"), project="app", title="row")
    return home


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no limit of the address space")
@pytest.mark.parametrize(
    ("limit", "value"),
    [("RLIMIT_NOFILE", 48), ("RLIMIT_AS", 1 << 30), ("RLIMIT_STACK", 1 << 20)],
)
def test_a_limit_is_lived_with(filled: Path, limit: str, value: int) -> None:
    prefix = [sys.executable, "-c", LIMITED, limit, str(value)]
    with Daemon(filled, prefix=prefix) as daemon:
        assert answer(daemon) == ["row"]
        if limit == "RLIMIT_NOFILE":
            with contextlib.ExitStack() as stack:
                for _ in range(60):
                    stack.enter_context(contextlib.closing(daemon.connect()))
            assert answer(daemon) == ["row"]


def test_a_home_that_is_moved_and_comes_back_is_answered_from(filled: Path) -> None:
    away = filled.with_name(filled.name + "-away")
    with Daemon(filled) as daemon:
        assert answer(daemon) == ["row"]
        filled.rename(away)
        shutil.copytree(
            away / ".claude-mem", filled / ".claude-mem", ignore=shutil.ignore_patterns("daemon")
        )
        shutil.rmtree(away)
        eventually(daemon.reachable, "it is bound again")
        assert answer(daemon) == ["row"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_umask_decides_nothing(filled: Path, umask: int) -> None:
    with Daemon(filled, umask=umask) as daemon:
        assert answer(daemon) == ["row"]
        assert os.stat(daemon.state_dir).st_mode & 0o777 == 0o700
        assert os.stat(daemon.socket_path).st_mode & 0o777 == 0o600
