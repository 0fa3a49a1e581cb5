"""Poolers before a PostgreSQL server: PgBouncer where there is one, and one of ours that keeps
nothing from one transaction to the next."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import BinaryIO, Final

from tests.support.daemon import eventually
from tests.support.postgres import UNPRIVILEGED, Cluster

_LENGTH: Final = struct.Struct("!I")
_ENDS_OF_TURN: Final = b"SQX"
"""Sync, a simple query, and good-bye."""


def pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


@contextmanager
def running_pgbouncer(cluster: Cluster, database: str, mode: str) -> Iterator[str]:
    """Its URL."""
    program = pgbouncer()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="cm-pool-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        configuration = os.path.join(folder, "pgbouncer.ini")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(
                f"[databases]\n{database} = host={cluster.socket_folder} port={cluster.port}"
                f" user=postgres\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\n"
                f"listen_port = 6432\nauth_type = any\npool_mode = {mode}\nserver_round_robin = 1\n"
            )
        user = UNPRIVILEGED if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user, -1)
        process = subprocess.Popen(
            [program, "-q", configuration], user=user, stderr=subprocess.DEVNULL
        )
        try:
            eventually(
                lambda: os.path.exists(os.path.join(folder, ".s.PGSQL.6432")), "PgBouncer listens"
            )
            yield f"postgresql://postgres@/{database}?host={folder}&port=6432"
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def switching_pooler(cluster: Cluster, database: str) -> Iterator[str]:
    """Its URL. Each client has three sessions, which take turns at its transactions."""
    server = os.path.join(cluster.socket_folder, f".s.PGSQL.{cluster.port}")
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=_serve, args=(client, server), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        port = listener.getsockname()[1]
        yield f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"
        listener.shutdown(socket.SHUT_RDWR)


def _serve(client: socket.socket, server: str) -> None:
    with ExitStack() as stack, suppress(OSError, EOFError):
        asks = stack.enter_context(client).makefile("rb")
        startup = _message(asks, of_startup=True)
        sessions: deque[tuple[socket.socket, BinaryIO]] = deque()
        for _ in range(3):
            session = stack.enter_context(socket.socket(socket.AF_UNIX))
            session.connect(server)
            session.sendall(startup)
            sessions.append((session, session.makefile("rb")))
        greetings = [_turn(answers, b"Z") for _, answers in sessions]
        # The process that it tells is none of the three, as those of poolers are.
        client.sendall(b"".join(_renumbered(message) for message in greetings[0]))
        while True:
            session, answers = sessions[0]
            asked = _turn(asks, _ENDS_OF_TURN)
            session.sendall(b"".join(asked))
            told = _turn(answers, b"Z")
            client.sendall(b"".join(told))
            if told[-1].endswith(b"I"):  # no transaction is open
                sessions.rotate()


def _turn(source: BinaryIO, last: bytes) -> list[bytes]:
    """Messages up to one of the kinds `last`."""
    messages = [_message(source)]
    while messages[-1][:1] not in last:
        messages.append(_message(source))
    return messages


def _message(source: BinaryIO, *, of_startup: bool = False) -> bytes:
    """One message. Raises `EOFError`."""
    head = source.read(4 if of_startup else 5)
    if not head:
        raise EOFError
    (length,) = _LENGTH.unpack(head[-4:])
    return head + source.read(length - 4)


def _renumbered(message: bytes) -> bytes:
    """With another process in a message that tells one."""
    return message[:5] + b"\x01\x02\x03\x04" + message[9:] if message[:1] == b"K" else message
