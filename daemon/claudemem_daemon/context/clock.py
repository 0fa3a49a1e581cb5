"""Local times, and the name of their zone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

UNDATED: Final = "undated"


class Moment(NamedTuple):
    """A local time: `day` YYYY-MM-DD, `time` HH:MM, `offset` +HH:MM. Without a usable time, `day` is
    "undated" and the others are empty."""

    day: str
    time: str
    offset: str


class Clock(NamedTuple):
    """Local time in `zone`; None for the zone of the C library."""

    zone: tzinfo | None

    def at(self, epoch_ms: int | None) -> Moment:
        """Never raises: a time outside of the years 1 to 9999 is not usable."""
        local = self._local(epoch_ms)
        if local is None:
            return Moment(UNDATED, "", "")
        text = local.isoformat(timespec="minutes")
        return Moment(text[:10], text[11:16], text[16:])

    def name(self, epoch_ms: int | None) -> str:
        """The zone and its offset at that time, as `Asia/Tokyo (UTC+09:00)`; empty without a usable
        time."""
        local = self._local(epoch_ms)
        if local is None:
            return ""
        offset = local.isoformat(timespec="minutes")[16:]
        if offset == "+00:00":
            offset = ""
        name = getattr(self.zone, "key", None) or local.tzname() or ""
        if not name or name.startswith("UTC") or name in ("Etc/UTC", "Etc/UCT", "Zulu"):
            return f"UTC{offset}"
        return f"{name} (UTC{offset})"

    def _local(self, epoch_ms: int | None) -> datetime | None:
        if epoch_ms is None:
            return None
        try:
            # Whole seconds: a float of a far time could be rounded up to the next minute.
            if self.zone is not None:
                return datetime.fromtimestamp(epoch_ms // 1000, self.zone)
            return datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone()
        except (ValueError, OverflowError, OSError):
            return None
