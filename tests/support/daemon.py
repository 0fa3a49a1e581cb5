"""A real daemon, started by the installed command, in a HOME of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from claudemem_daemon import local
from claudemem_daemon.client import connected

T = TypeVar("T")

PATIENCE = 15.0
"""Seconds for anything that should take milliseconds, on a machine that is busy with others."""


def command() -> list[str]:
    """The console script that was installed beside this interpreter."""
    return [os.path.join(os.path.dirname(sys.executable), "claudemem-daemon")]


MUTATED = os.environ.get("CLAUDEMEM_MUTATED")
"""The folder of a changed copy of the package, see tests/mutations."""
FLAGS = "-P" if MUTATED else "-EP"
DEVELOPING = [sys.executable, "-Xdev", "-Werror", "-Xutf8", FLAGS, *command()]
"""As the command starts Python, and every warning is an error that ends the test."""


def clean_environ(home: str | os.PathLike[str], **extra: str) -> dict[str, str]:
    """What a process started by nobody in particular sees: nothing of this shell but PATH."""
    return {
        "HOME": os.fspath(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        **({"PYTHONPATH": MUTATED} if MUTATED else {}),
        **extra,
    }


def eventually(
    condition: Callable[[], T | None], what: str | Callable[[], str], within: float = PATIENCE
) -> T:
    """The first true value of `condition`; fails with `what` when none comes in time."""
    end = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"in {within:g} s never: {text}")
        time.sleep(0.01)  # another process decides; there is no event to wait for


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The code of an error in the contract's form."""
        shape = self.json()
        assert set(shape) == {"error"}, shape
        assert set(shape["error"]) == {"code", "message"}, shape
        assert "Traceback" not in shape["error"]["message"]
        code: str = shape["error"]["code"]
        return code


class UnixConnection(http.client.HTTPConnection):
    """`http.client` over a Unix socket."""

    def __init__(self, path: str, timeout: float = PATIENCE) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = connected(self.path, self.timeout or PATIENCE)


class Daemon:
    """A context manager: started and answering inside, gone after. What it wrote to standard error
    is shown when the test fails."""

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        environ: Mapping[str, str] | None = None,
        umask: int = -1,
        prefix: Iterable[str] = (),
        pass_fds: Iterable[int] = (),
        program: Iterable[str] | None = None,
    ) -> None:
        self.home = os.fspath(home)
        self.environ = clean_environ(home, **(environ or {}))
        self.umask = umask
        self.command = [*prefix, *(DEVELOPING if program is None else program), "run"]
        self.pass_fds = tuple(pass_fds)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Daemon:
        try:
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- daemon in {self.home} said:\n{self.errors()}---\n")
        self._end()
        said = self.errors()
        self._close()
        assert error is not None or "Warning:" not in said, said

    @property
    def socket_path(self) -> str:
        return local.socket_path(self.environ)

    @property
    def state_dir(self) -> str:
        return local.state_dir(self.environ)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> None:
        """Start it, and wait until it answers. Fails with its own words when it does not."""
        self._process = subprocess.Popen(
            self.command,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            umask=self.umask,
            pass_fds=self.pass_fds,
            cwd="/",
        )
        eventually(self._answers, "the daemon answers")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}: {self.errors()}")
        return self.reachable()

    def reachable(self) -> bool:
        """Whether /healthz comes back as it should."""
        try:
            return self.get("/healthz").status == 200
        except OSError:
            return False

    def errors(self) -> str:
        """What it wrote to standard output and standard error since the first start."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")

    def get(self, path: str, query: Mapping[str, str | bytes] | None = None) -> Reply:
        parts = [f"{name}={quote(value, safe='')}" for name, value in (query or {}).items()]
        return self.request("GET", path + ("?" + "&".join(parts) if parts else ""))

    def post(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """`body` goes as JSON, bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, headers)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
    ) -> Reply:
        connection = UnixConnection(self.socket_path, timeout)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, named, answer.read())
        finally:
            connection.close()

    def connect(self, timeout: float = PATIENCE) -> socket.socket:
        """A bare connection, the caller's to close."""
        return connected(self.socket_path, timeout)

    def raw(self, *chunks: bytes) -> bytes:
        """Send the chunks as they are, one write each; everything that comes until the end."""
        with self.connect() as connection:
            with suppress(ConnectionError):  # it may have had enough
                for chunk in chunks:
                    connection.sendall(chunk)
            return read_all(connection)

    def curl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`curl --unix-socket ... ARGUMENTS`, quiet."""
        return subprocess.run(
            ["curl", "-sS", "--max-time", "20", "--unix-socket", self.socket_path, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """End it as `stop` does; its exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def memory_kb(self, line: Literal["VmRSS", "VmHWM"] = "VmRSS") -> int:
        """Resident memory, or its peak so far; 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
                return int(next(each for each in file if each.startswith(line)).split()[1])
        except FileNotFoundError:
            return 0

    def processor_seconds(self) -> float:
        """What it has used so far; 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
        except FileNotFoundError:
            return 0.0
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _end(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            # Also one that a test had stopped with SIGSTOP.
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _close(self) -> None:
        self._end()
        with suppress(OSError):
            os.unlink(self.socket_path)
        with suppress(OSError):
            os.rmdir(local.short_dir())  # only if this was the last one in it
        self._errors.close()


def run_to_end(
    environ: Mapping[str, str],
    *arguments: str,
    umask: int = -1,
    cwd: str | os.PathLike[str] = "/",
    program: Iterable[str] = DEVELOPING,
) -> subprocess.CompletedProcess[str]:
    """The command with `arguments`, which is expected to end by itself."""
    return subprocess.run(
        [*program, *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        umask=umask,
        cwd=cwd,
    )


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other side ends, whatever way it ends."""
    parts = []
    with suppress(ConnectionError):
        while chunk := connection.recv(65536):
            parts.append(chunk)
    return b"".join(parts)
