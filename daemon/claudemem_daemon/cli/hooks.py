"""`hook` as click knows it, and `hooks`: the entries in the assistants' settings files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping

import click

from claudemem_daemon.__main__ import in_process
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import folder, path_text, plain
from claudemem_daemon.errors import InvalidRequest, NotFound
from claudemem_daemon.hook import main as hook_main
from claudemem_daemon.hookfiles.commands import curl_line, lasting_launcher, launcher, python_line
from claudemem_daemon.hookfiles.double_injection import double_injection
from claudemem_daemon.hookfiles.files import Change, install, uninstall
from claudemem_daemon.hookfiles.merge import merged
from claudemem_daemon.hookfiles.opencode import (
    EVENTS,
    NAME,
    install_plugin,
    plugin_path,
    plugin_text,
    uninstall_plugin,
)
from claudemem_daemon.hookfiles.platforms import PLATFORMS, ignored, target
from claudemem_daemon.local import PLATFORMS as HOOK_PLATFORMS
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.settings.sources import read_values


@click.command("hook")
@click.argument("platform", type=click.Choice(HOOK_PLATFORMS), metavar="PLATFORM")
def hook_command(platform: str) -> int:
    """Answer one hook: its JSON on standard input, the assistant's JSON (or nothing) on output.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli, opencode or raw.

    Exits 0 always, inside its deadline. Why it printed nothing is in hook.log in the state
    folder; `status` and `doctor` read it.
    """
    return hook_main([platform], in_process)


@click.group("hooks")
def hooks_command() -> None:
    """Install, remove or print the hook entries of an assistant."""


@hooks_command.command("install")
@click.argument("platform", type=click.Choice(list(HOOK_PLATFORMS)), metavar="PLATFORM")
@click.option("--curl", is_flag=True, help="An entry that needs curl alone, no Python.")
@click.option("--user", is_flag=True, help="The user's file; the default.")
@click.option("--project", is_flag=True, help="The checkout's own file instead of the user's.")
def install_command(platform: str, curl: bool, user: bool, project: bool) -> None:
    """Put our entries into PLATFORM's settings. Every other hook and key stays as it is.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli or opencode (a plugin). Again:
    our entries are brought up to date.
    """
    _has_a_file(platform)
    where = _checkout(user, project)
    line = _line(platform, curl, lasting_launcher)
    change = (
        install_plugin(os.environ, line, where)
        if platform == NAME
        else install(platform, os.environ, line, where)
    )
    if change.what == "unchanged":
        screen.headed("unchanged", f"{screen.home(change.path)}: our entries are there already")
    else:
        known = PLATFORMS.get(platform)
        events = EVENTS if known is None else known.events
        screen.headed("wrote", screen.home(change.path))
        screen.say(f"  entries for {', '.join(events)}")
        if change.backup is not None:
            screen.say(f"  as it was: {screen.home(change.backup)}", "dim", whole=True)
        if known is not None and known.note:
            screen.say(f"  {known.note}", "yellow")
    _name_theirs(change)
    _name_ignored(platform, project)
    doubled = double_injection(os.environ, _claude_mem_settings())
    if doubled is not None and platform in ("claude-code", "codex"):
        screen.say(f"! {doubled}", "yellow")


@hooks_command.command("uninstall")
@click.argument("platform", type=click.Choice(list(HOOK_PLATFORMS)), metavar="PLATFORM")
@click.option("--user", is_flag=True, help="The user's file; the default.")
@click.option("--project", is_flag=True, help="The checkout's own file instead of the user's.")
def uninstall_command(platform: str, user: bool, project: bool) -> None:
    """Take our entries out of PLATFORM's settings, and nothing else.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli or opencode.
    """
    _has_a_file(platform)
    where = _checkout(user, project)
    change = (
        uninstall_plugin(os.environ, where)
        if platform == NAME
        else uninstall(platform, os.environ, where)
    )
    path = screen.home(change.path)
    if change.what == "nothing":
        screen.headed("unchanged", f"{path}: no entry of ours there")
    else:
        screen.headed("removed", f"our entries from {path}")
    _name_theirs(change)
    _name_ignored(platform, project)


@hooks_command.command("print")
@click.argument("platform", type=click.Choice(list(HOOK_PLATFORMS)), metavar="PLATFORM")
@click.option("--curl", is_flag=True, help="The command line that needs curl alone, no Python.")
def print_command(platform: str, curl: bool) -> None:
    """Show what `install` writes for PLATFORM.

    PLATFORM is claude-code, codex, cursor, gemini-cli, copilot-cli, opencode, or raw for a program
    of your own, which has no settings file: for it, and with --curl, the command line alone is shown.
    """
    line = _line(platform, curl, launcher)
    if platform == NAME:
        click.echo(f"# {path_text(plugin_path(os.environ, None))}", err=True)
        click.echo(plugin_text(line), nl=False)
        return
    if curl or platform not in PLATFORMS:
        click.echo(line)
        return
    known = PLATFORMS[platform]
    path = target(known, os.environ, None)
    click.echo(f"# {path_text(path)}", err=True)
    click.echo(json.dumps(merged({}, known, line, path), indent=2))


def _has_a_file(platform: str) -> None:
    if platform not in PLATFORMS and platform != NAME:
        raise InvalidRequest(
            f"{platform} is for programs of your own, whose settings file we do not know: put the"
            f" line of `claudemem-daemon hooks print {platform}` there by hand"
        )


def _name_theirs(change: Change) -> None:
    """Entries that ask us and that we did not write are somebody's own, and left alone."""
    for event, command in change.theirs:
        screen.say(f"! left alone, not written by us: {event}: {plain(command, 200)}", "yellow")


def _name_ignored(platform: str, project: bool) -> None:
    known = PLATFORMS.get(platform)
    word = None if project or known is None else ignored(known, os.environ)
    if word is not None:
        screen.say(f"! {plain(word, 300)}", "yellow")


def _line(platform: str, curl: bool, program: Callable[[Mapping[str, str], str], str]) -> str:
    if curl:
        return curl_line(platform, os.environ)
    return python_line(platform, program(os.environ, sys.argv[0]))


def _checkout(user: bool, project: bool) -> str | None:
    if user and project:
        raise InvalidRequest("--user and --project are two different files: give one of them")
    if not project:
        return None
    here = folder(None)
    top = Repositories(os.environ.get("HOME")).resolve(here).top
    if top is None:
        raise NotFound(f"{path_text(here)} is in no checkout: --project writes into one")
    return top


def _claude_mem_settings() -> Mapping[str, object] | None:
    from claudemem_daemon.settings.configuration import Configuration

    return read_values(Configuration(os.environ).settings_paths[-1])
