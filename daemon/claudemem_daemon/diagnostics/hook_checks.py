"""Our entries at the assistants, whether their program runs, and which hooks failed."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from claudemem_daemon.diagnostics.age import age, counted
from claudemem_daemon.diagnostics.double_injection import double_injection
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.hookfiles.codex import ASK
from claudemem_daemon.hookfiles.commands import program_trouble
from claudemem_daemon.hookfiles.files import Installed, installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS, Platform
from claudemem_daemon.local import MAX_LOG, open_own, state_dir


class HookFailure(NamedTuple):
    """One line of the log; `at` is seconds since 1970, `reason` one of `hook.REASONS`."""

    at: int
    platform: str
    reason: str
    detail: str


def hook_entries(environ: Mapping[str, str], settings_path: str) -> Iterator[Finding]:
    found = False
    for name, platform in PLATFORMS.items():
        there = installed(platform, environ)
        for event, command in there.theirs:
            message = f"{name}: an entry at {event} asks us too and was not written by us:"
            fix = "keep one of the two, or context may come twice" if there.ours else ""
            yield Finding("hooks", f"{message} {command[:200]}", fix)
        found = found or bool(there.theirs or there.ours)
        if there.ours:
            yield _entries(platform, there)
    if not found:
        fix = "claudemem-daemon hooks install claude-code"
        yield Finding("hooks", "no assistant has our entries", fix)
    doubled = double_injection(environ, settings_path)
    if doubled is not None and found:
        yield doubled


def _entries(platform: Platform, there: Installed) -> Finding:
    """Our entries of one assistant."""
    name, count = platform.name, len(there.ours)
    expected = 1 if platform.shape == "plugin" else len(platform.events)
    fix = f"claudemem-daemon hooks install {name}"
    trouble = next(filter(None, map(_program_trouble, dict.fromkeys(there.ours))), None)
    if trouble is not None:
        return Finding("hooks", f"{name}: the program in its entries {trouble}", fix, "error")
    if count > expected:
        message = f"{count} entries of ours for {expected} events"
        fix = "keep one per event, or context comes twice"
    elif count < expected:
        message = f"{count} of {expected} entries are there"
    elif there.untrusted:
        return skipped(name, there.untrusted)
    else:
        message = counted(count, "entry", "entries")
        return Finding("hooks", f"{name}: {message}", severity="ok")
    return Finding("hooks", f"{name}: {message}", fix)


def skipped(platform: str, events: Iterable[str]) -> Finding:
    """Entries that the assistant has not been allowed to run."""
    return Finding(
        "hooks", f"{platform} skips our entries for {', '.join(events)} until allowed", ASK
    )


def _program_trouble(command: str) -> str | None:
    """What is wrong with the program that an entry starts by path; None for one by curl."""
    words = command.split("[ -x ", 1)
    return program_trouble(shlex.split(words[1])[0]) if len(words) == 2 else None


def hook_log(failures: Iterable[HookFailure]) -> Finding:
    recent = [failure for failure in failures if failure.at > time.time() - 86400]
    if not recent:
        return Finding("hook log", "no hook failed in the last day", severity="ok")
    last, hooks = recent[-1], counted(len(recent), "hook")
    newest = f"{age(last.at * 1000)}: {last.platform} {last.reason} {last.detail}"
    return Finding("hook log", f"{hooks} failed in the last day, the newest {newest}")


def read_log(environ: Mapping[str, str], last: int = 50) -> tuple[HookFailure, ...]:
    """The newest failures, oldest first; none where there is no log. A hook that no daemon answered
    was answered in process, and what goes wrong with that has a line of its own."""
    path = os.path.join(state_dir(environ), "hook.log")
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_LOG * 2)
    except OSError:
        return ()
    lines = data.decode("utf-8", "replace").splitlines()[-last:]
    return tuple(
        HookFailure(int(parts[0]), *parts[1:])
        for parts in (line.split("\t", 3) for line in lines)
        if len(parts) == 4 and parts[0].isdigit() and parts[2] != "no_daemon"
    )
