"""What was found: of the daemon, of this folder's memory, or by `doctor`."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["ok", "note", "warning", "error"]


class Finding(NamedTuple):
    """code: a word for scripts. sentence: what, and which file or key. fix: a command, or words;
    empty where nothing is to be done. severity: error and warning make the daemon degraded."""

    code: str
    sentence: str
    fix: str = ""
    severity: Severity = "warning"
