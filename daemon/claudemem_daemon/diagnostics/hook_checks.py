"""Our entries at the assistants, whether their program runs, and which hooks failed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence

from claudemem_daemon.diagnostics.age import age, counted
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.hooklog import read_log
from claudemem_daemon.hookfiles.codex import ASK
from claudemem_daemon.hookfiles.commands import program_trouble
from claudemem_daemon.hookfiles.double_injection import double_injection
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.settings.sources import read_values


def hook_entries(environ: Mapping[str, str], settings_path: str) -> Iterator[Finding]:
    found = False
    for name, known in PLATFORMS.items():
        there = installed(known, environ, None)
        commands = there.ours
        for event, command in there.theirs:
            message = f"{name}: an entry at {event} asks us too and was not written by us:"
            fix = "keep one of the two, or context may come twice" if commands else ""
            yield Finding("hooks", "warning", f"{message} {command[:200]}", fix)
        found = found or bool(there.theirs)
        if not commands:
            continue
        found = True
        expected = 1 if known.shape == "plugin" else len(known.events)
        yield _entries(name, commands, expected, there.untrusted)
    if not found:
        fix = "claudemem-daemon hooks install claude-code"
        yield Finding("hooks", "warning", "no assistant has our entries", fix)
    values = read_values(settings_path)
    doubled = double_injection(environ, values)
    if doubled is not None and found:
        fix = f"{'mend' if values is None else 'put these keys into'} {settings_path}"
        yield Finding("double injection", "warning", doubled, fix)


def _entries(
    name: str, commands: Sequence[str], expected: int, untrusted: Sequence[str]
) -> Finding:
    """Our entries of one assistant."""
    again = f"claudemem-daemon hooks install {name}"
    trouble = next(filter(None, map(_program_trouble, dict.fromkeys(commands))), None)
    count = len(commands)
    if trouble is not None:
        message = f"{name}: the program in its entries {trouble}"
        return Finding("hooks", "error", message, again)
    if count > expected:
        message = f"{count} entries of ours for {expected} events"
        fix = "keep one an event, or context comes twice"
    elif count < expected:
        message, fix = f"{count} of {expected} entries are there", again
    elif untrusted:
        message, fix = f"skips our entries for {', '.join(untrusted)} until allowed", ASK
    else:
        return Finding("hooks", "ok", f"{name}: {counted(count, 'entry', 'entries')}")
    return Finding("hooks", "warning", f"{name}: {message}", fix)


def _program_trouble(command: str) -> str | None:
    """What is wrong with the program that an entry starts by path; None for one by curl."""
    words = command.split("[ -x ", 1)
    return program_trouble(shlex.split(words[1])[0]) if len(words) == 2 else None


def hook_log(environ: Mapping[str, str]) -> Iterator[Finding]:
    recent = [failure for failure in read_log(environ) if failure.at > time.time() - 86400]
    if not recent:
        yield Finding("hook log", "ok", "no hook failed in the last day")
        return
    last, hooks = recent[-1], counted(len(recent), "hook")
    newest = f"{age(last.at * 1000)}: {last.platform} {last.reason} {last.detail}"
    message = f"{hooks} failed in the last day, the newest {newest}"
    yield Finding("hook log", "warning", message)
