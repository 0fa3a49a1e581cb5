"""The local time zone as it is now.

The C library reads the system's zone once in the life of a process: a daemon that asked it would stay
in the zone it was started in.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claudemem_daemon.dependencies import FileState, file_state

SYSTEM_ZONE: Final = "/etc/localtime"

_BROKEN: Final = (OSError, ValueError, IndexError, struct.error)
"""What reading a file raises that is no zone file."""


class LocalZone(NamedTuple):
    """`zone` is None where only the C library understands TZ (`JST-9`): that cannot change within
    one process."""

    zone: tzinfo | None
    dependencies: tuple[FileState, ...] = ()


def read_zone(environ: Mapping[str, str]) -> LocalZone:
    """The zone of TZ, else of the system."""
    value = environ.get("TZ")
    if value is None:
        # The stat comes first: a change before the reading then shows the next time.
        state = file_state(SYSTEM_ZONE)
        return LocalZone(_of_file(SYSTEM_ZONE) or UTC, (state,))
    value = value.removeprefix(":")
    if not value:
        return LocalZone(UTC)  # the C library means the same, and may call it "Universal"
    if value.startswith("/"):
        return LocalZone(_of_file(value))
    try:
        return LocalZone(ZoneInfo(value))
    except (ZoneInfoNotFoundError, *_BROKEN):
        return LocalZone(None)


def callers_zone(env: Mapping[str, str], environ: Mapping[str, str]) -> LocalZone:
    """The zone that TZ of a caller's `env` names, else that of `environ`, which is the process's own.
    A caller's file is not read: a checkout can name one, and its abbreviations would be in a text."""
    name = env.get("TZ", "").removeprefix(":")
    if name and not name.startswith("/"):
        with suppress(ZoneInfoNotFoundError, *_BROKEN):
            return LocalZone(ZoneInfo(name))
    return read_zone(environ)


def _of_file(path: str) -> ZoneInfo | None:
    _, known, name = os.path.realpath(path).rpartition("/zoneinfo/")
    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file, key=name if known else None)
    except _BROKEN:
        return None
