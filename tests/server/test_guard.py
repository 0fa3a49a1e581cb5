"""A socket that is taken away is noticed at once; the clock is only for what nobody tells."""

from __future__ import annotations

import asyncio
import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from claudemem_daemon.server import guard as module
from claudemem_daemon.server.guard import UNWATCHED_SECONDS, WATCHED_SECONDS, Guard
from tests.support.daemon import Daemon


def test_what_is_watched_is_looked_at_when_it_goes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "d.sock").touch()

    async def watch() -> None:
        gone = asyncio.Event()
        guard = Guard(asyncio.get_running_loop(), gone.set, [str(folder), str(tmp_path)])
        guard.start()
        try:
            assert guard.seconds == WATCHED_SECONDS
            (folder / "d.sock").unlink()
            await asyncio.wait_for(gone.wait(), 30)
            gone.clear()
            shutil.rmtree(folder)
            await asyncio.wait_for(gone.wait(), 30)
            guard.arm()
            assert guard.seconds == UNWATCHED_SECONDS
        finally:
            guard.stop()

    asyncio.run(watch())


def test_what_cannot_be_watched_is_looked_at_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNWATCHED_SECONDS", 0.01)

    async def watch() -> None:
        looks = asyncio.Semaphore(0)
        guard = Guard(asyncio.get_running_loop(), looks.release, [str(tmp_path / "none")])
        guard.start()
        try:
            for _ in range(3):
                await asyncio.wait_for(looks.acquire(), 30)
        finally:
            guard.stop()

    asyncio.run(watch())


def test_without_any_instance_of_inotify_it_is_checked_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(module, "Observer", none_left)

    async def watch() -> None:
        guard = Guard(asyncio.get_running_loop(), lambda: None, [str(tmp_path)])
        guard.start()
        assert guard.seconds == UNWATCHED_SECONDS
        guard.arm()
        guard.stop()

    asyncio.run(watch())


@pytest.mark.skipif(
    subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode != 0
    if shutil.which("unshare")
    else True,
    reason="needs a user namespace of its own",
)
@pytest.mark.parametrize("left", [0, 1])
def test_a_daemon_serves_where_inotify_is_used_up(home: Path, left: int) -> None:
    limit = f'echo {left} > /proc/sys/user/max_inotify_instances && exec "$@"'
    with Daemon(home, prefix=["unshare", "-Ur", "sh", "-c", limit, "sh"]) as running:
        settings = home / ".claude-mem" / "settings.json"
        settings.write_text('{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 7}')
        answer = running.post("/v1/query", {"projects": ["p"]}).json()
        assert answer["filters"]["limit"] == 7
        if left == 0:
            assert running.get("/v1/status").json()["watcher"]["backend"] == "stat-per-request"
