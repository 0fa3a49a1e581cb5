"""The setting that a misspelt key of settings.json may mean."""

from __future__ import annotations

import difflib
from typing import Final

from claudemem_daemon.settings.model import ALL_KEYS, DATA_DIR

PREFIX: Final = "CLAUDE_MEM_"

SIMILAR: Final = frozenset([PREFIX + "MODEL"])
"""The key of claude-mem's own use that is spelt like one of these settings."""


def suggest(name: str) -> str | None:
    """The setting that a `CLAUDE_MEM_*` key resembles; None for a setting, and for a key that
    resembles none, as most keys of claude-mem's own use."""
    known = (*ALL_KEYS, DATA_DIR)
    if name in known or name in SIMILAR or not name.upper().startswith(PREFIX):
        return None
    # The prefix that all of them share would make any two of them similar.
    short = {key.removeprefix(PREFIX): key for key in known}
    near = difflib.get_close_matches(name.upper().removeprefix(PREFIX), short, n=1, cutoff=0.8)
    return short[near[0]] if near else None
