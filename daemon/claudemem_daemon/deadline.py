"""How long a request may still take."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, in seconds; immune to clock changes."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at

    def share(self, parts: int) -> Deadline:
        """The earlier deadline that leaves `parts - 1` equal shares of the rest to others."""
        return Deadline(time.monotonic() + self.remaining() / max(1, parts))
