"""The demo's sandbox: a HOME, a repository with worktrees, a store as claude-mem makes it, a daemon.

Everything is in one temporary folder. The store is made with Python's own `sqlite3`, as another
program's; nothing here goes through the daemon's code but the daemon itself.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from claudemem_daemon.errors import ClaudememError

_SCHEMA = """
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL,
  applied_at TEXT NOT NULL);
INSERT INTO schema_versions (version, applied_at) VALUES (52, '2026-01-01T00:00:00Z');
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT NOT NULL,
  memory_session_id TEXT UNIQUE, project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude', started_at TEXT, started_at_epoch INTEGER);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT,
  narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
  discovery_tokens INTEGER DEFAULT 0, content_hash TEXT, merged_into_project TEXT);
CREATE INDEX idx_observations_project ON observations(project);
CREATE INDEX idx_observations_created ON observations(created_at_epoch DESC);
CREATE INDEX idx_observations_merged_into ON observations(merged_into_project);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, investigated TEXT,
  learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
"""


class Sandbox:
    """Set up by `with`, and gone afterwards, daemon and all."""

    def __init__(self) -> None:
        # Short, for a socket's name must be.
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="claudemem-demo-"))
        self.home = self.path("home")
        self.main = self.path("shop")
        self.store = os.path.join(self.home, ".claude-mem", "claude-mem.db")
        self._clock = int(time.time() * 1000) - 3_600_000
        # A new user's: nothing of claude-mem's or ours from the shell.
        programs = (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
        self.environ = {"HOME": self.home, "LANG": "C.UTF-8", "PATH": os.pathsep.join(programs)}
        self.environ |= {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}

    def __enter__(self) -> Sandbox:
        try:
            if shutil.which("git") is None:
                raise ClaudememError("demo needs git, and there is none on the PATH: install git")
            os.makedirs(os.path.dirname(self.store))
            with closing(sqlite3.connect(self.store)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_SCHEMA)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if os.path.isdir(self.home):
            self.command("stop")
        shutil.rmtree(self.root, ignore_errors=True)

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def git(self, *arguments: str) -> None:
        sealed = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for person in ("AUTHOR", "COMMITTER"):
            sealed[f"GIT_{person}_NAME"] = "demo"
            sealed[f"GIT_{person}_EMAIL"] = "demo@example.invalid"
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.main if os.path.isdir(self.main) else self.root,
            env=self.environ | sealed,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClaudememError(f"git {arguments[0]} failed: {done.stderr.strip()}")

    def repository(self, *worktrees: str) -> None:
        """`shop` with one commit, and linked worktrees beside it."""
        self.git("init", "-q", self.main)
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        for name in worktrees:
            self.git("worktree", "add", "-q", self.path(name), "-b", name)

    def row(self, project: str, kind: str, title: str, session: str = "earlier") -> None:
        """One observation, as claude-mem's worker writes it; a minute newer than the one before."""
        self._clock += 60_000
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock / 1000))
        with closing(sqlite3.connect(self.store)) as db:
            db.execute(
                "INSERT INTO observations (memory_session_id, project, type, title, narrative,"
                " concepts, created_at, created_at_epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (session, project, kind, title, f"{title}, in full.", '["how-it-works"]', stamp,
                 self._clock),
            )  # fmt: skip
            db.commit()

    def settings(self, values: Mapping[str, Any]) -> None:
        path = os.path.join(os.path.dirname(self.store), "settings.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)

    def start_daemon(self) -> str:
        """Start it as a user would; returns what that said once it answered."""
        done = self.command("start")
        if done.returncode != 0:
            raise ClaudememError(f"the daemon did not start: {done.stderr.strip()}")
        return done.stdout.strip()

    def command(
        self, *arguments: str, text: str = "", cwd: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One `claudemem-daemon` command, as a user runs it."""
        return subprocess.run(
            [sys.executable, "-m", "claudemem_daemon", *arguments],
            env=self.environ,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.root,
        )

    def hook(self, worktree: str, event: str, session: str) -> str:
        """What Claude Code would put in front of the prompt: a real hook process, asked in JSON."""
        call = {
            "session_id": session,
            "cwd": self.path(worktree),
            "hook_event_name": event,
            **({"source": "startup"} if event == "SessionStart" else {"prompt": "go on"}),
        }
        done = self.command("hook", "claude-code", text=json.dumps(call))
        if not done.stdout.strip():
            return ""
        context: str = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
        return context
