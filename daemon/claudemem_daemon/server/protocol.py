"""uvicorn's HTTP protocol with limits: what a client may send, how much, and for how long.

Everything here happens while bytes arrive, so that no request, however big or slow, is ever held
in memory beyond its cap. Refusals are answered in the contract's form, then the connection is
closed once the client has had a chance to read them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from typing import Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from claudemem_daemon import PROTOCOL, __version__
from claudemem_daemon.local import peer_uid

MAX_HEAD: Final = 32 * 1024
"""Bytes of request line and headers; the hook client sends at most 24 KB of environment."""
MAX_BODY: Final = 64 * 1024
MAX_HOOK_BODY: Final = 1024 * 1024
HOOKS: Final = b"/v1/hooks/"
PATIENCE: Final = 5.0
"""Seconds in which a request must be complete, from the connection's start or the last answer."""
MAX_CONNECTIONS: Final = 256
MAX_PIPELINED: Final = 64
LINGER: Final = 1.0
"""Seconds for which a refused client may go on sending; what it sends is thrown away."""
MAX_LINGER: Final = 4 * 1024 * 1024


IDENTITY_HEADERS: Final = (
    (b"claudemem-daemon-version", __version__.encode()),
    (b"claudemem-daemon-protocol", str(PROTOCOL).encode()),
)


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)


_OK: Final = STATUS_LINE[200] + _lines(IDENTITY_HEADERS)


