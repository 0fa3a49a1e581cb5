"""Being the one daemon: the private folder, the lock held for life, who started us."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal

from claudemem_daemon import __version__
from claudemem_daemon.errors import AlreadyRunning, DaemonError
from claudemem_daemon.local import open_own, short_dir
from claudemem_daemon.permissions import ELSEWHERE, Trouble, folder_trouble

StartedBy = Literal["systemd", "launchd", "hand"]

LAUNCHD_LABEL: Final = "claudemem-daemon"
"""Part of every label of our agent; launchd hands it over as XPC_SERVICE_NAME."""

MAX_FILES: Final = 10_240
"""Descriptors we ask for: macOS takes no more, and the stores of a thousand repositories fit."""
LOCK_SECONDS: Final = 0.3
"""How long a lock is waited for: commands try it for a moment, to see whether a daemon runs."""


def started_by(environ: Mapping[str, str]) -> StartedBy:
    if any(environ.get(name) for name in ("INVOCATION_ID", "NOTIFY_SOCKET", "LISTEN_PID")):
        return "systemd"
    if LAUNCHD_LABEL in environ.get("XPC_SERVICE_NAME", ""):
        return "launchd"
    return "hand"


def private_folder(path: str) -> None:
    """Make sure that `path` is a folder of ours that nobody else can enter.

    Missing ones are made. One that exists is never mended: who opened it to others may already have
    put something there. Raises `DaemonError`.
    """
    trouble = folder_trouble(path)
    if trouble is None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            trouble = Trouble(f"{path} cannot be made: {error.strerror}", ELSEWHERE)
        else:
            trouble = folder_trouble(path)
    if trouble is not None:
        raise DaemonError(trouble.line)


def socket_folder(folder: str) -> None:
    """Make sure that nobody else can put a socket of theirs in place of ours in `folder`."""
    if folder == short_dir() or not os.path.lexists(folder):
        private_folder(folder)
        return
    try:
        seen = os.stat(folder)
    except OSError as error:
        raise DaemonError(f"{folder} cannot be looked at: {error.strerror}") from error
    if seen.st_mode & 0o022 and not seen.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(seen.st_mode)
        raise DaemonError(
            f"{folder} can be written by others (mode {mode:04o}); put the socket elsewhere by"
            f" CLAUDEMEM_DAEMON_SOCKET, or chmod 700 {folder}"
        )


class InstanceLock:
    """`daemon.lock`, locked for as long as this object lives.

    The lock alone says that a daemon lives: not the socket, not a process id, not the speed of an
    answer. The kernel takes it away with the process, however that ends.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises `AlreadyRunning` with the holder's pid, or `DaemonError`."""
        fd = self._locked()
        previous, self._fd = self._fd, fd
        if previous >= 0:
            os.close(previous)
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {__version__}\n".encode(), 0)
        except OSError as error:
            raise DaemonError(f"{self.path} cannot be written: {error.strerror}") from error

    def in_place(self) -> bool:
        """Whether the file at the path is still the one we hold."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._fd))
        except OSError:
            return False

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _locked(self) -> int:
        patience = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fd = open_own(self.path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise DaemonError(f"{self.path} cannot be opened: {error.strerror}") from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(OSError):
                    if os.path.samestat(os.lstat(self.path), os.fstat(fd)):
                        return fd
            except BlockingIOError:
                if time.monotonic() < patience:
                    os.close(fd)
                    time.sleep(0.01)  # flock(2) waits for ever or not at all
                    continue
                pid = _holder(fd)
                os.close(fd)
                told = f"pid {pid}" if pid is not None else "its pid is not known yet"
                raise AlreadyRunning(f"already running, {told}", pid=pid) from None
            except OSError as error:
                os.close(fd)
                raise DaemonError(f"{self.path} cannot be locked: {error.strerror}") from error
            # Removed or replaced between open and lock: what we hold protects nothing.
            os.close(fd)


def _holder(fd: int) -> int | None:
    """The pid in the lock file; its holder writes it just after it took the lock."""
    patience = time.monotonic() + 0.5
    while True:
        word = os.pread(fd, 64, 0).partition(b" ")[0]
        if word.isdigit():
            return int(word)
        if time.monotonic() > patience:
            return None
        time.sleep(0.005)  # another process decides; there is no event to wait for


def raise_file_limit() -> None:
    """The usual soft limit of 256 or 1024 is for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
