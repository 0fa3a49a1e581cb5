"""Where the daemon says what happened: one line each, to its own file or to the service manager."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from typing import Final

from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.local import move_own, open_own

INACTIVE: Final = "queue_events() called when the thread is inactive"
"""What watchdog says on its own threads' race when a watch ends while it reads: nothing is lost."""

MAX_BYTES: Final = 1_000_000
"""Bytes of `daemon.log`; then it becomes `daemon.log.1`, and that is all that is kept."""


class Log:
    """Lines to standard error, and to `path` where there is one.

    A full disk or a closed terminal is no reason to stop answering: lines that cannot be written
    are lost.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path

    def line(self, message: str) -> None:
        text = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
        # None where the process was started with descriptor 2 closed.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"claudemem-daemon: {text}\n")
            sys.stderr.flush()
        if self.path is not None:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            with suppress(OSError):
                self._append(self.path, f"{stamp} [{os.getpid()}] {text}\n")

    def failure(self, doing: str, error: BaseException) -> None:
        """An error nobody foresaw: its kind and place, without a traceback, and without its words where
        they may quote a row."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = ""
        if trace is not None:
            code = trace.tb_frame.f_code
            where = f" at {os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        words = f": {error}" if isinstance(error, OSError | ClaudememError) else ""
        self.line(f"{doing} failed: {type(error).__name__}{words}{where}")

    def _append(self, path: str, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        fd = open_own(path, flags)
        try:
            if os.fstat(fd).st_size + len(text) > MAX_BYTES:
                move_own(path, path + ".1")
                os.close(fd)
                fd = open_own(path, flags)
            os.write(fd, text.encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)


def hush() -> None:
    """Keep a library's words off our standard error where they tell nobody anything."""
    logging.getLogger("watchdog.observers.inotify").addFilter(_worth_saying)


def _worth_saying(record: logging.LogRecord) -> bool:
    return INACTIVE not in record.getMessage()
