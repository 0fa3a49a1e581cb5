"""Turn by turn measuring, and what is said of the numbers."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Turn: TypeAlias = Callable[[], float]
"""Does one thing and returns the seconds of the part that counts."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Times in milliseconds unless `unit` says otherwise.

    rows: size of the store, None where it does not matter. The goal is `times` the floor or
    `at_most`, whichever is more; or `rule`, a goal in words and whether it was met.
    """

    section: str
    what: str
    rows: int | None
    ours: float
    unit: str = "ms"
    p99: float | None = None
    floor: float | None = None
    floor_name: str = ""
    times: float | None = None
    at_most: float | None = None
    rule: tuple[str, bool] | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.floor if self.floor else None

    @property
    def goal(self) -> str:
        if self.rule is not None:
            return self.rule[0]
        most = [] if self.at_most is None else [f"{self.at_most:g} {self.unit}"]
        return " or ".join(most if self.times is None else [*most, f"{self.times:g} x"])

    @property
    def met(self) -> bool | None:
        if self.rule is not None:
            return self.rule[1]
        if not self.goal:
            return None
        return self.ours <= max(self.at_most or 0, (self.times or 0) * (self.floor or 0))


@dataclass(slots=True)
class Effort:
    """How often everything is done; `quick` is for the tests."""

    turns: int = 300
    writes: int = 60
    slow: int = 7
    processes: int = 40
    starts: int = 5
    load: int = 4000
    rests: int = 7
    quiet_cases: int = 4
    requests: int = 10_000
    idle_seconds: float = 60.0
    worst_rows: int = 60
    growth_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    growth_worktrees: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    growth_base: int = 200_000
    growth_stores: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200)

    @classmethod
    def quick(cls) -> Effort:
        return cls(
            turns=20, writes=4, slow=1, processes=3, starts=1, load=200, requests=300,
            idle_seconds=1.0, worst_rows=8, rests=1,
            quiet_cases=2, growth_rows=(10_000, 20_000), growth_worktrees=(1, 10),
            growth_stores=(1, 2), growth_base=10_000,
        )  # fmt: skip


def interleave(turns: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Every turn once per round, after one round that does not count; milliseconds.

    Every other round goes backwards, A B C C B A: what runs after another finds the processor's
    caches, and the daemon, as that left them.

    The collector of this process stays out of it: its pauses are none of the daemon's.
    """
    for turn in turns.values():
        turn()
    taken: dict[str, list[float]] = {name: [] for name in turns}
    gc.collect()
    gc.disable()
    try:
        order = list(turns.items())
        for _ in range(rounds):
            for name, turn in order:
                taken[name].append(turn() * 1000)
            order.reverse()
    finally:
        gc.enable()
    return taken


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred passes; of few values the largest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
