"""Who is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Final

SO_PEERCRED: Final[int | None] = getattr(socket, "SO_PEERCRED", None)
_UCRED: Final = struct.Struct("3i")
"""Linux: pid, uid, gid of the moment of connect (unix(7))."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_XUCRED_SIZE: Final = 76
"""macOS: version, uid, number of groups, sixteen groups (sys/ucred.h)."""


def peer_uid(sock: socket.socket) -> int | None:
    """The peer's effective uid; None where the system does not tell."""
    if SO_PEERCRED is not None:
        uid: int = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_PEERCRED, _UCRED.size))[1]
        return uid
    if sys.platform == "darwin":
        told = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE)
        return int(struct.unpack_from("2I", told)[1])
    return None


def welcome(uid: int | None) -> bool:
    """The user we run as, and root, who could read everything anyway."""
    return uid is None or uid in (os.geteuid(), 0)
