"""The local time zone as it is now.

The C library reads the system's zone once in the life of a process, so a daemon that asked it would
stay in the zone it was started in. The zone's file is therefore read here.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claudemem_daemon.dependencies import FileState, State, state_of

SYSTEM_ZONE: Final = "/etc/localtime"

_BROKEN: Final = (OSError, ValueError, IndexError, struct.error)
"""What reading a file raises that is no zone file."""


@dataclass(frozen=True, slots=True)
class ZoneFile(FileState):
    """The file that the system's zone is read from. It is put in place whole, by a link or a
    rename, so one stat of what a link leads to tells any change."""

    def holds(self) -> bool:
        return _state(self.path) == self.state


class LocalZone(NamedTuple):
    """`zone` is None where it is left to the C library."""

    zone: tzinfo | None
    dependencies: tuple[ZoneFile, ...]


def read_zone(environ: Mapping[str, str]) -> LocalZone:
    dependencies = zone_dependencies(environ)
    return LocalZone(local_zone(environ), dependencies)


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


def zone_dependencies(environ: Mapping[str, str]) -> tuple[ZoneFile, ...]:
    """What `local_zone` is read from; to be asked for before it."""
    return () if "TZ" in environ else (ZoneFile(SYSTEM_ZONE, _state(SYSTEM_ZONE)),)


def _state(path: str) -> State | None:
    try:
        return state_of(os.stat(path))
    except OSError:
        return None


def _of_file(path: str) -> ZoneInfo | None:
    _, known, name = os.path.realpath(path).rpartition("/zoneinfo/")
    try:
        with open(path, "rb", opener=_opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return ZoneInfo.from_file(file, key=name if known else None)
    except _BROKEN:
        return None


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
