"""kill -9 at any moment, to the daemon and to who allows and denies: nothing is half-written."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from claudemem_daemon.stores.trust import Trust
from tests.cases.world import World
from tests.support.daemon import Daemon, clean_environ, command
from tests.support.stores import make_store

OURS = {
    "daemon.lock",
    "daemon.log",
    "daemon.log.1",
    "daemon.sock",
    "hook.log",
    "sessions.json",
    "sessions.json.new",
    "trusted.json",
    "trusted.json.new",
}

ALLOW_AND_DENY = """
import sys
from claudemem_daemon.stores.trust import Trust
trust = Trust(sys.argv[1])
for line in sys.stdin:
    verb, _, path = line.rstrip().partition(" ")
    getattr(trust, verb)(path)
    print("done", flush=True)
"""


class Allowing:
    """A process that allows and denies; what of it is acknowledged counts."""

    def __init__(self, path: str, stores: list[str], chance: random.Random) -> None:
        self._path = path
        self._stores = stores
        self._chance = chance
        self.expected: dict[str, bool] = dict.fromkeys(stores, False)

    def until_killed(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", ALLOW_AND_DENY, self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        killing = None
        with suppress(BrokenPipeError), process:
            while True:
                verb, store = (
                    self._chance.choice(["allow", "deny"]),
                    self._chance.choice(self._stores),
                )
                asked = self.expected.pop(store, None)
                process.stdin.write(f"{verb} {store}\n")
                process.stdin.flush()
                if killing is None and asked is not None and self._chance.random() < 0.5:
                    killing = threading.Timer(self._chance.random() * 0.02, process.kill)
                    killing.start()
                if process.stdout.readline() != "done\n":
                    break
                self.expected[store] = verb == "allow"
        if killing is not None:
            killing.join()


@contextmanager
def load(daemon: Daemon, world: World) -> Iterator[None]:
    """Sessions that start and prompt, whether anybody answers or not."""
    done = threading.Event()

    def ask(number: int) -> None:
        count = 0
        while not done.is_set():
            count += 1
            call = {
                "session_id": f"{number}-{count}",
                "cwd": str(world.root / "app"),
                "hook_event_name": "SessionStart",
            }
            with suppress(OSError, ValueError, HTTPException):
                daemon.post("/v1/hooks/claude-code", call)
            done.wait(0.001)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_half_written_by_kill_9(
    tmp_path: Path, world: World, request: pytest.FixtureRequest
) -> None:
    rounds = 200 if request.config.getoption("--long") else 5
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    stores = [make_store(tmp_path / f"{number}.db") for number in range(4)]
    daemon = world.daemon
    world.repository("app")
    world.row("app", title="THE ROW")
    state = Path(daemon.state_dir)
    allowing = Allowing(str(state / "trusted.json"), stores, chance)
    slowest = 0.0
    with load(daemon, world):
        for number in range(rounds):
            allowing.until_killed()
            time.sleep(chance.random() * 0.1)  # the moment is the subject
            daemon.kill()
            began = time.monotonic()
            said = f"round {number} of seed {seed}"
            assert "THE ROW" in hook(world, f"hook-{number}"), said
            slowest = max(slowest, time.monotonic() - began)
            check(state, allowing.expected, said)
            daemon.start()
            answer = daemon.get(f"/api/context/inject?cwd={world.root}/app")
            assert answer.status == 200, said
            assert "THE ROW" in answer.text, said
    check(state, allowing.expected, f"the end of seed {seed}")
    assert daemon.stop() == 0
    print(f"{rounds} times killed; the slowest answer without a daemon took {slowest:.2f} s")


def hook(world: World, session: str) -> str:
    """By the command, which answers itself where no daemon does."""
    call = {
        "session_id": session,
        "cwd": str(world.root / "app"),
        "hook_event_name": "SessionStart",
    }
    done = subprocess.run(
        [*command(), "hook", "claude-code"],
        input=json.dumps(call),
        env=clean_environ(world.home, CLAUDE_MEM_DAEMON_TIMEOUT_MS="60000"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def check(state: Path, expected: dict[str, bool], said: str) -> None:
    assert set(os.listdir(state)) <= OURS, said
    path = state / "sessions.json"
    if path.exists():
        for line in path.read_bytes().splitlines():
            json.loads(line)
    trust = Trust(str(state / "trusted.json"))
    assert trust.read().warnings == (), said
    assert {store: trust.allowed(store) for store in expected} == expected, said
