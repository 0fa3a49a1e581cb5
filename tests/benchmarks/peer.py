"""The same questions to claude-mem's own worker, on the same store in the same run."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Final

from tests.benchmarks.client import Client, get, inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.benchmarks.site import Ground, Site
from tests.benchmarks.store import HUGE, MIDDLING, RARE

_WORKER: Final = os.path.join("plugin", "scripts", "worker-service.cjs")
_PATIENCE: Final = 600.0
"""Seconds until the worker is ready, which copies a large store first."""


class Worker:
    """claude-mem's worker of the package unpacked at `folder`, by bun, with HOME at `home`."""

    def __init__(self, folder: str, home: str) -> None:
        beside = os.path.join(folder, "..", ".bin")
        bun = shutil.which("bun", path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
        script = os.path.join(os.path.abspath(folder), _WORKER)
        if bun is None or not os.path.exists(script):
            raise SystemExit(f"--peer needs bun on the PATH or in {beside}, and {script}")
        with socket.socket() as link:
            link.bind(("127.0.0.1", 0))
            address = link.getsockname()
        self.client = Client(address, timeout=60.0)
        self._command = (bun, script, "--daemon")
        self._home = home
        self._env: Mapping[str, str] = {
            "HOME": home,
            "PATH": f"{os.path.dirname(bun)}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "CLAUDE_MEM_DATA_DIR": os.path.join(home, ".claude-mem"),
            "CLAUDE_MEM_WORKER_PORT": str(address[1]),
            "CLAUDE_MEM_CHROMA_ENABLED": "false",
            "CLAUDE_MEM_SKIP_CLEANUP_V12_4_3": "1",  # it copies the store first
            "DO_NOT_TRACK": "1",
        }
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Worker:
        with open(os.path.join(self._home, "worker.log"), "wb") as log:
            self._process = subprocess.Popen(
                self._command, env=self._env, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip
        end = time.monotonic() + _PATIENCE
        while True:
            with suppress(OSError, ValueError):
                if self.client.ask(get("/api/readiness")).status == 200:
                    return self
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                with open(os.path.join(self._home, "worker.log"), encoding="utf-8") as file:
                    raise RuntimeError(f"claude-mem's worker is not ready: {file.read()[-2000:]}")
            time.sleep(0.1)  # it has no other sign of being ready

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


def peer(ground: Ground, rows: int, folder: str, effort: Effort) -> Iterator[Figure]:
    """The floor is claude-mem. Its worker changes the store it opens, so this one is made for it;
    rows are written by another process, and must be in both answers."""
    with (
        tempfile.TemporaryDirectory(prefix="cmd-bench-", dir=ground.folder) as place,
        Site(replace(ground, folder=place), rows) as site,
        _complete(folder, site, place) as worker,
        Daemon(site.home) as daemon,
    ):
        for project in (RARE, MIDDLING, HUGE):
            theirs = get("/api/context/inject", {"projects": project})
            for what, written in (("warm", ""), ("after a write", project)):
                turns = {
                    "ours": _turn(site, daemon.client, inject(site.cwd(project)), written),
                    "theirs": _turn(site, worker.client, theirs, written),
                }
                taken = interleave(turns, effort.slow)
                yield Figure(
                    "beside claude-mem", f"{project}, {what}", rows, median(taken["ours"]),
                    p99=p99(taken["ours"]), floor=median(taken["theirs"]),
                    floor_name="claude-mem's worker",
                )  # fmt: skip


def _complete(folder: str, site: Site, place: str) -> Worker:
    """A worker for the site's store, which gets the tables that the worker has and we never read."""
    empty = os.path.join(place, "empty")
    os.mkdir(empty)
    with Worker(folder, empty):
        pass
    with closing(sqlite3.connect(site.store)) as db:
        db.execute("ATTACH ? AS made", (os.path.join(empty, ".claude-mem", "claude-mem.db"),))
        db.execute("DROP TABLE pending_messages")  # empty, and of fewer columns
        missing = db.execute(
            "SELECT sql FROM made.sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " AND name NOT IN (SELECT name FROM main.sqlite_master)"
            " AND (name NOT LIKE '%_fts_%' OR type = 'trigger')"
            " ORDER BY type NOT IN ('table', 'view'), sql LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        for (statement,) in missing:
            db.execute(statement)
        db.execute("INSERT OR IGNORE INTO schema_versions SELECT * FROM made.schema_versions")
        db.commit()
    return Worker(folder, site.home)


def _turn(site: Site, client: Client, request: bytes, written: str) -> Turn:
    def turn() -> float:
        # The other's answer may have taken seconds, after which nothing is warm any more.
        if not written:
            client.ask(request)
        title = site.write(written) if written else ""
        reply = client.ask(request)
        if reply.status != 200 or title not in reply.text:
            raise AssertionError(f"no {title!r} in {reply.text[:500]!r}")
        return reply.seconds

    return turn
