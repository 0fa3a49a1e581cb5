"""Who may be at the other end of a connection."""

from __future__ import annotations

import os


def welcome(uid: int | None) -> bool:
    """The user we run as, and root, who could read everything anyway."""
    return uid is None or uid in (os.geteuid(), 0)
