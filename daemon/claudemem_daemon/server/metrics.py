"""What the daemon counts about its own answers; touched by the event loop alone."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

RING: Final = 1024
"""Latencies kept; the percentiles speak of these."""


@dataclass(frozen=True, slots=True)
class HookSeen:
    """The last hook that was answered; `when` in seconds since the epoch."""

    platform: str
    event: str
    cwd: str | None
    when: float
    ms: float


@dataclass(frozen=True, slots=True)
class Requests:
    """Counts since the start. Percentiles in milliseconds over the last `measured` answers, None
    while there are none."""

    total: int
    routes: Mapping[str, int]
    errors: Mapping[str, int]
    """Error code of the answer -> how often."""
    measured: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    last_hook: HookSeen | None


class Metrics:
    """Counters and a ring of latencies."""

    def __init__(self) -> None:
        self._routes: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._ring: deque[float] = deque(maxlen=RING)
        self._last_hook: HookSeen | None = None

    def answered(self, route: str, seconds: float) -> None:
        self._routes[route] += 1
        self._ring.append(seconds)

    def left(self, route: str) -> None:
        """A request that never came whole: how long its client took is no latency of ours."""
        self._routes[route] += 1

    def failed(self, code: str) -> None:
        self._errors[code] += 1

    def hook(self, platform: str, event: str, cwd: str | None, seconds: float) -> None:
        self._last_hook = HookSeen(platform, event, cwd, time.time(), seconds * 1000)

    def snapshot(self) -> Requests:
        ordered = sorted(self._ring)

        def at(share: float) -> float | None:
            if not ordered:
                return None
            return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3)

        return Requests(
            total=self._routes.total(),
            routes=dict(self._routes),
            errors=dict(self._errors),
            measured=len(ordered),
            p50_ms=at(0.50),
            p95_ms=at(0.95),
            p99_ms=at(0.99),
            max_ms=at(1.0),
            last_hook=self._last_hook,
        )
