"""The installed daemon in a home of its own, and what /proc says of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from tests.benchmarks.client import HEALTHZ, Client

_PATIENCE: Final = 30.0
_GIVING_BACK: Final = 2.0
"""Seconds; the daemon gives memory back one second after the last question."""


def command() -> str:
    """The console script that was installed beside this interpreter, or the one on the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "claudemem-daemon")
    found = beside if os.access(beside, os.X_OK) else shutil.which("claudemem-daemon")
    if found is None:
        raise SystemExit("claudemem-daemon is not installed: pip install -e . first")
    return found


@dataclass(frozen=True, slots=True)
class Ticks:
    """CPU ticks and context switches since the process began, over all its threads."""

    cpu: int
    voluntary: int
    involuntary: int


class Daemon:
    """`claudemem-daemon run` with HOME at `home`, its command line after `before`; leaving the
    block stops it.

    began: when the process was started, by time.perf_counter. ready_seconds: from then to its
    READY=1. The socket has a short folder of
    its own, whatever the length of `home`.
    """

    def __init__(self, home: str, before: Sequence[str] = (), *, timeout: float = 30.0) -> None:
        self.home = home
        self._before = before
        self.began = 0.0
        self.ready_seconds = 0.0
        self._folder = tempfile.mkdtemp(prefix="cmd-bench-")
        self.socket = os.path.join(self._folder, "d.sock")
        self.client = Client(self.socket, timeout=timeout)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> Mapping[str, str]:
        """The environment in which hooks and commands find this daemon."""
        return {
            "HOME": self.home,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "CLAUDEMEM_DAEMON_SOCKET": self.socket,
            "CLAUDEMEM_DAEMON_HOME": os.path.join(self._folder, "state"),
        }

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Daemon:
        notify = os.path.join(self._folder, "notify")
        try:
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
                open(os.path.join(self._folder, "log"), "wb") as log,
            ):
                listener.bind(notify)
                self.began = time.perf_counter()
                self._process = subprocess.Popen(
                    [*self._before, command(), "run"],
                    env={**self.env, "NOTIFY_SOCKET": notify},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
                self._wait_ready(listener)
                self.ready_seconds = time.perf_counter() - self.began
        except BaseException:
            self._end()
            raise
        return self

    def _wait_ready(self, listener: socket.socket) -> None:
        end = time.monotonic() + _PATIENCE
        listener.settimeout(0.1)
        while time.monotonic() < end:
            assert self._process is not None
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in listener.recv(4096):
                    return
            if self._process.poll() is not None:
                raise RuntimeError(f"the daemon ended: {self.log()}")
        raise RuntimeError(f"the daemon said no READY=1 in {_PATIENCE} s: {self.log()}")

    def log(self) -> str:
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def resident_mb(self) -> float:
        """VmRSS in MB (1,000,000 bytes)."""
        return _status(f"/proc/{self.pid}/status")["VmRSS"] * 1024 / 1e6

    def ticks(self) -> Ticks:
        with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        voluntary = involuntary = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            status = _status(f"/proc/{self.pid}/task/{thread}/status")
            voluntary += status["voluntary_ctxt_switches"]
            involuntary += status["nonvoluntary_ctxt_switches"]
        return Ticks(int(fields[11]) + int(fields[12]), voluntary, involuntary)

    def rest(self) -> None:
        """What five minutes in which nobody asks do: no store is open any more, and two seconds
        later memory was given back."""
        end = time.monotonic() + _PATIENCE
        while self._has_a_store_open():
            if time.monotonic() > end:
                raise RuntimeError(f"a store is still open after {_PATIENCE} s")
            time.sleep(0.05)  # nothing tells when a store is closed
        time.sleep(_GIVING_BACK)  # the daemon does so by the clock

    def _has_a_store_open(self) -> bool:
        folder = f"/proc/{self.pid}/fd"
        for number in os.listdir(folder) if os.path.isdir(folder) else ():
            with contextlib.suppress(FileNotFoundError):
                if ".db" in os.readlink(os.path.join(folder, number)):
                    return True
        return False

    def healthy(self) -> bool:
        return self.client.ask(HEALTHZ).status == 200

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        code = self._end()
        if kind is None and code != 0:
            raise RuntimeError(f"the daemon ended with {code}")

    def _end(self) -> int | None:
        code = None
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                code = self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)
        return code


def _status(path: str) -> dict[str, int]:
    numbers = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            first = value.split()[:1]
            if first and first[0].isdigit():
                numbers[name] = int(first[0])
    return numbers
