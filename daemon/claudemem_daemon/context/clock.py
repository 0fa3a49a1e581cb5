"""Local time as it is now, told without a doubt about the zone.

The C library reads the system's zone once in the life of a process, so a daemon that asked it would
go on in the zone it was started in. The zone's file is therefore read here, and again when it is
another file.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SYSTEM_ZONE: Final = "/etc/localtime"

_BROKEN: Final = (OSError, ValueError, IndexError, struct.error)
"""What reading a zone file raises that is none."""

UNDATED: Final = "undated"


@dataclass(frozen=True, slots=True)
class Moment:
    """One local time: `day` is YYYY-MM-DD, `time` HH:MM, `offset` +HH:MM; all empty but `day` for a
    row without a usable time."""

    day: str
    time: str
    offset: str


@dataclass(frozen=True, slots=True)
class Clock:
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


def local_zone(environ: Mapping[str, str]) -> tzinfo | None:
    """The zone of TZ, else of the system. None where only the C library understands TZ
    (`JST-9`): it cannot change within one process."""
    value = environ.get("TZ")
    if value is None:
        return _of_file(SYSTEM_ZONE) or UTC
    value = value.removeprefix(":")
    if value.startswith("/"):
        return _of_file(value)
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, *_BROKEN):
        return None


def _of_file(path: str) -> ZoneInfo | None:
    try:
        real = os.path.realpath(path)
        seen = os.stat(real)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return _load(real, seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_size)


# Parsing a zone takes as long as rendering a context; the arguments name one state of one file.
@lru_cache(maxsize=8)
def _load(path: str, device: int, inode: int, mtime_ns: int, size: int) -> ZoneInfo | None:
    del device, inode, mtime_ns, size
    _, known, name = path.rpartition("/zoneinfo/")
    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file, key=name if known else None)
    except _BROKEN:
        return None
