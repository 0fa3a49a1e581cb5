"""`GET /v1/status`: the state of the daemon as JSON with keys that stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from claudemem_daemon.diagnostics.problems import find_problems

SCHEMA = 1
"""Grows when a key changes its meaning; new keys may come at any time."""


def with_problems(state: Mapping[str, Any]) -> dict[str, Any]:
    """Everything `status --json` prints."""
    problems = find_problems(state)
    degraded = any(problem.severity != "note" for problem in problems)
    return {
        "schema": SCHEMA,
        "status": "degraded" if degraded else "ok",
        **state,
        "problems": [asdict(problem) for problem in problems],
    }


def resident_kb() -> int | None:
    """Resident memory of this process; None where the system does not say so simply."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None
