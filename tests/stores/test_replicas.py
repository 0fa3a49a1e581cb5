"""A copy of another machine's store, renewed while the daemon is asked of it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.daemon import Daemon
from tests.support.stores import add_observation, add_observations, make_store

RENEWALS: Final = 10


def by_rename(source: str, copy: str) -> None:
    shutil.copyfile(source, f"{copy}.new")
    os.replace(f"{copy}.new", copy)


def in_place(source: str, copy: str) -> None:
    with open(source, "rb") as read, open(copy, "r+b" if os.path.exists(copy) else "xb") as write:
        write.write(read.read())
        write.truncate()


def by_sqlite(source: str, copy: str) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(copy)) as other:
        one.backup(other)


@pytest.mark.parametrize("renew", [by_rename, in_place, by_sqlite])
def test_a_copy_is_renewed_while_it_is_asked_of(
    home: Path, renew: Callable[[str, str], None]
) -> None:
    """The next answer has what was copied; none in between fails. A copy that is written over in
    place can be seen half written, and is then said to be damaged."""
    source, copy = make_store(home / "source.db", journal="delete"), str(home / "copy.db")
    add_observations(source, [{"project": "app"} for _ in range(300)])
    renew(source, copy)
    subprocess.run(["git", "init", "-q", str(home / "app")], check=True)
    data = home / ".claude-mem"
    data.mkdir()
    (data / "settings.json").write_text(json.dumps({"CLAUDE_MEM_DAEMON_STORES": {"*": copy}}))
    over = threading.Event()
    meanwhile: list[Any] = []

    with Daemon(home) as daemon:

        def ask() -> Any:
            reply = daemon.post("/v1/query", {"cwd": str(home / "app"), "limit": 5})
            assert reply.status == 200, reply.text
            return reply.json()

        def keep_asking() -> None:
            while not over.is_set():
                meanwhile.append(ask())

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            for number in range(RENEWALS):
                add_observation(source, project="app", title=f"Renewal {number}")
                renew(source, copy)
                answer = ask()
                assert answer["observations"][0]["title"] == f"Renewal {number}"
                assert answer["warnings"] == []
        finally:
            over.set()
            asking.join()
    assert meanwhile
    if renew is not in_place:
        assert all(len(one["observations"]) == 5 and not one["warnings"] for one in meanwhile)
