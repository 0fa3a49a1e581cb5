"""The daemon asked over its socket, by the standard library."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from claudemem_daemon.errors import DaemonError, InvalidRequest, NotRunning
from claudemem_daemon.hook import timeout_ms
from claudemem_daemon.local import (
    environment_headers,
    open_own,
    private_dir,
    short_dir,
    socket_path,
    state_dir,
)

Trouble = Literal[
    "not running", "stale socket", "other socket", "not answering", "blocked", "unsafe"
]

GRACE_MS = 500
"""Longer than the daemon's own deadline, by environment or settings.json."""
PATIENCE_MS = 2_000
"""How long a command waits for the daemon, whose own deadline is 1.5 s unless set otherwise."""


class Unreachable(NotRunning):
    """Nobody answered; `trouble` says which way, `pid` who holds the lock, if anybody does."""

    def __init__(self, message: str, *, trouble: Trouble, pid: int | None = None) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.pid = pid


class Client:
    """One question a connection, inside `timeout` seconds each."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.path = socket_path(environ)
        self.timeout = max(PATIENCE_MS, timeout_ms(environ) + GRACE_MS) / 1000

    def get(self, route: str, parameters: Mapping[str, str] | None = None) -> bytes:
        """Raises `Unreachable`, and `DaemonError` or `InvalidRequest` with the daemon's words."""
        query = "&".join(
            f"{name}={quote(os.fsencode(value), safe='')}"
            for name, value in (parameters or {}).items()
        )
        return self._ask("GET", route + (f"?{query}" if query else ""), None)

    def get_json(self, route: str, parameters: Mapping[str, str] | None = None) -> Any:
        """`get`, for an answer in JSON."""
        return json.loads(self.get(route, parameters))

    def post(self, route: str, body: object = None) -> Any:
        """The answer's JSON. Raises as `get` does."""
        return json.loads(self._ask("POST", route, json.dumps(body).encode()))

    def _ask(self, method: str, target: str, body: bytes | None) -> bytes:
        connection = _Connection(self.path, self.timeout)
        try:
            connection.connect()
            connection.putrequest(method, target)
            connection.putheader("Connection", "close")
            for line in environment_headers(self.environ):
                connection.putheader("Claudemem-Env", line)
            if body is not None:
                connection.putheader("Content-Type", "application/json")
                connection.putheader("Content-Length", str(len(body)))
            # Who is refused before all is sent finds the refusal in the socket all the same.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
        except TimeoutError:
            pid = lock_holder(self.environ)
            who = f"pid {pid}" if pid is not None else "the daemon"
            raise Unreachable(
                f"{who} does not answer on {self.path} within {self.timeout:g} s",
                trouble="not answering",
                pid=pid,
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()
        if answer.status >= 400:
            raise _refused(answer.status, data)
        return data

    def _unreachable(self, error: Exception) -> Unreachable:
        pid = lock_holder(self.environ)
        if isinstance(error, PermissionError):
            message = f"not allowed to connect to {self.path}: a sandbox, or not our socket"
            return Unreachable(message, trouble="blocked", pid=pid)
        if isinstance(error, _UnsafeError):
            return Unreachable(str(error), trouble="unsafe", pid=pid)
        if pid is not None and isinstance(error, FileNotFoundError):
            message = f"pid {pid} is running, but not on {self.path}"
            return Unreachable(message, trouble="other socket", pid=pid)
        if pid is not None:
            message = f"pid {pid} holds the lock, but nobody answers on {self.path}"
            return Unreachable(message, trouble="not answering", pid=pid)
        if os.path.lexists(self.path):
            return Unreachable(
                f"no daemon is running; {self.path} is left over from one", trouble="stale socket"
            )
        return Unreachable("no daemon is running", trouble="not running")


def connected(path: str, timeout: float) -> socket.socket:
    """A Unix socket whose steps take `timeout` seconds at most, raising TimeoutError.

    Where many connections wait to be accepted, `connect` waits for its turn; under `settimeout` it
    would fail at once.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        limit = struct.pack("ll", int(timeout), int(timeout % 1 * 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connection.connect(os.fsencode(path))
        connection.settimeout(timeout)
    except BlockingIOError:
        connection.close()
        raise TimeoutError(f"{path} has no room for a connection") from None
    except BaseException:
        connection.close()
        raise
    return connection


class _UnsafeError(OSError):
    """The socket lies where others could have put it."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._limit = timeout

    def connect(self) -> None:
        shortened = self._path.startswith(short_dir() + "/") and os.path.lexists(short_dir())
        if shortened and not private_dir(short_dir()):
            raise _UnsafeError(f"{short_dir()} is not a folder of ours alone; remove it")
        self.sock = connected(self._path, self._limit)


def _refused(status: int, data: bytes) -> DaemonError | InvalidRequest:
    try:
        message = str(json.loads(data)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the daemon answered {status}"
    return InvalidRequest(message) if status == 400 else DaemonError(message)


def is_daemon(pid: int, client: Client) -> bool:
    """Whether the daemon has this number among the processes we see. In another PID namespace with
    the same HOME, as of a container, the number belongs to somebody else, or to nobody."""
    with suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            lock = os.stat(_lock_path(client.environ))
            return any(_is_file(entry.path, lock) for entry in os.scandir(f"/proc/{pid}/fd"))
    connection = _Connection(client.path, client.timeout)
    try:
        connection.connect()
        return _peer_pid(connection.sock) == pid
    except OSError:
        return False
    finally:
        connection.close()


def _peer_pid(connection: socket.socket) -> int:
    """Who listens at the other end; 0 in another PID namespace, or where no system tells."""
    if sys.platform == "linux":
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    elif sys.platform == "darwin":
        told = connection.getsockopt(0, 2, 4)  # SOL_LOCAL, LOCAL_PEERPID
    else:
        return 0
    return int.from_bytes(told[:4], sys.byteorder)


def _is_file(path: str, seen: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), seen)
    except OSError:
        return False


def lock_holder(environ: Mapping[str, str]) -> int | None:
    """The pid of the process that holds the daemon's lock, None when nobody does. The lock is
    tried, never kept: whoever starts at this very moment only tries again."""
    try:
        handle = open_own(_lock_path(environ), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        word = os.read(handle, 64).split()
        return int(word[0]) if word and word[0].isdigit() else 0
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _lock_path(environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), "daemon.lock")
