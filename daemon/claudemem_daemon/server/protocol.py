"""One connection: its requests are answered one at a time, in the order in which they came.

After a refusal it is closed once the client has had a chance to read it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Any, Final

from claudemem_daemon.local import peer_uid
from claudemem_daemon.server.app import Application
from claudemem_daemon.server.messages import Request, Response
from claudemem_daemon.server.parser import RefusedError, RequestParser

PATIENCE: Final = 5.0
"""Seconds in which a request must be complete, and for which a connection may be without one."""
MAX_CONNECTIONS: Final = 256
LINGER: Final = 1.0
"""Seconds for which a refused client may go on sending; what it sends is thrown away."""
MAX_LINGER: Final = 4 * 1024 * 1024


def welcome(uid: int | None) -> bool:
    """Whether the user at the other end is answered: the one we run as, and root, who could read
    everything anyway."""
    return uid is None or uid in (os.geteuid(), 0)


class Connection(asyncio.Protocol):
    """Adds itself to `connections` for as long as it is open."""

    transport: asyncio.Transport

    def __init__(self, app: Application, connections: set[Connection]) -> None:
        self._app = app
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._requests: deque[Request] = deque()
        """Whose turn has not come."""
        self._parser = RequestParser(self._requests)
        self._task: asyncio.Task[None] | None = None
        """At the request that is being answered."""
        self._full = False
        """Whether the client has to read before it is answered again."""
        self._sent: Response | None = None
        """The last answer, while it is not known whether it has arrived."""
        self._refusal: Response | None = None
        """What is said after the answers before it; no request counts any more."""
        self._refused = False
        """Whether that has been said."""
        self._thrown_away = 0
        self._half_closed = False
        self._ending = False
        """Whether the connection is closed when all is answered."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Nothing was asked that is not answered yet."""
        return self._task is None and not self._requests

    @property
    def due(self) -> float:
        """When the loop's clock ends our patience."""
        return self._timer.when() if self._timer is not None else 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._connections.add(self)
        uid = peer_uid(transport.get_extra_info("socket"))
        if not welcome(uid):
            self._refuse(403, "forbidden", f"this socket serves another user than {uid}")
        elif len(self._connections) > MAX_CONNECTIONS and not self._make_room():
            self._refuse(503, "busy", "too many connections; try again")
        else:
            self._wait(PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._connections.discard(self)
        self.closed.set_result(None)
        if self._parser.path is not None and self._refusal is None:
            self._app.left(self._parser.path)
        self._parser.close()
        self._requests.clear()
        self._settle(exc is None, acknowledged=False)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._go_on()

    def eof_received(self) -> bool:
        """A client that half-closes after its request still gets its answer."""
        self._half_closed = self._ending = True
        return self._refusal is None and not self.idle and self._parser.path is None

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            self._thrown_away += len(data)
            if self._thrown_away > MAX_LINGER:
                self.transport.abort()
            return
        unfinished, waiting = self._parser.unfinished, len(self._requests)
        if self.idle and not unfinished:
            self._settle(True, acknowledged=data.startswith((b"\r", b"\n")))
        try:
            self._parser.feed(data)
        except RefusedError as refused:
            self._refuse(refused.status, refused.code, refused.message)
            return
        if self._parser.waits and self.idle:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        began = self._parser.unfinished and not unfinished
        if began or len(self._requests) > waiting:
            self._stop_waiting()
        self._go_on()

    def shutdown(self) -> None:
        """Close the connection after what has been asked."""
        self._ending = True
        if self.idle and self._parser.path is None and self._sent is None:
            self.transport.close()

    def _go_on(self) -> None:
        """Begin with the next request where its turn has come; read on where none waits."""
        if self.transport.is_closing():
            return
        if self._requests and self._task is None and not self._full:
            self._task = self._loop.create_task(self._answer(self._requests.popleft()))
        if self._requests:
            self.transport.pause_reading()
            self._stop_waiting()
            return
        self.transport.resume_reading()
        if self._refusal is not None:
            if self.idle and not self._refused:
                self._refused = True
                self._write(self._refusal, close=True)
                self.transport.write_eof()
                self._wait(LINGER)
        elif self._timer is None and (self.idle or self._parser.unfinished):
            self._wait(PATIENCE)

    async def _answer(self, request: Request) -> None:
        response = await self._app.answer(request)
        self._settle(True, acknowledged=False)
        self._task = None
        if self.transport.is_closing():
            if response.delivered is not None:
                response.delivered(False)
            return
        last = self._ending and not self._requests and self._refusal is None
        close = last or not request.keep_alive
        self._write(response, close=close, body=request.method != "HEAD")
        if response.delivered is not None:
            self._sent = response
            if response.acknowledged and request.keep_alive and not self._half_closed:
                close = False
            elif not close:
                # Not before the loop has tried to write it.
                self._loop.call_soon(self._loop.call_soon, self._written)
        if close:
            self.transport.close()
        else:
            self._go_on()

    def _write(self, response: Response, *, close: bool, body: bool = True) -> None:
        self.transport.writelines((response.head(close=close), response.body if body else b""))

    def _written(self) -> None:
        if not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self._settle(True, acknowledged=False)

    def _settle(self, arrived: bool, *, acknowledged: bool) -> None:
        """Tell what became of the last answer."""
        sent, self._sent = self._sent, None
        if sent is None or sent.delivered is None:
            return
        sent.delivered(arrived and (acknowledged or not sent.acknowledged))
        if self._ending and self.idle:
            self.transport.close()

    def _make_room(self) -> bool:
        """Close the connection that has been silent longest; False when all are at work."""
        silent = [other for other in self._connections if other is not self and other.idle]
        if not silent:
            return False
        min(silent, key=lambda other: other.due).transport.abort()
        return True

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self._refusal is not None:
            self.transport.abort()
        elif self._parser.unfinished:
            self._refuse(408, "timeout", f"the request was not complete after {PATIENCE:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer this and no other, after what was asked before; read on only to throw away."""
        self._stop_waiting()
        if self._parser.path is not None:
            self._app.left(self._parser.path)
        self._refusal = self._app.refuse(status, code, message)
        self._go_on()
