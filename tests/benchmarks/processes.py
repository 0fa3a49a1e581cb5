"""Whole processes: hooks, the daemon's start, its memory, and what it does when nobody asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from tests.benchmarks.client import inject
from tests.benchmarks.daemon import Daemon, command
from tests.benchmarks.floors import fresh_seconds
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.benchmarks.site import Site, keys_of, stdin_of
from tests.benchmarks.store import HUGE, MIDDLING, RARE

_BARE: Final = (sys.executable, "-I", "-S", "-c", "import socket")
_IMPORTS: Final = (
    "import apsw, click, httptools, pydantic, starlette.applications, uvicorn, uvloop,"
    " watchdog.observers"
)
_RESIDENT: Final = (
    f"{_IMPORTS}; import os; pages = int(open('/proc/self/statm').read().split()[1]);"
    " print(pages * os.sysconf('SC_PAGE_SIZE') / 1e6)"
)
_MOST_MB: Final = 50.0
_MOST_START_MS: Final = 400.0


def hooks(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """End to end, as an assistant runs them, against the barest process that could do it."""
    with tempfile.TemporaryDirectory(prefix="cmd-bench-") as folder:
        start = _file(folder, stdin_of("SessionStart", site.cwd(HUGE), "bench-start"))
        prompt = _file(folder, stdin_of("UserPromptSubmit", site.cwd(HUGE), "bench-start"))
        curl = ("curl", "-sS", "--unix-socket", daemon.socket, "http://localhost/healthz")
        post = (
            *curl[:-1], "-H", "Content-Type: application/json", "--data-binary", "@-",
            "http://localhost/v1/hooks/claude-code",
        )  # fmt: skip
        console = (command(), "hook", "claude-code")
        runs: tuple[tuple[str, Sequence[str], str, str], ...] = (
            ("bare", _BARE, start, ""),
            ("curl healthz", curl, start, '"status":"ok"'),
            ("claudemem-daemon hook, SessionStart", console, start, "additionalContext"),
            ("claudemem-daemon hook, UserPromptSubmit, no news", console, prompt, ""),
            ("curl, SessionStart", post, start, "additionalContext"),
            ("curl, UserPromptSubmit, no news", post, prompt, ""),
        )
        turns: dict[str, Turn] = {
            name: _running(argv, stdin, daemon.env, said) for name, argv, stdin, said in runs
        }
        taken = interleave(turns, effort.processes)
    for name, argv, _, _ in runs[2:]:
        by_curl = argv[0] == "curl"
        floor = median(taken["curl healthz" if by_curl else "bare"])
        most = 1.3 if by_curl else 1.6
        yield Figure(
            "hooks", name, site.rows, median(taken[name]), p99=p99(taken[name]), floor=floor,
            floor_name="curl /healthz" if by_curl else "python -I -S -c 'import socket'",
            goal=f"{most} x", met=median(taken[name]) <= most * floor,
        )  # fmt: skip


def starts(site: Site, effort: Effort) -> Iterator[Figure]:
    """New processes: to READY, to the first answer of the first project asked, and the libraries'
    import alone. What the disk has is in the page cache."""
    ready, whole, imports, bare = [], [], [], []
    first: dict[str, list[float]] = {project: [] for project in (RARE, MIDDLING, HUGE)}
    fresh: dict[str, list[float]] = {project: [] for project in first}
    plans = {project: site.bare.best_plan(keys_of(project)) for project in first}
    for _ in range(effort.starts):
        for project, plan in plans.items():
            imports.append(_seconds((sys.executable, "-c", _IMPORTS)) * 1000)
            bare.append(_seconds(_BARE) * 1000)
            fresh[project].append(fresh_seconds(site.store, plan, keys_of(project)) * 1000)
            with Daemon(site.home) as daemon:
                reply = daemon.client.ask(inject(site.cwd(project)))
                whole.append((time.perf_counter() - daemon.began) * 1000)
                ready.append(daemon.ready_seconds * 1000)
                if reply.status != 200:
                    raise AssertionError(f"{reply.status}: {reply.text[:500]}")
                first[project].append(reply.seconds * 1000)
    for project, values in first.items():
        yield Figure(
            "first ever", project, site.rows, median(values), p99=max(values),
            floor=median(fresh[project]), floor_name=f"SQLite opened anew, {plans[project]}",
        )  # fmt: skip
    yield Figure(
        "start", "to READY", site.rows, median(ready), p99=max(ready), floor=median(bare),
        floor_name="python -I -S -c 'import socket'",
    )  # fmt: skip
    yield Figure(
        "start", "to first answer", site.rows, median(whole), p99=max(whole),
        floor=median(imports), floor_name="import of the libraries alone", goal="400 ms",
        met=median(whole) <= _MOST_START_MS,
    )  # fmt: skip


def memory(site: Site, daemon: Daemon, effort: Effort, at_start: float) -> Iterator[Figure]:
    """Resident memory after everything that was asked before, and after many requests more."""
    if not os.path.isdir("/proc/self/task"):
        return
    libraries = float(subprocess.check_output((sys.executable, "-c", _RESIDENT)))
    yield Figure(
        "memory", "when READY", site.rows, at_start, unit="MB", floor=libraries,
        floor_name="import of the libraries alone",
    )  # fmt: skip
    before = daemon.resident_mb()
    requests = [inject(site.cwd(project)) for project in (RARE, MIDDLING, HUGE)]
    daemon.client.load(requests, 8, effort.requests)
    after = daemon.resident_mb()
    for what, value in (
        ("after all of it", before),
        (f"after {effort.requests:,} requests more", after),
    ):
        yield Figure(
            "memory", what, site.rows, value, unit="MB", floor=at_start, floor_name="when READY",
            goal="50 MB", met=value <= _MOST_MB,
        )  # fmt: skip


def idle(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """CPU ticks and voluntary context switches, all threads, over a while in which nobody asks."""
    if not os.path.isdir("/proc/self/task"):
        return
    time.sleep(min(2.0, effort.idle_seconds))  # what was asked last has its say first
    before = daemon.ticks()
    time.sleep(effort.idle_seconds)
    after = daemon.ticks()
    note = f"in {effort.idle_seconds:g} s; involuntary {after.involuntary - before.involuntary}"
    for what, unit, value in (
        ("CPU ticks of 10 ms", "ticks", after.cpu - before.cpu),
        ("wake-ups", "switches", after.voluntary - before.voluntary),
    ):
        yield Figure(
            "idle", what, site.rows, float(value), unit=unit, goal="none", met=value == 0, note=note
        )


def _file(folder: str, body: object) -> str:
    path = os.path.join(folder, f"{len(os.listdir(folder))}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(body, file)
    return path


def _seconds(argv: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def _running(argv: Sequence[str], stdin: str, env: Mapping[str, str], said: str) -> Turn:
    """One process from start to exit; it must end well, and its output hold `said`. Each start is
    another session's: the same one twice in two seconds is answered once."""
    with open(stdin, encoding="utf-8") as file:
        body = json.load(file)
    sessions = count()

    def turn() -> float:
        if body["hook_event_name"] == "SessionStart":
            body["session_id"] = f"{argv[0]} {next(sessions)}"
            with open(stdin, "w", encoding="utf-8") as file:
                json.dump(body, file)
        with open(stdin, "rb") as file:
            began = time.perf_counter()
            done = subprocess.run(argv, stdin=file, stdout=subprocess.PIPE, env=env, check=True)
            seconds = time.perf_counter() - began
        if said not in done.stdout.decode():
            raise AssertionError(f"{said!r} is not in what {argv[-1]} said: {done.stdout!r}")
        return seconds

    return turn
