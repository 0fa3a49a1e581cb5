"""`run`, `start`, `logs`, `reload`, `stop`: the daemon's life by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import NUMBER, Serve, colours, path_text, plain, waiting
from claudemem_daemon.client import Client, Unreachable, is_daemon, lock_holder
from claudemem_daemon.errors import DaemonError
from claudemem_daemon.hookfiles.commands import launcher
from claudemem_daemon.local import open_own
from claudemem_daemon.service.manage import log_file
from claudemem_daemon.service.units import SERVICE

START_SECONDS = 15.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.02
"""Between two questions to another process, which tells nobody that it is ready or gone."""


@click.command("run")
@click.pass_obj
def run_command(serve: Serve) -> int:
    """Run the daemon in the foreground, until SIGTERM or Ctrl-C.

    One daemon per user: a second one says "already running" and exits 1 (0 under a service manager).
    SIGHUP reads the settings again.
    """
    return serve(os.environ)


@click.command("start")
def start_command() -> None:
    """Start the daemon in the background, and wait until it answers.

    For machines without a service manager; elsewhere `service install` is better. Where a daemon
    runs already, it says so.
    """
    client = Client(os.environ)
    with suppress(Unreachable):
        screen.say(f"already running, pid {client.get_json('/healthz')['pid']}", "green")
        return
    with subprocess.Popen(
        [launcher(os.environ, sys.argv[0]), "run"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    ) as process:
        with waiting("starting"):
            pid = _answering(client, process)
        screen.say(f"started, pid {pid}", "green")
        # Not waited for: it goes on without us.
        process.returncode = 0


def _answering(client: Client, process: subprocess.Popen[bytes]) -> int:
    """The pid of the daemon that answers, once one does."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return int(client.get_json("/healthz")["pid"])
        except Unreachable as error:
            if process.poll() is not None and lock_holder(os.environ) is None:
                said = process.stderr.read().decode("utf-8", "replace") if process.stderr else ""
                last = (said.splitlines() or ["it ended without a word"])[-1]
                message = plain(last.removeprefix("claudemem-daemon: "), 400)
                raise DaemonError(message) from None
            if time.monotonic() > end:
                process.kill()
                raise error from None
        time.sleep(POLL_SECONDS)  # another process decides; there is no event to wait for


@click.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "-n",
    "--lines",
    type=NUMBER,
    metavar="NUMBER",
    default=100,
    show_default=True,
    help="How many of the last lines.",
)
def logs_command(follow: bool, lines: int) -> int:
    """Show the daemon's log: the file in the state folder, or the journal of its service."""
    path = log_file(os.environ)
    if path is None:
        unit = ["journalctl", "--user", "--no-pager", "-u", SERVICE, "-n", str(lines)]
        return _passed_on([*unit, "-f"] if follow else unit)
    try:
        os.close(open_own(path, os.O_RDONLY))
    except OSError as error:
        words = f"{path_text(path)}: {error.strerror}; a daemon writes it: claudemem-daemon start"
        raise DaemonError(words) from None
    return _passed_on(["tail", "-n", str(lines), *(["-F"] if follow else []), path], coloured=True)


def _passed_on(command: list[str], *, coloured: bool = False) -> int:
    """Run a program that prints the log, which is `coloured` in a terminal; journalctl does so
    itself."""
    piped = subprocess.PIPE if coloured and colours() else None
    try:
        with subprocess.Popen(command, stdout=piped, text=True, errors="replace") as process:
            for line in process.stdout or ():
                when, _, message = line.rstrip("\n").partition(" ")
                screen.headed(when, plain(message, 4000), "dim")
        return process.returncode
    except OSError as error:
        raise DaemonError(f"{command[0]} cannot be run: {error.strerror}") from None


@click.command("reload")
def reload_command() -> None:
    """Make the daemon read its settings again, and say what it found.

    It does so by itself when settings.json changes. Exits 3 when no daemon runs.
    """
    answer = Client(os.environ).post("/v1/reload")
    screen.say(f"settings read again, revision {answer['revision']}", "green")
    screen.warn(answer["warnings"])


@click.command("stop")
def stop_command() -> None:
    """Stop the daemon and wait until it is gone. Exits 3 when no daemon runs."""
    client = Client(os.environ)
    try:
        pid = int(client.get_json("/healthz")["pid"])
    except Unreachable as error:
        if not error.pid:
            raise
        pid = error.pid
    if not is_daemon(pid, client):
        raise DaemonError(
            f"the daemon is not pid {pid} here but in another PID namespace, as of a container with"
            " the same HOME: stop it there"
        )
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        screen.say("stopped", "green")
        return
    except PermissionError:
        raise DaemonError(f"pid {pid} belongs to another user: stop it as that user") from None
    end = time.monotonic() + STOP_SECONDS
    with waiting("stopping"):
        while lock_holder(os.environ) == pid:
            if time.monotonic() > end:
                raise DaemonError(f"pid {pid} does not stop; `kill -9 {pid}` ends it")
            time.sleep(POLL_SECONDS)  # the lock tells nobody that it is free
    screen.say(f"stopped (it was pid {pid})", "green")
