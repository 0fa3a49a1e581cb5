"""Telling systemd how we are, by its own small datagram protocol (sd_notify(3))."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """Sends to `NOTIFY_SOCKET`; does nothing where there is none. Never blocks, never raises: a
    service manager that does not listen is no reason to stop answering."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self, status: str) -> None:
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        # The time lets systemd tell this reload's READY=1 from an earlier one's.
        usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={usec}")

    def stopping(self) -> None:
        self._send("STOPPING=1", "STATUS=Finishing what was asked")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(os.fsencode("\n".join(lines)), self._address)


def restart_socket_unit() -> None:
    """Have systemd bind its socket anew: nobody else can give it the file back. It ends us for that
    and starts us with the next question."""
    program = shutil.which("systemctl")
    if program is not None:
        subprocess.run(
            [program, "--user", "--no-block", "try-restart", "claudemem-daemon.socket"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
