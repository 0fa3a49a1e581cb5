"""`hook` as click knows it, and `hooks`: the entries in the assistants' settings files."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping

import click

from claudemem_daemon.__main__ import in_process
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import folder, path_text, plain
from claudemem_daemon.diagnostics.double_injection import double_injection
from claudemem_daemon.diagnostics.hook_checks import skipped
from claudemem_daemon.errors import InvalidRequest, NotFound
from claudemem_daemon.hook import DESCRIPTION
from claudemem_daemon.hook import main as hook_main
from claudemem_daemon.hookfiles.commands import curl_line, lasting_launcher, launcher, python_line
from claudemem_daemon.hookfiles.files import install, installed, uninstall
from claudemem_daemon.hookfiles.merge import merged
from claudemem_daemon.hookfiles.platforms import PLATFORMS, Platform, ignored, target
from claudemem_daemon.hookfiles.plugin import plugin_text
from claudemem_daemon.local import PLATFORMS as HOOK_PLATFORMS
from claudemem_daemon.local import socket_path
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.settings.configuration import Configuration


@click.command("hook", help=inspect.cleandoc(DESCRIPTION))
@click.argument("platform", type=click.Choice(HOOK_PLATFORMS), metavar="PLATFORM")
def hook_command(platform: str) -> int:
    return hook_main([platform], in_process)


@click.group("hooks")
def hooks_command() -> None:
    """Install, print or remove the hook entries of an assistant.

    `claudemem-daemon doctor` tells which assistants have them.
    """


_platform = click.argument("name", type=click.Choice(HOOK_PLATFORMS), metavar="PLATFORM")
_project = click.option(
    "--project/--user", help="The checkout's own file, or the user's, which is the default."
)


@hooks_command.command("install")
@_platform
@click.option("--curl", is_flag=True, help="Entries that need curl alone, not Python.")
@_project
def install_command(name: str, curl: bool, project: bool) -> None:
    """Put our entries into PLATFORM's settings. Every other hook and key stays as it is.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli or opencode (a plugin). Run
    again, it brings our entries up to date.
    """
    platform = _with_file(name)
    where = _checkout() if project else None
    change = install(name, os.environ, _line(name, curl, lasting_launcher), where)
    if change.what == "unchanged":
        screen.headed("unchanged", f"{screen.home(change.path)}: our entries are there already")
    else:
        screen.headed("wrote", screen.home(change.path))
        screen.say(f"  entries for {', '.join(platform.events)}")
        if change.backup is not None:
            screen.say(f"  as it was: {screen.home(change.backup)}", "dim", whole=True)
    waiting = installed(platform, os.environ, where).untrusted
    if platform.asks and change.what == "written":
        waiting = platform.events  # also those that were allowed as they were before
    if waiting:
        told = skipped(name, waiting)
        screen.finding(told.sentence, told.fix)
    _print_remarks(platform, where)
    doubled = double_injection(os.environ, Configuration(os.environ).settings_paths[-1])
    if doubled is not None and name in ("claude-code", "codex"):
        screen.finding(doubled.sentence, doubled.fix)


@hooks_command.command("uninstall")
@_platform
@_project
def uninstall_command(name: str, project: bool) -> None:
    """Take our entries out of PLATFORM's settings, and nothing else.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli or opencode.
    """
    platform = _with_file(name)
    where = _checkout() if project else None
    change = uninstall(name, os.environ, where)
    path = screen.home(change.path)
    if change.what == "unchanged":
        screen.headed("unchanged", f"{path}: no entry of ours there")
    else:
        screen.headed("removed", f"our entries from {path}")
    _print_remarks(platform, where)


@hooks_command.command("print")
@_platform
@click.option("--curl", is_flag=True, help="The command line that needs curl alone, not Python.")
def print_command(name: str, curl: bool) -> None:
    """Show what `install` writes for PLATFORM.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli, opencode, or raw for a program
    of your own, which has no settings file: for it, and with --curl, the command line alone is shown.
    """
    line = _line(name, curl, launcher)
    platform = PLATFORMS.get(name)
    plugin = platform is not None and platform.shape == "plugin"
    if platform is None or (curl and not plugin):
        click.echo(line)
        return
    path = target(platform, os.environ, None)
    click.echo(f"# {path_text(path)}", err=True)
    if plugin:
        click.echo(plugin_text(line), nl=False)
    else:
        click.echo(json.dumps(merged({}, platform, line, path), indent=2))


def _with_file(name: str) -> Platform:
    if name not in PLATFORMS:
        raise InvalidRequest(
            f"{name} is for programs of your own, whose settings file we do not know: put the"
            f" line of `claudemem-daemon hooks print {name}` there by hand"
        )
    return PLATFORMS[name]


def _print_remarks(platform: Platform, project: str | None) -> None:
    """What asks us too and was written by somebody else, and a folder that was ignored."""
    for event, command in installed(platform, os.environ, project).theirs:
        screen.say(f"! left alone, not written by us: {event}: {plain(command, 200)}", "yellow")
    word = None if project else ignored(platform, os.environ)
    if word is not None:
        screen.say(f"! {plain(word, 300)}", "yellow")


def _line(name: str, curl: bool, program: Callable[[Mapping[str, str], str], str]) -> str:
    if curl:
        return curl_line(name, socket_path(os.environ))
    return python_line(name, program(os.environ, sys.argv[0]))


def _checkout() -> str:
    here = folder(None)
    top = Repositories(os.environ.get("HOME")).resolve(here).top
    if top is None:
        raise NotFound(f"{path_text(here)} is in no checkout: --project writes into one")
    return top
