"""What was found: of the daemon, of this folder's memory, or by `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """code: a word for scripts. severity: error and warning make the daemon degraded. sentence:
    what, and which file or key. fix: what to do; a command alone, or words; empty where nothing is
    to be done."""

    code: str
    severity: Severity
    sentence: str
    fix: str = ""
