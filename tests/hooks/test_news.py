"""Each row of news is told exactly once to each session: several writers, many sessions, both
journal modes, and hooks that are killed in the middle."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
from collections import Counter

import pytest

from tests.cases.world import World
from tests.support.daemon import clean_environ, command, eventually
from tests.support.stores import make_store

WRITER = """
import sqlite3, sys, time
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = sqlite3.connect(path, timeout=60, isolation_level=None)
sys.stdin.readline()
number = 0
while number < count:
    store.execute("BEGIN IMMEDIATE")
    for _ in range(min(3, count - number)):
        # Older than what was told before: only its id says that it is new.
        store.execute(
            "INSERT INTO observations (memory_session_id, project, type, title, concepts,"
            " created_at, created_at_epoch) VALUES (?, 'app', 'discovery', ?,"
            " '[\\"how-it-works\\"]', '', ?)",
            ("writer", f"row-{name}.{number}-", 1_700_000_000_000 - number),
        )
        number += 1
    store.execute("COMMIT")
    time.sleep(0.04)  # spread over as long as prompts come
"""
ROW = re.compile(r"row-(\d+\.\d+)-")


def told_by(printed: bytes) -> list[str]:
    """The rows in what a hook printed; of half an answer, none."""
    try:
        shape = json.loads(printed or b"{}")
    except ValueError:
        return []
    return ROW.findall(shape.get("hookSpecificOutput", {}).get("additionalContext", ""))


class Session:
    """One assistant: prompt after prompt, some of whose hooks are killed."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self.world = world
        self.name = name
        self.random = random.Random(seed)
        self.told: Counter[str] = Counter()
        self.killed = 0
        self._prompts = 0

    def call(self, event: str, *, may_be_killed: bool = False) -> int:
        """How many rows one hook told."""
        self._prompts += 1
        fields = {
            "session_id": self.name,
            "cwd": str(self.world.root / "app"),
            "hook_event_name": event,
            "prompt": f"p{self._prompts}",
        }
        process = subprocess.Popen(
            [sys.executable, "-EP", *command(), "hook", "claude-code"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environ(self.world.home, CLAUDE_MEM_DAEMON_TIMEOUT_MS="60000"),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(fields).encode())
        process.stdin.close()
        if may_be_killed and self.random.random() < 0.4:
            # The moment itself is what is tried; any is right.
            timer = threading.Timer(self.random.random() * 0.06, process.kill)
            timer.start()
            timer.join()
        assert process.stdout is not None
        rows = told_by(process.stdout.read())
        process.stdout.close()
        self.killed += process.wait(30) != 0
        self.told.update(rows)
        return len(rows)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_every_row_is_told_once_to_every_session(
    world: World, journal: str, request: pytest.FixtureRequest
) -> None:
    many = request.config.getoption("--long")
    writers, rows, sessions = (4, 1500, 12) if many else (3, 150, 4)
    world.repository("app")
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 60})
    store = make_store(world.data_dir / "claude-mem.db", journal=journal)
    asking = [Session(world, f"session-{number}", number) for number in range(sessions)]
    for one in asking:
        one.call("SessionStart")
    writing = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, store, str(number), str(rows)],
            stdin=subprocess.PIPE,
        )
        for number in range(writers)
    ]
    for process in writing:
        assert process.stdin is not None
        process.stdin.close()
    every = {f"{writer}.{number}" for writer in range(writers) for number in range(rows)}
    within = 3600 if many else 120
    running = [
        threading.Thread(target=ask, args=(session, writing, every, within)) for session in asking
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert [process.wait(60) for process in writing] == [0] * writers
    for one in asking:
        assert {row: count for row, count in one.told.items() if count > 1} == {}
        assert set(one.told) == every, sorted(every - set(one.told))[:5]
    assert sum(one.killed for one in asking) > 0


def ask(
    session: Session, writing: list[subprocess.Popen[bytes]], every: set[str], within: float
) -> None:
    while any(process.poll() is None for process in writing):
        session.call("UserPromptSubmit", may_be_killed=True)

    def done() -> bool:
        # No row at all may also mean that the daemon had no time: the next prompt has them.
        return session.call("UserPromptSubmit") == 0 and set(session.told) >= every

    eventually(done, "all is told", within)
