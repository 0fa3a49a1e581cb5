"""Projects that are never read from or answered: globs over the paths of checkouts. Pure."""

from __future__ import annotations

import os
import re
from functools import lru_cache


def excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a checkout's path falls under one of the patterns.

    A pattern with a slash is matched against the whole path (`~` is the home folder): `*` and `?`
    stay inside one folder name, `**` crosses folders, and what matches takes everything below it
    along. A pattern without a slash is matched against each folder name on the path.
    """
    return any(_matcher(pattern, os.path.expanduser("~")).search(path) for pattern in patterns)


@lru_cache(maxsize=256)
def _matcher(pattern: str, home: str) -> re.Pattern[str]:
    if pattern == "~" or pattern.startswith("~/"):
        pattern = home + pattern[1:]
    if "/" not in pattern:
        return re.compile(rf"(?:^|/){_translate(pattern)}(?:/|\Z)", re.DOTALL)
    # `folder/**` means the folder as well, as people expect of it.
    trimmed = pattern.rstrip("/").removesuffix("/**") or "/"
    anchor = "" if trimmed.startswith("/") else "(?:^|/)"
    return re.compile(rf"{anchor or '^'}{_translate(trimmed)}(?:/|\Z)", re.DOTALL)


def _translate(pattern: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            out.append("(?:.*/)?")
            position += 3
        elif pattern.startswith("**", position):
            out.append(".*")
            position += 2
        else:
            sign = pattern[position]
            out.append({"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign))
            position += 1
    return "".join(out)
