"""Listeners and connections on the event loop; uvicorn's protocol without uvicorn's main loop.

uvicorn's own server wakes ten times a second to look whether it should stop and to renew the Date
header. A daemon that costs nothing when idle waits for events instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from claudemem_daemon.server.listening import BACKLOG, Listening
from claudemem_daemon.server.protocol import IDENTITY_HEADERS, BoundedProtocol

DRAIN: Final = 2.0
"""Seconds for which a stop waits for answers that are being made."""


class Serving:
    """Accepts connections and feeds an ASGI application."""

    def __init__(self, app: Any, refused: Callable[[str], None]) -> None:
        # What uvicorn would say of a broken request, the client is told; nobody reads it twice.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._config = Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            workers=1,
        )
        self._config.load()
        self._state = ServerState()
        self._state.default_headers = list(IDENTITY_HEADERS)
        self._refused = refused
        self._server: asyncio.AbstractServer | None = None

    @property
    def connections(self) -> int:
        return len(self._state.connections)

    async def listen(self, listening: Listening) -> None:
        """Serve this socket from now on, and no longer the one before; connections stay."""
        loop: Any = asyncio.get_running_loop()
        previous = self._server
        # Who unlinks the file is our decision: it may be systemd's, or a successor's.
        self._server = await loop.create_unix_server(
            self._connection, sock=listening.sock, backlog=BACKLOG, cleanup_socket=False
        )
        if previous is not None:
            previous.close()

    async def drain(self) -> None:
        """Accept nothing new, let answers that are being made go out, then end the rest."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                while self._state.connections or self._state.tasks:
                    await asyncio.sleep(0.01)  # uvicorn tells nobody when the last one is gone
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _connection(self) -> BoundedProtocol:
        return BoundedProtocol(self._config, self._state, self._refused)
