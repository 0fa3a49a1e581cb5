"""Times as the zone has them, and no doubt which zone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

UNDATED: Final = "undated"


class Moment(NamedTuple):
    """One local time: `day` is YYYY-MM-DD, `time` HH:MM, `offset` +HH:MM; all empty but `day` for a
    row without a usable time."""

    day: str
    time: str
    offset: str


class Clock(NamedTuple):
    """Local time in `zone`; None leaves it to the C library."""

    zone: tzinfo | None

    def at(self, epoch_ms: int | None) -> Moment:
        """Never raises: a time outside of year 1 to 9999 is no time."""
        local = self._local(epoch_ms)
        if local is None:
            return Moment(UNDATED, "", "")
        text = local.isoformat(timespec="minutes")
        return Moment(text[:10], text[11:16], text[16:])

    def name(self, epoch_ms: int | None) -> str:
        """The zone and its offset at that time: `Asia/Tokyo (UTC+09:00)`; empty for no time."""
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
            # Whole seconds: a float of a far time would be rounded across a minute.
            if self.zone is not None:
                return datetime.fromtimestamp(epoch_ms // 1000, self.zone)
            return datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone()
        except (ValueError, OverflowError, OSError):
            return None
