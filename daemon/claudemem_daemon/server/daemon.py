"""The running daemon: what is started in which order, what signals do, how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import claudemem_daemon
from claudemem_daemon import PROTOCOL, __version__
from claudemem_daemon.api import build_pipeline
from claudemem_daemon.errors import AlreadyRunning, DaemonError
from claudemem_daemon.server.answers import Answers
from claudemem_daemon.server.app import Parts
from claudemem_daemon.server.guard import Guard
from claudemem_daemon.server.hooks.session_file import SessionFile
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.lifecycle import (
    InstanceLock,
    StartedBy,
    private_folder,
    socket_folder,
)
from claudemem_daemon.server.listening import Listening, bind, taken
from claudemem_daemon.server.log import Log
from claudemem_daemon.server.memory import Allocator, resident_kb
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.notify import Notifier, restart_socket_unit
from claudemem_daemon.server.routes import make_app
from claudemem_daemon.server.serving import Serving
from claudemem_daemon.server.workers import Workers
from claudemem_daemon.settings.watcher import SettingsWatcher

HEAL_AFTER: Final = 0.05
HEAL_AGAIN: Final = 1.0
"""Seconds until the next try, when the socket could not be put back."""


class Started(NamedTuple):
    """What the daemon starts with: the lock is held, and the socket open."""

    environ: Mapping[str, str]
    folder: str
    lock: InstanceLock
    listening: Listening
    log: Log
    by: StartedBy
    allocator: Allocator


class Daemon:
    """Serves from `run` until a signal."""

    def __init__(self, started: Started) -> None:
        self._started = started
        self._listening = started.listening
        """The socket now; another one after ours was gone."""
        self._log = log = started.log
        self._started_at = time.time()
        self._healed = 0
        self._said: str | None = None
        """The last complaint about healing; it is tried every second and said once."""
        self._guard: Guard | None = None
        self._healing: asyncio.Future[None] | None = None
        self._notifier = Notifier(started.environ)
        self._stop = asyncio.Event()
        self._metrics = Metrics()
        self._workers = Workers(started.allocator.give_back)
        self._pipeline = build_pipeline(started.environ)
        self._answers = Answers(self._pipeline, self._workers)
        self._watcher = SettingsWatcher(self._pipeline.configuration)
        sessions = Sessions()
        self._session_file = SessionFile(started.folder, sessions, self._workers.submit, log.line)
        parts = Parts(
            self._pipeline,
            self._workers,
            self._answers,
            self._metrics,
            sessions,
            log,
            self.state,
        )
        self._serving = Serving(make_app(parts), self._metrics.failed)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unforeseen)
        # The folder above as well: that ours was moved away, only its parent tells.
        above = os.path.dirname(self._started.folder)
        guard = Guard(
            loop,
            self._heal_soon,
            (self._started.folder, above, os.path.dirname(self._listening.path)),
        )
        self._guard = guard
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_reload)
        await self._serving.listen(self._listening)
        self._watcher.start()
        guard.start()
        self._started.allocator.settle()
        self._notifier.ready(f"Answering on {self._listening.path}")
        self._log.line(f"{__version__} answers on {self._listening.path}")
        try:
            await self._stop.wait()
        finally:
            self._notifier.stopping()
            if self._healing is not None:
                # Or what it finds missing by now, it would put back.
                await asyncio.wait((self._healing,), timeout=HEAL_AGAIN)
            # The file goes first: who connects from now on finds nobody, not a closing door.
            self._listening.unlink()
            await self._serving.drain()
            self._session_file.flush()
            guard.stop()
            self._watcher.stop()
            self._pipeline.close()

    def state(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Everything the server knows of itself, as plain JSON values; times in seconds since 1970.
        In a worker: it looks at paths."""
        pipeline, started, now = self._pipeline, self._started, time.time()
        configuration = pipeline.configuration.state()
        rejected = configuration.rejected
        return {
            "version": __version__,
            # Of the package on disk: another one after an upgrade without a restart.
            "installed_version": installed_version(),
            "protocol": PROTOCOL,
            "process": {
                "pid": os.getpid(),
                "started_at": self._started_at,
                "uptime_seconds": round(now - self._started_at, 1),
                "started_by": started.by,
                "python": sys.version.split()[0],
                "executable": sys.executable,
                "resident_kb": resident_kb(),
                "log": self._log.path,
                "state_dir": started.folder,
            },
            "socket": {**self._listening.state(), "healed": self._healed},
            "configuration": {
                **configuration._asdict(),
                "rejected": rejected and rejected._asdict(),
                "data_dir_source": configuration.data_dir_source._asdict(),
                "warnings": [warning._asdict() for warning in configuration.warnings],
            },
            "watcher": self._watcher.describe()._asdict(),
            "stores": [store._asdict() for store in pipeline.pool.describe()],
            "repositories": [
                {
                    "name": repository.name,
                    "kind": repository.kind,
                    "common_dir": repository.common_dir,
                    "worktrees": [
                        {"path": checkout.path, "branch": checkout.branch, "state": checkout.state}
                        for checkout in repository.checkouts
                    ],
                }
                for repository in pipeline.repositories.known()
            ],
            "requests": {
                **requests,
                "connections": self._serving.connections,
                "kept_answers": len(pipeline.memo),
                "stuck_workers": self._answers.stuck,
            },
        }

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            # Asked twice: whoever it is does not want to wait for answers.
            self._listening.unlink()
            os._exit(1)
        self._log.line("asked to stop by a signal")
        self._stop.set()

    def _asked_to_reload(self) -> None:
        self._notifier.reloading()
        self._heal()
        done = self._workers.submit(self._pipeline.reload)

        def reloaded(future: asyncio.Future[Any]) -> None:
            if future.exception() is not None:
                self._log.failure("reload", future.exception() or Exception())
            else:
                self._log.line(f"settings read again, revision {future.result().revision}")
            self._notifier.ready(f"Answering on {self._listening.path}")

        done.add_done_callback(reloaded)

    def _heal_soon(self) -> None:
        """systemd unlinks our socket and binds its own in its place: not in between."""
        asyncio.get_running_loop().call_later(HEAL_AFTER, self._heal)

    def _heal(self) -> None:
        """Put the lock file, the socket and their folders back where they are missing."""
        if self._healing is None or self._healing.done():
            self._healing = asyncio.ensure_future(self._put_back())

    async def _put_back(self) -> None:
        if self._stop.is_set():
            return
        again = asyncio.get_running_loop().call_later
        try:
            listening = await self._workers.submit(self._in_place_again)
        except AlreadyRunning as error:
            self._log.line(f"another daemon took the place while ours was gone ({error.message})")
            self._stop.set()
        except DaemonError as error:
            if self._said != error.message:
                self._log.line(error.message)
                self._said = error.message
            again(HEAL_AGAIN, self._heal)
        else:
            if listening is None:
                return
            self._said = None
            if listening is not self._listening:
                await self._listen_on(listening)
            if self._guard is not None:
                await self._workers.submit(self._guard.arm)
            # Something may have gone again before the folder was watched.
            again(HEAL_AGAIN, self._heal)

    def _in_place_again(self) -> Listening | None:
        """In a worker: the socket to listen on, a new one where ours was gone; None where nothing
        was missing."""
        lock, listening = self._started.lock.in_place(), self._listening.in_place()
        if lock and listening:
            return None
        if not lock:
            private_folder(self._started.folder)
            self._started.lock.acquire()
        if listening:
            return self._listening
        path = self._listening.path
        if taken(path):
            raise AlreadyRunning("its service manager listens there", pid=None)
        socket_folder(os.path.dirname(path))
        return bind(path)

    async def _listen_on(self, listening: Listening) -> None:
        if self._listening.inherited:
            # Until it has done so, and where that fails, we answer on a socket of our own.
            self._workers.submit(restart_socket_unit)
        self._listening = listening
        self._healed += 1
        self._log.line(f"{listening.path} was gone and is there again")
        await self._serving.listen(listening)

    def _unforeseen(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, (ConnectionError, BrokenPipeError)):
            return
        self._log.failure(str(context.get("message", "the event loop")), error or Exception())


def installed_version() -> str:
    """Of the package on disk, read and not imported: an upgrade replaces the files under us.
    Empty where they are gone."""
    try:
        with open(claudemem_daemon.__file__, encoding="utf-8") as file:
            found = re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1) if found is not None else ""
