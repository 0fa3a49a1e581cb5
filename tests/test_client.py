"""The client beside more clients than the daemon has accepted."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from claudemem_daemon.client import Client, Unreachable, connected
from tests.support.daemon import clean_environ

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS refuses at once")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[socket.socket]:
    """A listening socket whose queue has no room left."""
    with ExitStack() as stack:
        listening = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        path = str(tmp_path / "s")
        listening.bind(path)
        listening.listen(0)
        room = True
        while room:
            waiting = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            waiting.setblocking(False)
            room = waiting.connect_ex(path) == 0
        yield listening


def test_a_full_queue_is_waited_for(full: socket.socket) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(connected, full.getsockname(), 30)
        full.accept()[0].close()
        asked.result().close()


def test_a_queue_that_stays_full_is_a_daemon_that_does_not_answer(full: socket.socket) -> None:
    path = full.getsockname()
    with pytest.raises(TimeoutError):
        connected(path, 0.05)
    with pytest.raises(Unreachable, match=r"does not answer on .* within 2 s") as told:
        Client(clean_environ("/", CLAUDEMEM_DAEMON_SOCKET=path)).get("/healthz")
    assert told.value.trouble == "not answering"
