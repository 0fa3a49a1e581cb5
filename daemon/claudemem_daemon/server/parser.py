"""Bytes to requests, with limits that are checked while bytes arrive: no request, however big, is
ever in memory beyond its cap."""

from __future__ import annotations

from collections import deque
from typing import Final
from urllib.parse import unquote

import httptools

from claudemem_daemon.server.app import HOOKS
from claudemem_daemon.server.messages import Request

MAX_HEAD: Final = 32 * 1024
"""Bytes of request line and headers; the hook client sends at most 24 KB of environment."""
MAX_BODY: Final = 64 * 1024
MAX_HOOK_BODY: Final = 1024 * 1024
MAX_PIPELINED: Final = 64


class RefusedError(Exception):
    """What came is no request, or too much."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class RequestParser:
    """Appends to `requests` what has come whole."""

    def __init__(self, requests: deque[Request]) -> None:
        self._requests = requests
        self._parser = httptools.HttpRequestParser(self)
        self._refused: RefusedError | None = None
        self.path: str | None = None
        """Of the request whose body is arriving; None before its headers are complete."""
        self.waits = False
        """Whether its client sends no body before it is told to."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._max_body = MAX_BODY
        self._in_line = True
        self._head = 0
        """Bytes of the head that is arriving."""
        self._empty_lines = 0
        """Bytes of them since the last request."""

    @property
    def unfinished(self) -> bool:
        """Whether the beginning of a request has come, and not all of it."""
        return self._head > 0 or self.path is not None

    def close(self) -> None:
        """Nothing more comes."""
        # It refers to us as we to it.
        del self._parser

    def feed(self, data: bytes) -> None:
        """Raises `RefusedError`; nothing may be fed after that."""
        if not self.unfinished:
            # Empty lines before a request say nothing, but nobody may send them for ever.
            rest = data.lstrip(b"\r\n")
            self._empty_lines += len(data) - len(rest)
            data = rest
        if self.path is None:
            self._head += len(data)
            if self._in_line:
                data = self._ascii_line(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # Offered and not taken: the request has its answer in HTTP/1.1.
        except httptools.HttpParserError:
            raise self._refused or RefusedError(
                400, "bad_request", "this is no HTTP/1.1 request"
            ) from None
        if self._empty_lines > MAX_HEAD or (self.path is None and self._head > MAX_HEAD):
            raise _head_too_large()

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", [], bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        size = len(self._url) + sum(len(name) + len(value) for name, value in self._headers)
        if size > MAX_HEAD:
            self._refuse(_head_too_large())
        if len(self._requests) >= MAX_PIPELINED:
            message = "too many requests without waiting for an answer"
            self._refuse(RefusedError(503, "busy", message))
        self._head = self._empty_lines = 0
        self._in_line = True
        self.path = unquote(httptools.parse_url(self._url).path.decode("ascii"))
        self._max_body = MAX_HOOK_BODY if self.path.startswith(HOOKS) else MAX_BODY
        named = dict(self._headers)
        self.waits = named.get(b"expect", b"").lower() == b"100-continue"
        self._limit_body(int(named.get(b"content-length", b"0")))

    def on_body(self, body: bytes) -> None:
        self._limit_body(len(self._body) + len(body))
        self._body += body

    def on_message_complete(self) -> None:
        parser, path = self._parser, self.path or ""
        self.path, self.waits = None, False
        self._requests.append(
            Request(
                parser.get_method().decode("ascii"),
                path,
                httptools.parse_url(self._url).query or b"",
                self._headers,
                bytes(self._body),
                keep_alive=parser.get_http_version() != "1.0"
                and parser.should_keep_alive()
                and not parser.should_upgrade(),
            )
        )

    def _limit_body(self, size: int) -> None:
        if size > self._max_body:
            message = f"the body is over {self._max_body} bytes"
            self._refuse(RefusedError(413, "too_large", message))

    def _refuse(self, refused: RefusedError) -> None:
        """Out of one of the parser's calls, which ends its work with an error of its own."""
        self._refused = refused
        raise refused

    def _ascii_line(self, data: bytes) -> bytes:
        """The chunk with the bytes of its request line percent-encoded that no URL may hold; curl
        sends what was typed, and paths are typed in any language."""
        line, newline, rest = data.partition(b"\n")
        self._in_line = not newline
        if not line.isascii():
            line = b"".join(b"%c" % byte if byte < 0x80 else b"%%%02X" % byte for byte in line)
        return line + newline + rest


def _head_too_large() -> RefusedError:
    message = f"request line and headers are over {MAX_HEAD} bytes"
    return RefusedError(431, "too_large", message)
