"""`claudemem-daemon run`: from nothing to the one daemon, and its exit code."""

from __future__ import annotations

import os
import sys
from asyncio import Runner
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

import uvloop

from claudemem_daemon.errors import AlreadyRunning, DaemonError
from claudemem_daemon.local import home_dir, socket_path, state_dir
from claudemem_daemon.server.daemon import Daemon, Started
from claudemem_daemon.server.lifecycle import (
    InstanceLock,
    private_folder,
    raise_file_limit,
    socket_folder,
    started_by,
)
from claudemem_daemon.server.listening import Listening, bind, inherited, taken
from claudemem_daemon.server.log import Log, hush
from claudemem_daemon.server.memory import Allocator
from claudemem_daemon.settings.checkout_env import forget_checkouts_home, without_checkouts_word
from claudemem_daemon.stores.connection import use_no_lookaside

SWITCH_SECONDS: Final = 0.0005
"""How long a worker may keep the interpreter while the event loop wants it; Python's own 5 ms are
thirty times what an answer takes."""


def run_daemon(environ: MutableMapping[str, str]) -> int:
    """Serve until told to stop. Returns 0 after a clean stop; 1 when it could not start; for a
    daemon that runs already 0 under a service manager, which would only try again, and 1 by hand.

    `environ` loses the variables by which a service manager hands over sockets.
    """
    os.umask(0o077)
    _fill_standard_streams()
    _forget_checkout(environ)
    by = started_by(environ)
    folder = state_dir(environ)
    log = Log(None)
    lock = InstanceLock(os.path.join(folder, "daemon.lock"))
    try:
        private_folder(folder)
        if by == "hand":
            log = Log(os.path.join(folder, "daemon.log"))
        lock.acquire()
        listening = inherited(environ) or _own(environ, lock)
    except AlreadyRunning as error:
        lock.release()
        log.line(error.message)
        return 1 if by == "hand" else 0
    except DaemonError as error:
        log.line(error.message)
        lock.release()
        return error.exit_code
    raise_file_limit()
    allocator = Allocator()
    allocator.keep_small()
    use_no_lookaside()
    hush()
    sys.setswitchinterval(SWITCH_SECONDS)
    started = Started(environ, folder, lock, listening, log, by, allocator)
    try:
        with Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Daemon(started).run())
    finally:
        lock.release()
    return 0


def _forget_checkout(environ: MutableMapping[str, str]) -> None:
    """Started inside an assistant's session, we would serve every project by what the checkout of
    that one put into the environment."""
    forget_checkouts_home(environ)
    with suppress(OSError):
        own = without_checkouts_word(dict(environ), (os.getcwd(),), home_dir(environ))
        for name in own.refused:
            del environ[name]


def _fill_standard_streams() -> None:
    """Where one of the three is closed, the next file we open would get its number, and whatever
    is printed would go into that."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _own(environ: MutableMapping[str, str], lock: InstanceLock) -> Listening:
    path = socket_path(environ)
    socket_folder(os.path.dirname(path))
    if taken(path):
        # We have the lock, so this is systemd, whose daemon starts now and needs the lock.
        lock.release()
        from claudemem_daemon.client import Client

        try:
            pid = Client(environ).get_json("/healthz")["pid"]
        except DaemonError:
            raise DaemonError(
                f"its service manager listens on {path}, and the daemon that it starts does not"
                " answer: claudemem-daemon doctor"
            ) from None
        raise AlreadyRunning(f"already running, pid {pid}, started by its service manager", pid=pid)
    return bind(path)
