"""`run`, `reload`, `stop`: the daemon's life by hand."""

from __future__ import annotations

import os
import signal
import time

import click

from claudemem_daemon.cli.options import plain
from claudemem_daemon.client import Client, Unreachable, is_daemon, lock_holder
from claudemem_daemon.errors import DaemonError

STOP_SECONDS = 15.0


@click.command("run")
def run_command() -> int:
    """Run the daemon in the foreground, until SIGTERM or Ctrl-C.

    One daemon a user: a second one says "already running" and exits 1 (0 under a service manager).
    SIGHUP reads the settings again.
    """
    # Nobody's plugin belongs in the daemon, and to look for some takes a megabyte and 10 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from claudemem_daemon.server.run import run_daemon

    return run_daemon(os.environ)


@click.command("reload")
def reload_command() -> None:
    """Make the daemon read its settings again, and say what it found.

    It does so by itself when settings.json changes. Exits 3 when no daemon runs.
    """
    answer = Client(os.environ).post("/v1/reload")
    click.echo(f"settings read again, revision {answer['revision']}")
    for warning in answer["warnings"]:
        click.echo(f"! {plain(warning['message'], 400)}")


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
        click.echo("stopped")
        return
    except PermissionError:
        raise DaemonError(f"pid {pid} belongs to another user: stop it as that user") from None
    end = time.monotonic() + STOP_SECONDS
    while lock_holder(os.environ) == pid:
        if time.monotonic() > end:
            raise DaemonError(f"pid {pid} does not stop; `kill -9 {pid}` ends it")
        time.sleep(0.02)
    click.echo(f"stopped (it was pid {pid})")
