"""A request and its answer, as the connection and the routes hand them to each other."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from claudemem_daemon import PROTOCOL, __version__
from claudemem_daemon.shapes import as_json, error_shape

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_IDENTITY: Final = (
    f"claudemem-daemon-version: {__version__}\r\nclaudemem-daemon-protocol: {PROTOCOL}\r\n"
)


class Request(NamedTuple):
    """A request that has come whole. Header names are in lower case; `path` is decoded, `query` is
    not. `keep_alive` is whether its connection stays open after the answer."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    keep_alive: bool = True


class Response(NamedTuple):
    """`delivered` is called once, when it is known whether the answer reached its client: by an
    empty line that the client sends after it (`acknowledged`), or else by the connection having
    taken all of it. `allow` lists the route's methods where another one was used."""

    body: bytes
    media_type: str = JSON
    status: int = 200
    allow: str = ""
    delivered: Callable[[bool], None] | None = None
    acknowledged: bool = False

    def head(self, *, close: bool) -> bytes:
        """Status line and headers, with the empty line after them."""
        lines = f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{_IDENTITY}"
        if self.status != HTTPStatus.NO_CONTENT:
            lines += f"content-type: {self.media_type}\r\ncontent-length: {len(self.body)}\r\n"
        if self.allow:
            lines += f"allow: {self.allow}\r\n"
        if close:
            lines += "connection: close\r\n"
        return f"{lines}\r\n".encode("ascii")


def refusal(status: int, code: str, message: str, allow: str = "") -> Response:
    """An error in the contract's form."""
    return Response(as_json(error_shape(code, message)), JSON, status, allow)
