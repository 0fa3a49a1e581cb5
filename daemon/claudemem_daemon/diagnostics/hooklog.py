"""`hook.log`: why hooks failed, as the hook client wrote it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from claudemem_daemon.local import MAX_LOG, open_own, state_dir


@dataclass(frozen=True, slots=True)
class HookFailure:
    """One line of the log; `at` is seconds since 1970, `reason` one of `hook.REASONS`."""

    at: int
    platform: str
    reason: str
    detail: str


def read_log(environ: Mapping[str, str], last: int = 50) -> tuple[HookFailure, ...]:
    """The newest failures, oldest first; none where there is no log. A hook that no daemon answered
    was answered in process, and what goes wrong with that has a line of its own."""
    path = os.path.join(state_dir(environ), "hook.log")
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_LOG * 2)
    except OSError:
        return ()
    found: list[HookFailure] = []
    for line in data.decode("utf-8", "replace").splitlines()[-last:]:
        parts = line.split("\t", 3)
        if len(parts) == 4 and parts[0].isdigit() and parts[2] != "no_daemon":
            found.append(HookFailure(int(parts[0]), parts[1], parts[2], parts[3]))
    return tuple(found)
