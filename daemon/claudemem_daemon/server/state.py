"""One look at the running daemon, from which `status` is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from claudemem_daemon.server.metrics import Requests

StartedBy = Literal["systemd", "launchd", "hand"]


@dataclass(frozen=True, slots=True)
class SocketState:
    """The socket we listen on. `mode` is the permission bits of the file (0o600), `owner` its uid;
    both None where the file is gone. `healed` counts how often it had to be bound again."""

    path: str
    mode: int | None
    owner: int | None
    inherited: bool
    """True: systemd or launchd bound it, and owns the file."""
    healed: int


@dataclass(frozen=True, slots=True)
class DaemonState:
    """Everything the server knows of itself; times in seconds since the epoch.

    configuration, watcher, stores and repositories are what those rooms say of themselves, as
    plain JSON values.
    """

    pid: int
    version: str
    protocol: int
    python: str
    executable: str
    started_at: float
    now: float
    started_by: StartedBy
    state_dir: str
    log_path: str | None
    """None under a service manager, whose journal has the lines."""
    installed_version: str
    """Of the package on disk now; differs from `version` after an upgrade without a restart."""
    socket: SocketState
    connections: int
    requests: Requests
    kept_answers: int
    stuck_workers: int
    """Threads held for seconds by one question, as by a file system that hangs."""
    configuration: Mapping[str, Any]
    watcher: Mapping[str, Any]
    stores: Sequence[Mapping[str, Any]]
    repositories: Sequence[Mapping[str, Any]]
