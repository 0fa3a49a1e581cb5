"""A client that costs next to nothing: one connection a request, as every hook makes one."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

_CHUNK: Final = 1 << 18
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `seconds` from before connect until the last byte was here."""

    status: int
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Load:
    """A run of many requests: seconds of each, and what the client itself used of the CPU."""

    seconds: list[float]
    wall: float
    client_cpu: float


def get(path: str, query: Mapping[str, str] | None = None) -> bytes:
    target = path if not query else f"{path}?{urlencode(query, errors='surrogateescape')}"
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("ascii")


def post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode("ascii") + data


def inject(cwd: str, **query: str) -> bytes:
    """The request of claude-mem's own route, as its hooks and `curl` send it."""
    return get("/api/context/inject", {"cwd": cwd, **query})


HEALTHZ: Final = get("/healthz")


class Client:
    """Asks the daemon at the socket `address`, or a server at a host and port; the answer's length
    is read from its head, as curl does."""

    def __init__(self, address: str | tuple[str, int], *, timeout: float = 30.0) -> None:
        self._address = address
        self._family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._timeout = timeout

    def ask(self, request: bytes) -> Reply:
        """One request on a connection of its own.

        Raises OSError where nobody listens, ValueError for what is no whole HTTP answer.
        """
        began = time.perf_counter()
        with socket.socket(self._family) as link:
            link.settimeout(self._timeout)
            link.connect(self._address)
            link.sendall(request)
            data = link.recv(_CHUNK)
            missing = _missing(data)
            if missing != 0:
                data = _rest(link, data, missing)
            seconds = time.perf_counter() - began
        head, _, body = data.partition(_HEAD_END)
        return Reply(int(head[9:12]), body, seconds)

    def seconds(self, request: bytes) -> float:
        """As `ask`, for timing alone; a status other than 200 is a ValueError."""
        reply = self.ask(request)
        if reply.status != 200:
            raise ValueError(f"{reply.status} for {request[:80]!r}: {reply.body[:200]!r}")
        return reply.seconds

    def load(self, requests: Sequence[bytes], clients: int, total: int) -> Load:
        """`total` requests, taken in turn from `requests`, with `clients` of them under way at any
        time. One thread and poll: threads would measure this interpreter's lock."""
        cpu, began = time.process_time(), time.perf_counter()
        under_way: dict[int, _Request] = {}
        seconds: list[float] = []
        sent = 0
        poll = select.poll()
        try:
            while len(seconds) < total:
                while sent < total and len(under_way) < clients:
                    waiting = _Request(self._address, requests[sent % len(requests)])
                    under_way[waiting.link.fileno()] = waiting
                    poll.register(waiting.link, select.POLLIN)
                    sent += 1
                ready = poll.poll(self._timeout * 1000)
                if not ready:
                    raise TimeoutError(f"no answer within {self._timeout} s under load")
                for number, _ in ready:
                    waiting = under_way[number]
                    if waiting.read():
                        seconds.append(time.perf_counter() - waiting.began)
                        poll.unregister(number)
                        del under_way[number]
                        waiting.link.close()
        finally:
            for waiting in under_way.values():
                waiting.link.close()
        return Load(seconds, time.perf_counter() - began, time.process_time() - cpu)


class _Request:
    """One request under way."""

    def __init__(self, address: str | tuple[str, int], request: bytes) -> None:
        self.began = time.perf_counter()
        self.link = socket.socket(socket.AF_UNIX)
        try:
            self.link.connect(address)
            self.link.sendall(request)
        except OSError:
            self.link.close()
            raise
        self._data = b""

    def read(self) -> bool:
        """Take what is there; whether the answer is whole."""
        data = self.link.recv(_CHUNK)
        self._data += data
        missing = _missing(self._data)
        if missing == 0:
            if self._data[9:12] != b"200":
                raise ValueError(f"not 200 under load: {self._data[:300]!r}")
            return True
        if not data:
            raise ValueError(f"the answer ends early: {self._data[:200]!r}")
        return False


def _missing(data: bytes) -> int:
    """Bytes still to come; -1 while the head is not whole."""
    end = data.find(_HEAD_END)
    if end < 0:
        return -1
    head = data[:end].lower()
    at = head.find(_LENGTH)
    if at < 0:
        raise ValueError(f"no content-length: {head!r}")
    length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
    return end + len(_HEAD_END) + length - len(data)


def _rest(link: socket.socket, data: bytes, missing: int) -> bytes:
    parts = [data]
    while missing != 0:
        part = link.recv(_CHUNK)
        if not part:
            raise ValueError(f"the answer ends early: {data[:200]!r}")
        parts.append(part)
        if missing > 0:
            missing -= len(part)
        else:
            parts = [b"".join(parts)]
            missing = _missing(parts[0])
    return b"".join(parts)