def welcome(uid: int | None) -> bool:
    """Whether the user at the other end is answered: the one we run as, and root, who could read
    everything anyway."""
    return uid is None or uid in (os.geteuid(), 0)


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, config: Config, server_state: ServerState, refused: Callable[[str], None]
    ) -> None:
        super().__init__(config, server_state, app_state={})
        self._count_refusal = refused
        self._head = 0
        self._body = 0
        self._max_body = MAX_BODY
        self._empty_lines = 0
        """Bytes of them since the last request."""
        self._in_head = True
        self._in_line = True
        self._outstanding = 0
        """Requests whose answer is not complete yet."""
        self._refusal: bytes | None = None
        """What is still to be said after the answers before it."""
        self._half_closed = False
        self._refused = False
        self._thrown_away = 0
        self._delivery: tuple[Callable[[bool], None], bool] | None = None
        """Who wants to know whether the last answer has arrived, and if the client will say so."""
        self._shut_down = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        uid = peer_uid(transport.get_extra_info("socket"))
        if not welcome(uid):
            self._refuse(403, "forbidden", f"this socket serves another user than {uid}")
            return
        if len(self.connections) > MAX_CONNECTIONS and not self._make_room():
            self._refuse(503, "busy", "too many connections; try again")
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        complete = self.cycle is not None and self.cycle.response_complete
        self._delivered(exc is None and complete, acknowledged=False)
        super().connection_lost(exc)

    def when_delivered(self, told: Callable[[bool], None], *, acknowledged: bool) -> None:
        """Call `told` once, when it is known whether the answer that is about to be sent reached
        its client: by an empty line that the client sends after it, or, where it sends none
        (not `acknowledged`), by the connection having taken all of it."""
        self._delivered(True, acknowledged=False)
        if self.transport.is_closing():
            told(False)
            return
        self._delivery = told, acknowledged

    def send_whole(self, media_type: bytes, body: bytes) -> bool:
        """Send an answer of status 200 in one write, of which uvicorn makes two; False where it
        cannot be sent now, because other requests came with it or its client reads nothing."""
        if self._outstanding != 1 or self.flow.write_paused or self.transport.is_closing():
            return False
        self.cycle.response_started = self.cycle.response_complete = True
        headers = b"content-type: %s\r\ncontent-length: %d\r\n" % (media_type, len(body))
        if not self.cycle.keep_alive:
            headers += b"connection: close\r\n"
        self.transport.write(b"%s%s\r\n%s" % (_OK, headers, body))
        self.cycle.message_event.set()
        if not self.cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's closes at once
        """A client that half-closes after its request still gets its answer."""
        self._half_closed = True
        return not self._refused and not self.idle and self._in_head

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._thrown_away += len(data)
            if self._thrown_away > MAX_LINGER:
                self.transport.abort()
            return
        if self.idle and self._in_head and not self._head:
            self._delivered(True, acknowledged=data.startswith((b"\r", b"\n")))
            # Empty lines before a request say nothing else, but nobody may send them for ever.
            rest = data.lstrip(b"\r\n")
            self._empty_lines += len(data) - len(rest)
            if self._empty_lines > MAX_HEAD:
                self._refuse_head()
                return
            if not rest:
                return
            data = rest
        if self._in_head:
            self._head += len(data)
            if self._in_line:
                data = self._ascii_line(data)
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._wait_for_request()

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        size, announced = len(self.url), 0
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"content-length":
                announced = int(value)
        if size > MAX_HEAD:
            self._refuse_head()
            return
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(503, "busy", "too many requests without waiting for an answer")
            return
        self._max_body = MAX_HOOK_BODY if self.url.startswith(HOOKS) else MAX_BODY
        if announced > self._max_body:
            self._refuse_body()
            return
        self.scope["state"]["connection"] = self
        super().on_headers_complete()
        self._outstanding += 1
        self._in_head = False
        self._head = self._empty_lines = 0
        self._body = 0

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        self._body += len(body)
        if self._body > self._max_body:
            self._refuse_body()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._in_line = True
        self._head = 0
        if self._refused:
            return
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._outstanding -= 1
        super().on_response_complete()
        if self._delivery is not None and not self._delivery[1] and self.cycle.keep_alive:
            # Not before the loop has tried to write it.
            self.loop.call_soon(self.loop.call_soon, self._written)
        if self._refusal is not None:
            if self._outstanding == 0 and not self.transport.is_closing():
                self._say_refusal(self._refusal)
            return
        if self.idle and self._half_closed:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        self._refuse(400, "bad_request", "this is not an HTTP/1.1 request")

    def shutdown(self) -> None:
        self._stop_waiting()
        if self._delivery is not None and self.idle:
            self._shut_down = True
            return
        super().shutdown()

    def _written(self) -> None:
        if not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self._delivered(True, acknowledged=False)

    @property
    def idle(self) -> bool:
        """Nothing was asked that is not answered yet."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def due(self) -> float:
        """When the loop's clock ends our patience; 0 for a connection kept alive after an answer."""
        return self._timer.when() if self._timer is not None else 0.0

    def _delivered(self, arrived: bool, *, acknowledged: bool) -> None:
        if self._delivery is not None:
            told, wanted = self._delivery
            self._delivery = None
            told(arrived and (acknowledged or not wanted))
            if self._shut_down:
                self.transport.close()

    def _make_room(self) -> bool:
        """Close the connection that has been silent longest; False when all are at work."""
        silent = [
            other
            for other in self.connections
            if isinstance(other, BoundedProtocol) and other is not self and other.idle
        ]
        if not silent:
            return False
        min(silent, key=lambda other: other.due).transport.abort()
        return True

    def _wait_for_request(self) -> None:
        self._timer = self.loop.call_later(PATIENCE, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self._refused:
            self.transport.abort()
        elif self._head or not self._in_head:
            self._refuse(408, "timeout", f"the request was not complete after {PATIENCE:g} s")
        else:
            self.transport.close()

    def _ascii_line(self, data: bytes) -> bytes:
        """The chunk with the bytes of its request line percent-encoded that no URL may hold; curl
        sends what was typed, and paths are typed in any language."""
        line, newline, rest = data.partition(b"\n")
        self._in_line = not newline
        if not line.isascii():
            line = b"".join(b"%c" % byte if byte < 0x80 else b"%%%02X" % byte for byte in line)
        return line + newline + rest

    def _refuse_head(self) -> None:
        self._refuse(431, "too_large", f"request line and headers are over {MAX_HEAD} bytes")

    def _refuse_body(self) -> None:
        self._refuse(413, "too_large", f"the body is over {self._max_body} bytes")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer this and no other, after what was asked before; read on only to throw away."""
        if self._refused:
            return
        self._refused = True
        self._stop_waiting()
        self._unset_keepalive_if_required()
        if not self._in_head and self.cycle.response_complete:
            # Answered before its body was here, as a wrong path is.
            self.transport.close()
            return
        if not self._in_head:
            self._forget_unfinished()
        body = json.dumps({"error": {"code": code, "message": message}}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        self._count_refusal(code)
        self._refusal = STATUS_LINE[status] + _lines(headers) + b"\r\n" + body
        if self._outstanding == 0:
            self._say_refusal(self._refusal)

    def _forget_unfinished(self) -> None:
        """The request whose body is being refused: whoever works on it learns that nobody waits."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self._outstanding -= 1

    def _say_refusal(self, refusal: bytes) -> None:
        self.flow.resume_reading()
        self._unset_keepalive_if_required()
        self.transport.write(refusal)
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER, self._too_slow)
