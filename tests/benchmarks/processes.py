"""Whole processes: hooks, the daemon's start, its memory, and what it does when nobody asks."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from claudemem_daemon.hookfiles.commands import curl_line, python_line
from claudemem_daemon.local import socket_path
from tests.benchmarks.client import inject
from tests.benchmarks.daemon import Daemon, command
from tests.benchmarks.floors import fresh_seconds
from tests.benchmarks.measure import Effort, Figure, Turn, interleave, median, p99
from tests.benchmarks.site import WIDE, Site, keys_of, stdin_of
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
_READ: Final = f"""
{_IMPORTS}
import ctypes, gc, json, sys
libc = ctypes.CDLL(None)
for path, project, limit in json.load(sys.stdin):
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    found = db.execute(
        "SELECT * FROM observations WHERE project = ? ORDER BY created_at_epoch DESC LIMIT ?",
        (project, limit),
    )
    text = json.dumps([*found])
    db.close()
    del found, text
    gc.collect()
    libc.malloc_trim(0)
"""
"""Reads the rows of the worst cases, writes them down once, and gives back all that it can."""


def hooks(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """Every kind of line that `hooks install` writes, run by a shell as an assistant runs it, and
    the same line with the barest interpreter that could ask a socket."""
    with tempfile.TemporaryDirectory(prefix="cmd-bench-") as folder:
        start = _file(folder, stdin_of("SessionStart", site.cwd(HUGE), "bench-start"))
        prompt = _file(folder, stdin_of("UserPromptSubmit", site.cwd(HUGE), "bench-start"))
        python = shlex.quote(sys.executable)
        bare = f"[ -x {python} ] && {shlex.join(_BARE)} 2>/dev/null || true"
        turns = {"bare": _running(bare, start, daemon.env, "")}
        for name, line in (
            ("claudemem-daemon hook", python_line("claude-code", command())),
            ("claudemem-daemon hook, for Codex", python_line("codex", command())),
            ("curl", curl_line("claude-code", socket_path(daemon.env))),
        ):
            turns |= {
                f"{name}, SessionStart": _running(line, start, daemon.env, "additionalContext"),
                f"{name}, prompt without news": _running(line, prompt, daemon.env, ""),
            }
        taken = interleave(turns, effort.processes)
    floor = median(taken.pop("bare"))
    for name, values in taken.items():
        yield Figure(
            "hooks", name, site.rows, median(values), p99=p99(values), floor=floor,
            floor_name="the line with python -I -S -c 'import socket'", times=1.1,
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
            times=4,
        )  # fmt: skip
    yield Figure(
        "start", "to READY", site.rows, median(ready), p99=max(ready), floor=median(bare),
        floor_name="python -I -S -c 'import socket'",
    )  # fmt: skip
    yield Figure(
        "start", "to first answer", site.rows, median(whole), p99=max(whole),
        floor=median(imports), floor_name="import of the libraries alone", times=1.4,
    )  # fmt: skip


def quiet(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """The first answer after the daemon has let go of everything: our pages are cold, the kernel's
    warm. With a row written meanwhile, which has to be in it, and without."""
    cases = ((RARE, True), (HUGE, False), (MIDDLING, True), (HUGE, True))
    for project, writes in cases[: effort.quiet_cases]:
        plan = site.bare.best_plan(keys_of(project))
        ours, floor = [], []
        for _ in range(effort.rests):
            daemon.client.ask(inject(site.cwd(project)))
            daemon.rest()
            title = site.write(project) if writes else ""
            floor.append(fresh_seconds(site.store, plan, keys_of(project)) * 1000)
            reply = daemon.client.ask(inject(site.cwd(project)))
            if reply.status != 200 or title not in reply.text:
                raise AssertionError(f"{project}: no {title!r} in {reply.text[:500]!r}")
            ours.append(reply.seconds * 1000)
        yield Figure(
            "after quiet", project if writes else f"{project}, nothing written", site.rows,
            median(ours), p99=max(ours), floor=median(floor),
            floor_name=f"SQLite opened anew, {plan}", times=4,
        )  # fmt: skip


def memory(site: Site, daemon: Daemon, effort: Effort, at_start: float) -> Iterator[Figure]:
    """Resident memory when ready, after everything that was asked before and two seconds of quiet,
    and after many requests more."""
    if not os.path.isdir("/proc/self/task"):
        return
    libraries = float(subprocess.check_output((sys.executable, "-c", _RESIDENT)))
    worst = [(site.store, HUGE, 5000), (site.store, MIDDLING, -1)]
    worst += [(site.ground.stores[WIDE][0], WIDE, 16)]
    by_hand = float(
        subprocess.check_output(
            (sys.executable, "-c", _READ + _RESIDENT), input=json.dumps(worst).encode()
        )
    )
    daemon.rest()
    before = daemon.resident_mb()
    requests = [inject(site.cwd(project)) for project in (RARE, MIDDLING, HUGE)]
    daemon.client.load(requests, 8, effort.requests)
    daemon.rest()
    for what, value, times in (
        ("the libraries after the same rows by hand", by_hand, None),
        ("when READY", at_start, 1.2),
        ("after all of it", before, 1.5),
        (f"after {effort.requests:,} requests more", daemon.resident_mb(), 1.5),
    ):
        yield Figure(
            "memory", what, site.rows, value, unit="MB", floor=libraries,
            floor_name="import of the libraries alone", times=times,
        )  # fmt: skip


def idle(site: Site, daemon: Daemon, effort: Effort) -> Iterator[Figure]:
    """CPU ticks and voluntary context switches, all threads, over a while in which nobody asks."""
    if not os.path.isdir("/proc/self/task"):
        return
    time.sleep(min(2.0, effort.idle_seconds))  # what was asked last has its say first
    before = daemon.ticks()
    time.sleep(effort.idle_seconds)  # idleness is the subject
    after = daemon.ticks()
    note = f"in {effort.idle_seconds:g} s; involuntary {after.involuntary - before.involuntary}"
    for what, unit, value in (
        ("CPU ticks of 10 ms", "ticks", after.cpu - before.cpu),
        ("wake-ups", "switches", after.voluntary - before.voluntary),
    ):
        yield Figure(
            "idle", what, site.rows, float(value), unit=unit, rule=("none", value == 0), note=note
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


def _running(line: str, stdin: str, env: Mapping[str, str], said: str) -> Turn:
    """A shell from start to exit; it must end well, and its output hold `said`. Each start is
    another session's: one that asks again within two seconds is answered once."""
    with open(stdin, encoding="utf-8") as file:
        body = json.load(file)
    sessions = count()

    def turn() -> float:
        if body["hook_event_name"] == "SessionStart":
            body["session_id"] = f"{line} {next(sessions)}"
            with open(stdin, "w", encoding="utf-8") as file:
                json.dump(body, file)
        with open(stdin, "rb") as file:
            began = time.perf_counter()
            done = subprocess.run(
                ("sh", "-c", line), stdin=file, stdout=subprocess.PIPE, env=env, check=True
            )
            seconds = time.perf_counter() - began
        if said not in done.stdout.decode():
            raise AssertionError(f"{said!r} is not in what {line} said: {done.stdout!r}")
        return seconds

    return turn
