"""Git is read, not run: whatever lies first on the PATH."""

from __future__ import annotations

from pathlib import Path

from tests.cases.world import new_world


def test_a_git_that_hangs_is_never_started(tmp_path: Path) -> None:
    """Cases git-call-hangs and launchd-systemd-path-lacks-git."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "git"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nsleep 60\n")
    fake.chmod(0o755)
    with new_world(tmp_path, PATH=str(tools)) as world:
        app = world.repository("app", "app-a")
        world.row("app/app-a", title="a")
        for cwd in (app, world.root / "app-a"):
            assert world.titles(cwd) == ["a"]
        world.git("worktree", "remove", world.root / "app-a", cwd=app)
        assert world.titles(app) == ["a"]
    assert not (tmp_path / "started").exists()


def test_without_any_git_on_the_path_everything_is_found(tmp_path: Path) -> None:
    """Case launchd-systemd-path-lacks-git."""
    with new_world(tmp_path, PATH="/nonexistent") as world:
        world.repository("app", "app-a")
        world.row("app", title="main")
        assert world.titles(world.root / "app-a") == ["main"]
        assert world.daemon.get("/healthz").json()["status"] == "ok"
