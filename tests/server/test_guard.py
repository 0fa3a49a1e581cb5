"""A socket that is taken away is noticed at once; the clock is only for what nobody tells."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from claudemem_daemon.server import guard as module
from claudemem_daemon.server.guard import UNWATCHED_SECONDS, WATCHED_SECONDS, Guard


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
