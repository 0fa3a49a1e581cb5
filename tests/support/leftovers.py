"""What a test may not leave behind: threads, open files and sockets, processes, temporary folders."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass

DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Children of children become ours when their parent ends, so that they are seen; Linux alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What there is at one moment."""

    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    processes: frozenset[str]
    """Every process of the system by its number; empty where there is no /proc."""
    folders: frozenset[str]

    @classmethod
    def now(cls) -> Leftovers:
        processes: frozenset[str] = frozenset()
        with suppress(FileNotFoundError):
            processes = frozenset(filter(str.isdigit, os.listdir("/proc")))
        return cls(
            threads=frozenset(threading.enumerate()),
            descriptors=frozenset(os.listdir(DESCRIPTORS)),
            processes=processes,
            folders=frozenset(os.listdir(tempfile.gettempdir())),
        )

    def added_since(self) -> list[str]:
        """What came since then and is still there, in words."""
        now = Leftovers.now()
        if len(now.descriptors) > len(self.descriptors):
            gc.collect()  # a test may leave a cycle with a connection in it to the collector
            now = Leftovers.now()
        added = [
            f"thread {thread.name}"
            for thread in now.threads - self.threads
            if thread.is_alive() and not thread.daemon
        ]
        if len(now.descriptors) > len(self.descriptors):
            added += [f"file {_target(each)}" for each in now.descriptors - self.descriptors]
        added += [f"process {each}" for each in now.processes - self.processes if _is_ours(each)]
        return added + [f"folder {each}" for each in now.folders - self.folders]


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"{DESCRIPTORS}/{descriptor}")
    except OSError:
        return descriptor


def _is_ours(process: str) -> bool:
    """Whether it runs and is a child of this process; an orphan that has ended is reaped."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    if int(parent) != os.getpid():
        return False
    if state == "Z":
        with suppress(ChildProcessError):
            os.waitpid(int(process), os.WNOHANG)
        return False
    return True
