"""`service`: the systemd user units, or the launchd agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

import click

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import path_text, waiting
from claudemem_daemon.database_url import names_database
from claudemem_daemon.errors import ServiceError
from claudemem_daemon.hookfiles.commands import lasting_launcher, launcher
from claudemem_daemon.question import Question
from claudemem_daemon.service import manage
from claudemem_daemon.service.plan import ServicePlan, make_plan


@click.group("service")
def service_command() -> None:
    """Install, show or remove the daemon as a service: systemd user units, or a launchd agent."""


@service_command.command("install")
@click.option("--print", "show", is_flag=True, help="Show the files and the commands; do nothing.")
def install_command(show: bool) -> None:
    """Write the units or the agent, enable and start them. Run again, it brings them up to date."""
    plan = _plan(launcher if show else lasting_launcher)
    if show:
        for path, content in plan.files.items():
            click.echo(f"# {path_text(path)}")
            click.echo(content.decode())
        for command in plan.start:
            click.echo("$ " + " ".join(command))
        return
    with waiting("asking the service manager"):
        manage.install(plan, os.environ, _say)


@service_command.command("uninstall")
def uninstall_command() -> None:
    """Stop the service and remove exactly what install wrote."""
    with waiting("asking the service manager"):
        manage.uninstall(_plan(launcher), os.environ, _say)


@service_command.command("status")
def status_command() -> int:
    """Say what is installed and whether it can start. Exits 0 when active, 1 otherwise."""
    state = manage.find_state(_plan(launcher), os.environ)
    style = {"active": "green", "broken": "red"}.get(state.state, "yellow")
    screen.finding(state.sentence, state.fix, style, label="")
    for path in state.files:
        screen.say(f"  {screen.home(path)}", whole=True)
    return 0 if state.state == "active" else 1


def _say(verb: str, what: str) -> None:
    """A line of what was done; what is to be known besides has no verb."""
    if verb:
        screen.headed(f"{verb:<9}", screen.home(what))
    else:
        screen.say(what, "yellow")


def _plan(program: Callable[[Mapping[str, str], str], str]) -> ServicePlan:
    if sys.platform not in ("linux", "darwin"):
        raise ServiceError(
            f"no service manager known on {sys.platform}: run `claudemem-daemon run`"
        )
    with open_pipeline(os.environ) as pipeline:
        settings = pipeline.configuration.snapshot(Question(cwd=None))
    found = program(os.environ, sys.argv[0])
    return make_plan(os.environ, found, network=names_database(settings.stores))
