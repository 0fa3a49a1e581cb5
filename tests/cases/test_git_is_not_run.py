"""Git is read, not run: whatever lies first on the PATH."""

from __future__ import annotations

from pathlib import Path

from tests.cases.world import World
from tests.support.daemon import Daemon


def test_a_git_that_hangs_is_never_started(tmp_path: Path) -> None:
    """Cases git-call-hangs and launchd-systemd-path-lacks-git."""
    home, root, tools = tmp_path / "home", tmp_path / "w", tmp_path / "tools"
    for folder in (home, root, tools):
        folder.mkdir()
    fake = tools / "git"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nsleep 60\n")
    fake.chmod(0o755)
    with Daemon(home, environ={"PATH": str(tools)}) as daemon:
        world = World(home, root, daemon)
        app = world.repository("app", "app-a")
        world.row("app/app-a", title="a")
        for cwd in (app, root / "app-a"):
            assert world.titles(cwd) == ["a"]
        world.git("worktree", "remove", root / "app-a", cwd=app)
        assert world.titles(app) == ["a"]
    assert not (tmp_path / "started").exists()


def test_without_any_git_on_the_path_everything_is_found(tmp_path: Path) -> None:
    """Case launchd-systemd-path-lacks-git."""
    home, root = tmp_path / "home", tmp_path / "w"
    home.mkdir()
    root.mkdir()
    with Daemon(home, environ={"PATH": "/nonexistent"}) as daemon:
        world = World(home, root, daemon)
        world.repository("app", "app-a")
        world.row("app", title="main")
        assert world.titles(root / "app-a") == ["main"]
        assert daemon.get("/healthz").json()["status"] == "ok"
