"""The installed command, run in a world."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cases.world import World
from tests.support.daemon import DEVELOPING, clean_environ


def ours(
    world: World,
    *arguments: str,
    cwd: Path | None = None,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEVELOPING, *arguments],
        env=clean_environ(world.home, **env),
        cwd=cwd or world.root / "app",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
