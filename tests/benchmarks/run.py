"""Everything, size by size."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence

from tests.benchmarks.answers import after_writes, same_rows, warm
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.database import database
from tests.benchmarks.load import clients
from tests.benchmarks.measure import Effort, Figure
from tests.benchmarks.peer import peer
from tests.benchmarks.processes import hooks, idle, memory, quiet, starts
from tests.benchmarks.site import BY_SIZE, Site, prepare_ground
from tests.benchmarks.store import GROVES, grove
from tests.benchmarks.worst import endless, heavy
from tests.benchmarks.writers import writers

SECTIONS = (
    "first ever", "after quiet", "start", "warm", "after a write", "hooks", "clients",
    "writers", "worst cases", "memory", "idle", "team database", "beside claude-mem",
)  # fmt: skip


def run(
    folder: str,
    sizes: Sequence[int],
    effort: Effort,
    only: Sequence[str] = (),
    claude_mem: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Figure]:
    """All figures, for each number of rows in `sizes`; `only` names some of SECTIONS;
    `claude_mem` is an unpacked package of it, asked as well.

    Idle time is measured once, after the last size. `folder` keeps what was built.
    """
    figures: list[Figure] = []
    ground = prepare_ground(folder, effort)
    for rows in sizes:
        began = time.monotonic()
        with Site(ground, rows) as site:
            say(f"{rows:,} rows: store ready in {time.monotonic() - began:.1f} s")
            last = rows == sizes[-1]
            for name, part in _parts(site, effort, only, last=last):
                began = time.monotonic()
                figures += part
                say(f"{rows:,} rows: {name} took {time.monotonic() - began:.1f} s")
        if claude_mem is not None and (not only or "beside claude-mem" in only):
            figures += peer(ground, rows, claude_mem, effort)
            say(f"{rows:,} rows: claude-mem was asked")
    order = {name: place for place, name in enumerate(SECTIONS)}
    return sorted(
        figures, key=lambda figure: (order[figure.section], sizes.index(figure.rows or 0))
    )


def _parts(
    site: Site, effort: Effort, only: Sequence[str], *, last: bool
) -> Iterable[tuple[str, Iterable[Figure]]]:
    def wanted(name: str) -> bool:
        return not only or name in only

    if wanted("start") or wanted("first ever"):
        yield "start", starts(site, effort)
    with Daemon(site.home) as daemon:
        at_start = daemon.resident_mb() if sys.platform == "linux" else 0.0
        for project in (*BY_SIZE, *(grove(n) for n in GROVES)):
            same_rows(site, daemon, project)
        if wanted("warm"):
            yield "warm", warm(site, daemon, effort)
        if wanted("after a write"):
            yield "after a write", after_writes(site, daemon, effort)
        if wanted("after quiet") and sys.platform == "linux":
            yield "after quiet", quiet(site, daemon, effort)
        if wanted("hooks"):
            yield "hooks", hooks(site, daemon, effort)
        if wanted("clients"):
            yield "clients", clients(site, daemon, effort)
        if wanted("writers"):
            yield "writers", writers(site, daemon, effort)
        if wanted("worst cases"):
            yield "worst cases", heavy(site, daemon, effort)
            yield "worst cases without end", endless(site, daemon, effort)
        if wanted("memory"):
            yield "memory", memory(site, daemon, effort, at_start)
        if wanted("idle") and last:
            yield "idle", idle(site, daemon, effort)
    if wanted("team database") and last:
        yield "team database", database(site.rows, effort)
