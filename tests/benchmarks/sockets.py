"""Processes that answer without HTTP: what the kernel and our own client cost, with or without a look
at files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Final

_ECHO: Final = """
import socket, sys
answer = sys.stdin.buffer.read()
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(128)
print("ready", flush=True)
while True:
    link, _ = server.accept()
    link.recv(65536)
    link.sendall(answer)
    link.close()
"""


_CHECK: Final = """
import os, queue, socket, sqlite3, sys, threading
answer = sys.stdin.buffer.read()
store, *paths = sys.argv[2:]
db = sqlite3.connect(f"file:{store}?mode=ro", uri=True, check_same_thread=False)
asked, checked = queue.SimpleQueue(), queue.SimpleQueue()
def check():
    while True:
        asked.get()
        db.execute("PRAGMA data_version").fetchall()
        for path in paths:
            try:
                os.lstat(path)
            except OSError:
                pass
        checked.put(True)
threading.Thread(target=check, daemon=True).start()
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(128)
print("ready", flush=True)
while True:
    link, _ = server.accept()
    link.recv(65536)
    asked.put(True)
    checked.get()
    link.sendall(answer)
    link.close()
"""


class BareSocket:
    """A process that sends the same bytes to whoever connects: what the kernel and our own client
    cost, without HTTP. With `checks`, a store and other paths, a thread of it first asks SQLite
    whether the store has changed, and stats each path."""

    def __init__(self, path: str, body: bytes, checks: Sequence[str] = ()) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode("ascii")
        code = _CHECK if checks else _ECHO
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, path, *checks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(head + body)
        self._process.stdin.close()
        self._process.stdout.readline()

    def __enter__(self) -> BareSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(10)
        self._process.stdout.close()
