"""A machine in small: a HOME, repositories, stores, and a real daemon that is asked from outside."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon
from tests.support.stores import add_observation, add_summary, make_store


class World:
    """Everything of one scenario; `root` stands for the `/w` of a bug report."""

    def __init__(self, home: Path, root: Path, daemon: Daemon) -> None:
        self.home = home
        self.root = root
        self.daemon = daemon
        self.data_dir = home / ".claude-mem"
        self.settings_path = self.data_dir / "settings.json"

    @property
    def store(self) -> str:
        """The shared store, made at its first use."""
        path = self.data_dir / "claude-mem.db"
        return str(path) if path.exists() else make_store(path)

    def row(self, project: str, **values: Any) -> int:
        """One observation in the shared store."""
        return add_observation(values.pop("store", self.store), project=project, **values)

    def summary(self, project: str, **values: Any) -> int:
        return add_summary(self.store, project=project, **values)

    def settings(self, values: Mapping[str, Any] | str | bytes) -> None:
        """Write settings.json as an editor does: a new file moved over the old one."""
        content = values if isinstance(values, str | bytes) else json.dumps(values)
        data = content.encode() if isinstance(content, str) else content
        self.data_dir.mkdir(exist_ok=True)
        fresh = self.data_dir / "settings.json.new"
        fresh.write_bytes(data)
        fresh.replace(self.settings_path)

    def query(self, cwd: str | Path | None = None, **body: Any) -> dict[str, Any]:
        """`POST /v1/query`; fails the test on anything but 200."""
        if cwd is not None:
            body["cwd"] = str(cwd)
        answer = self.daemon.post("/v1/query", body)
        assert answer.status == 200, answer.body
        shape: dict[str, Any] = answer.json()
        return shape

    def titles(self, cwd: str | Path, **body: Any) -> list[str]:
        return [row["title"] for row in self.query(cwd, **body)["observations"]]

    def context(self, cwd: str | Path, **parameters: str) -> str:
        """`GET /api/context/inject`."""
        answer = self.daemon.get("/api/context/inject", {"cwd": str(cwd), **parameters})
        assert answer.status == 200, answer.body
        return answer.text

    def git(self, *arguments: str | Path, cwd: str | Path | None = None) -> str:
        """A git command in a sealed environment."""
        done = subprocess.run(
            ["git", *map(str, arguments)],
            cwd=cwd or self.root,
            env=GIT_ENVIRONMENT | {"HOME": str(self.home), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def repository(self, path: str | Path, *worktrees: str) -> Path:
        """A repository with one commit, and linked worktrees beside it."""
        main = self.root / path
        self.git("init", "-q", main)
        self.git("commit", "-q", "--allow-empty", "-m", "first", cwd=main)
        for name in worktrees:
            self.git("worktree", "add", "-q", main.parent / name, "-b", f"branch-{name}", cwd=main)
        return main


@contextmanager
def new_world(folder: Path, **environ: str) -> Iterator[World]:
    """An empty one in `folder`, while its daemon runs; `environ` is for the daemon."""
    home, root = folder / "home", folder / "w"
    home.mkdir()
    root.mkdir()
    with Daemon(home, environ=environ) as daemon:
        yield World(home, root, daemon)


GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "init.defaultBranch",
    "GIT_CONFIG_VALUE_0": "main",
    "GIT_CONFIG_KEY_1": "protocol.file.allow",
    "GIT_CONFIG_VALUE_1": "always",
}
