"""Listeners and connections on the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from claudemem_daemon.server.app import Application
from claudemem_daemon.server.listening import BACKLOG, Listening
from claudemem_daemon.server.protocol import Connection

DRAIN: Final = 2.0
"""Seconds for which a stop waits for answers that are being made."""


class Serving:
    """Accepts connections, whose requests the application answers."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._connections: set[Connection] = set()
        self._server: asyncio.AbstractServer | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def listen(self, listening: Listening) -> None:
        """Serve this socket from now on, and no longer the one before; connections stay."""
        loop: Any = asyncio.get_running_loop()
        previous = self._server
        options = {"sock": listening.sock, "backlog": BACKLOG}
        try:
            # Who unlinks the file is our decision: it may be systemd's, or a successor's.
            self._server = await loop.create_unix_server(
                self._connection, cleanup_socket=False, **options
            )
        except TypeError:  # a uvloop that never unlinks does not know the word
            self._server = await loop.create_unix_server(self._connection, **options)
        if previous is not None:
            previous.close()

    async def drain(self) -> None:
        """Accept nothing new, let answers that are being made go out, then end the rest."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.shutdown()
        if connections:
            await asyncio.wait([each.closed for each in connections], timeout=DRAIN)
        for connection in list(self._connections):
            connection.transport.abort()

    def _connection(self) -> Connection:
        return Connection(self._app, self._connections)
