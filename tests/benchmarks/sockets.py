"""A process that answers without HTTP: what the kernel and our own client cost, with or without a look
at files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_SERVER: Final = """
import os, queue, socket, sqlite3, sys, threading
answer = sys.stdin.buffer.read()
store, *paths = sys.argv[2:] or [None]
asked, checked = queue.SimpleQueue(), queue.SimpleQueue()
def check():
    db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    while True:
        asked.get()
        db.execute("PRAGMA data_version").fetchall()
        for path in paths:
            try:
                os.lstat(path)
            except OSError:
                pass
        checked.put(True)
if store is not None:
    threading.Thread(target=check, daemon=True).start()
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(128)
print("ready", flush=True)
while True:
    link, _ = server.accept()
    link.recv(65536)
    if store is not None:
        asked.put(True)
        checked.get()
    link.sendall(answer)
    link.close()
"""


@contextmanager
def bare_socket(path: str, body: bytes, checks: Sequence[str] = ()) -> Iterator[None]:
    """A process that sends the same bytes to whoever connects to `path`. With `checks`, a store and
    other paths, a thread of it first asks SQLite whether the store has changed, and stats each
    path."""
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode("ascii")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _SERVER, path, *checks],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(head + body)
        process.stdin.close()
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
