"""How answers grow: with the rows of a store, with a repository's worktrees, with its stores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.benchmarks.answers import named, same_rows
from tests.benchmarks.chart import BY_HAND, Chart
from tests.benchmarks.client import inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.floors import BareSqlite
from tests.benchmarks.measure import Effort, interleave, median
from tests.benchmarks.repos import build_repositories
from tests.benchmarks.site import Ground, Site, small_stores
from tests.benchmarks.store import HUGE, RARE, grove
from tests.benchmarks.writes import Case, after_write

_TIMEOUT_MS: Final = 20_000
"""A curve goes on where the daemon would give up by itself."""
_SECONDS_A_POINT: Final = 5.0
_ROWS_IN_EACH: Final = 20
"""Rows of a project in each of its stores."""


def growth(effort: Effort, say: Callable[[str], None] = lambda line: None) -> list[Chart]:
    """Three charts. All stores have short rows, and are removed again one by one."""
    return [by_rows(effort, say), by_worktrees(effort, say), by_stores(effort, say)]


def by_rows(effort: Effort, say: Callable[[str], None]) -> Chart:
    curves: dict[str, dict[int, float]] = {}
    for rows in effort.growth_rows:
        with (
            _ground((RARE, HUGE), ()) as ground,
            Site(ground, rows, (), short=True, timeout_ms=_TIMEOUT_MS) as site,
        ):
            say(f"{rows:,} rows are ready")
            with Daemon(site.home) as daemon:
                for project in (RARE, HUGE):
                    same_rows(site, daemon, project)
                    _measure(curves, rows, site, daemon, Case(project), effort, f", {project}")
    return Chart("growth-rows", "Rows in the store", "rows", curves)


def by_worktrees(effort: Effort, say: Callable[[str], None]) -> Chart:
    curves: dict[str, dict[int, float]] = {}
    base, notes = effort.growth_base, []
    for number in effort.growth_worktrees:
        project = grove(number)
        with (
            _ground((), (number,)) as ground,
            Site(ground, base, (number,), short=True, timeout_ms=_TIMEOUT_MS) as site,
        ):
            say(f"{number:,} worktrees are ready")
            with Daemon(site.home) as daemon:
                first = daemon.client.seconds(inject(site.cwd(project)))
                notes.append(f"{named(project)}: first answer ever {first * 1000:,.0f} ms")
                same_rows(site, daemon, project)
                _measure(curves, number, site, daemon, Case(project), effort)
    return Chart(
        "growth-worktrees", "Linked worktrees of the repository", "worktrees", curves, notes
    )


def by_stores(effort: Effort, say: Callable[[str], None]) -> Chart:
    curves: dict[str, dict[int, float]] = {}
    counts = effort.growth_stores
    projects = {number: f"stores-{number}" for number in counts}
    with _ground(tuple(projects.values()), ()) as plain, ExitStack() as stack:
        labels = list(projects.values()) * _ROWS_IN_EACH
        paths = small_stores(os.path.join(plain.folder, "stores"), max(counts), labels)
        further = {project: paths[:number] for number, project in projects.items()}
        ground = Ground(plain.folder, plain.repositories, further)
        opened = [stack.enter_context(BareSqlite(path)) for path in paths]
        with (
            Site(ground, effort.growth_base, (), short=True, timeout_ms=_TIMEOUT_MS) as site,
            Daemon(site.home) as daemon,
        ):
            say(f"{len(paths):,} stores are ready")
            for number, project in projects.items():
                case = Case(project, path=paths[number - 1], stores=opened[:number])
                _measure(curves, number, site, daemon, case, effort)
    return Chart("growth-stores", "Stores with rows of the repository", "stores", curves)


@contextmanager
def _ground(plain: tuple[str, ...], groves: tuple[int, ...]) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="cmd-bench-") as folder:
        repositories = build_repositories(os.path.join(folder, "repos"), plain, groves)
        yield Ground(folder, repositories, {})


def _measure(
    curves: dict[str, dict[int, float]], x: int, site: Site, daemon: Daemon, case: Case,
    effort: Effort, suffix: str = "",
) -> None:  # fmt: skip
    """Adds a point at `x` to the curves of this case: warm, after a write, and by hand."""
    request = inject(site.cwd(case.project))
    warm = interleave({"warm": lambda: daemon.client.seconds(request)}, effort.turns)
    slowest = max(after_write(site, daemon, case, 1).ours) / 1000
    rounds = min(effort.writes, max(effort.slow, int(_SECONDS_A_POINT / slowest)))
    taken = after_write(site, daemon, case, rounds)
    if taken.wrong:
        raise AssertionError(f"{case.project}, {x:,}: {taken.wrong[0]}")
    for name, values in (
        ("warm", warm["warm"]), ("after a write", taken.ours), (BY_HAND, taken.floor)
    ):  # fmt: skip
        curves.setdefault(f"{name}{suffix}", {})[x] = median(values)
