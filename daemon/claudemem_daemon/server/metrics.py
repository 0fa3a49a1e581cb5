"""What the daemon counts about its own answers; touched by the event loop alone."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Any, Final

RING: Final = 1024
"""Latencies kept; the percentiles speak of these."""


class Metrics:
    """Counters and a ring of latencies."""

    def __init__(self) -> None:
        self._routes: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._ring: deque[float] = deque(maxlen=RING)
        self._last_hook: dict[str, Any] | None = None

    def answered(self, route: str, seconds: float) -> None:
        self._routes[route] += 1
        self._ring.append(seconds)

    def left(self, route: str) -> None:
        """A request that never came whole: how long its client took is no latency of ours."""
        self._routes[route] += 1

    def failed(self, code: str) -> None:
        self._errors[code] += 1

    def hook(self, platform: str, event: str, cwd: str | None, seconds: float) -> None:
        self._last_hook = {
            "platform": platform,
            "event": event,
            "cwd": cwd,
            "when": time.time(),
            "ms": seconds * 1000,
        }

    def snapshot(self) -> dict[str, Any]:
        """Counts since the start: requests by route, error answers by code, and the last hook.
        Percentiles in milliseconds over the last `measured` answers, None while there are none."""
        ordered = sorted(self._ring)

        def at(share: float) -> float | None:
            if not ordered:
                return None
            return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3)

        return {
            "total": self._routes.total(),
            "routes": dict(self._routes),
            "errors": dict(self._errors),
            "measured": len(ordered),
            "p50_ms": at(0.50),
            "p95_ms": at(0.95),
            "p99_ms": at(0.99),
            "max_ms": at(1.0),
            "last_hook": self._last_hook,
        }
