"""`GET /v1/status`: the state of the daemon as JSON with keys that stay. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from claudemem_daemon.diagnostics.problems import find_problems
from claudemem_daemon.server.state import DaemonState

SCHEMA = 1
"""Grows when a key changes its meaning; new keys may come at any time."""


def build_status(state: DaemonState) -> dict[str, Any]:
    """Everything `status --json` prints; times in seconds since 1970, latencies in ms."""
    shape: dict[str, Any] = {
        "version": state.version,
        "installed_version": state.installed_version,
        "protocol": state.protocol,
        "process": {
            "pid": state.pid,
            "started_at": state.started_at,
            "uptime_seconds": round(state.now - state.started_at, 1),
            "started_by": state.started_by,
            "python": state.python,
            "executable": state.executable,
            "resident_kb": resident_kb(),
            "log": state.log_path,
            "state_dir": state.state_dir,
        },
        "socket": asdict(state.socket),
        "configuration": dict(state.configuration),
        "watcher": dict(state.watcher),
        "stores": [dict(one) for one in state.stores],
        "repositories": [dict(one) for one in state.repositories],
        "requests": {
            **asdict(state.requests),
            "connections": state.connections,
            "kept_answers": state.kept_answers,
            "stuck_workers": state.stuck_workers,
        },
    }
    problems = find_problems(shape)
    degraded = any(problem.severity != "note" for problem in problems)
    return {
        "schema": SCHEMA,
        "status": "degraded" if degraded else "ok",
        **shape,
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
