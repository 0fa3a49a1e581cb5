"""The local time zone as it is now.

The C library reads the system's zone once in the life of a process, so a daemon that asked it would
stay in the zone it was started in. The zone's file is therefore read here, and again when it is
another file.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claudemem_daemon.dependencies import FileState, file_state

SYSTEM_ZONE: Final = "/etc/localtime"

_BROKEN: Final = (OSError, ValueError, IndexError, struct.error)
"""What reading a file raises that is no zone file."""


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


def zone_dependencies(environ: Mapping[str, str]) -> tuple[FileState, ...]:
    """What `local_zone` was read from."""
    if "TZ" in environ:
        return ()
    # Not racy: a zone file is put in place whole, by a link or a rename.
    return (replace(file_state(SYSTEM_ZONE), racy=False),)


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
