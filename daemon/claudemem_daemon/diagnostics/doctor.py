"""`doctor`: what a person would check, from end to end, each with what to do about it."""

from __future__ import annotations

import json
import os
import platform
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from claudemem_daemon import __version__, lookup
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.database_url import CREATE_INDEX, is_database, names_database
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.age import age, counted
from claudemem_daemon.diagnostics.causes import rows_shown
from claudemem_daemon.diagnostics.finding import Finding, Severity
from claudemem_daemon.diagnostics.headline import of_silence
from claudemem_daemon.diagnostics.hooklog import read_log
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.hookfiles.codex import ASK
from claudemem_daemon.hookfiles.commands import program_trouble
from claudemem_daemon.hookfiles.double_injection import double_injection
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.opencode import NAME, plugin_command
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.local import caller_environment, home_dir, private_dir, state_dir
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.service import manage
from claudemem_daemon.service.plan import make_plan
from claudemem_daemon.settings.sources import read_values
from claudemem_daemon.shapes import OF_SETTINGS, of_settings


class _Facts:
    """What the daemon says, for it may hold more than the files have now; where none answers, the
    same worked out here."""

    def __init__(self, environ: Mapping[str, str], pipeline: Pipeline, question: Question) -> None:
        self.client = Client(environ)
        self.pipeline = pipeline
        self.question = question

    @cached_property
    def health(self) -> Mapping[str, Any] | Unreachable:
        try:
            shape: Mapping[str, Any] = json.loads(self.client.get("/healthz"))
        except Unreachable as error:
            return error
        return shape

    @property
    def by_daemon(self) -> bool:
        return not isinstance(self.health, Unreachable)

    @property
    def settings(self) -> Mapping[str, Any]:
        """As `config --json` has them."""
        return of_settings(self.explanation)

    @cached_property
    def explanation(self) -> Mapping[str, Any]:
        """As `explain --json` has it."""
        question = self.question
        if self.by_daemon:
            body = {"cwd": question.cwd, "env": dict(question.env)}
            shape: Mapping[str, Any] = self.client.post("/v1/explain", body)
            return shape
        return lookup.explained(self.pipeline, question, None, Deadline.after(5))


def examine(
    environ: Mapping[str, str], cwd: str, pipeline: Pipeline, program: str
) -> tuple[Finding, ...]:
    """All checks, from the daemon outwards. Changes nothing."""
    facts = _Facts(environ, pipeline, Question(cwd=cwd, env=caller_environment(environ)))
    parts: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _folder(environ),
        lambda: _daemon(facts),
        lambda: _service(environ, program, facts),
        lambda: _memory(facts),
        lambda: _hooks(environ, facts),
        lambda: _hook_log(environ),
    )
    checks: list[Finding] = []
    for part in parts:
        try:
            checks += part()
        except ClaudememError as error:
            checks.append(Finding(error.code, "error", error.message))
    return tuple(checks)


_STATUS = {"ok": "ok", "note": "note", "warning": "warning", "error": "failed"}


def as_json(check: Finding) -> dict[str, str]:
    return {
        "name": check.code,
        "status": _STATUS[check.severity],
        "message": check.sentence,
        "fix": check.fix,
    }


def report(checks: tuple[Finding, ...], environ: Mapping[str, str]) -> str:
    """The block for a bug report: versions and verdicts, no names, no paths of the user's."""
    python, system = platform.python_version(), f"{platform.system()} {platform.release()}"
    lines = [f"claudemem-daemon {__version__}, Python {python}, {system}"]
    lines += [f"{_STATUS[check.severity]:<8}{check.code}" for check in checks]
    return "\n".join(lines).replace(home_dir(environ), "~")


def _folder(environ: Mapping[str, str]) -> Iterator[Finding]:
    folder = state_dir(environ)
    name = "state folder"
    if not os.path.lexists(folder):
        yield Finding(name, "ok", f"{folder} does not exist yet; the daemon makes it")
    elif private_dir(folder):
        yield Finding(name, "ok", f"{folder} is ours alone")
    else:
        message = f"{folder} is not a folder of ours alone"
        yield Finding(name, "error", message, f"chmod 700 {folder}")


def _daemon(facts: _Facts) -> Iterator[Finding]:
    client, health = facts.client, facts.health
    if isinstance(health, Unreachable):
        yield Finding("daemon", "error", health.message, of_silence(health).next or "")
        return
    restart = "claudemem-daemon stop, then start it again"
    if health["version"] != __version__:
        message = f"version {health['version']} runs, this command is {__version__}"
        yield Finding("daemon", "warning", message, restart)
    else:
        yield Finding("daemon", "ok", f"version {health['version']} answers, pid {health['pid']}")
    seen = os.lstat(client.path)
    mode = stat.S_IMODE(seen.st_mode)
    if mode & 0o077 or seen.st_uid != os.getuid():
        message = f"{client.path} has mode {mode:04o} and owner {seen.st_uid}"
        yield Finding("socket", "error", message, restart)
    else:
        yield Finding("socket", "ok", f"{client.path}, mode {mode:04o}")
    began = time.perf_counter()
    client.get("/api/context/inject", {"cwd": facts.question.cwd or "/"})
    took = (time.perf_counter() - began) * 1000
    severity: Severity = "ok" if took < 200 else "warning"
    fix = "" if severity == "ok" else "claudemem-daemon status tells how long each store takes"
    yield Finding("a real question", severity, f"answered over the socket in {took:.1f} ms", fix)


def _service(environ: Mapping[str, str], program: str, facts: _Facts) -> Iterator[Finding]:
    network = names_database(facts.settings["settings"]["CLAUDE_MEM_DAEMON_STORES"]["value"] or {})
    plan = make_plan(environ, program, network=network)
    state = manage.look(plan, environ)
    severity: Severity = "error" if state.state == "broken" else "warning"
    if state.state in ("active", "unknown"):
        severity = "ok"
    fix = "" if severity == "ok" else "claudemem-daemon service install"
    yield Finding("service", severity, state.sentence, fix)
    if network and state.state == "active" and any(map(manage.is_local_only, plan.files)):
        message = "the unit allows no network, and CLAUDE_MEM_DAEMON_STORES names a database"
        yield Finding("service", "warning", message, "claudemem-daemon service install")


def _memory(facts: _Facts) -> Iterator[Finding]:
    """Settings, stores, and what keeps rows out of this folder's context, in the words of `explain`."""
    shape, path = facts.explanation, facts.settings["settings_path"]
    found = [
        Finding(_area(cause["code"]), "warning", cause["sentence"], cause["fix"])
        for cause in shape["causes"]
    ]
    how = "as the daemon holds it" if facts.by_daemon else "as it is now"
    if not os.path.lexists(path):
        how = "no such file: defaults"
    settings = [finding for finding in found if finding.code == "settings"]
    yield from settings or [Finding("settings", "ok", f"{path}, {how}")]
    for store in shape["stores"]:
        if store["ok"]:
            schema = f", schema {store['schema_version'] or 'unknown'}"
            known = "" if is_database(store["path"]) else schema
            yield Finding("store", "ok", store["path"] + known)
    for query in shape["queries"]:
        if is_database(query["store"]) and query["plan"] == "table":
            message = f"{query['store']}: every question reads the whole table"
            yield Finding("store", "warning", message, CREATE_INDEX + " (as its owner)")
            break
    yield from (finding for finding in found if finding.code != "settings")
    if rows_shown(shape) or not found:
        yield Finding("memory here", "ok", shape["verdict"])


def _area(code: str) -> str:
    if code.startswith(OF_SETTINGS):
        return "settings"
    return "store" if code.startswith("store_") else "memory here"


def _hooks(environ: Mapping[str, str], facts: _Facts) -> Iterator[Finding]:
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
        yield _entries(name, commands, len(known.events), there.untrusted)
    plugin = plugin_command(environ)
    if plugin is not None:
        found = True
        yield _entries(NAME, [plugin], 1, ())
    if not found:
        fix = "claudemem-daemon hooks install claude-code"
        yield Finding("hooks", "warning", "no assistant has our entries", fix)
    twice = double_injection(environ, read_values(facts.settings["settings_path"]))
    if twice is not None and found:
        yield Finding("double injection", "warning", twice, "set what it says")


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


def _hook_log(environ: Mapping[str, str]) -> Iterator[Finding]:
    recent = [failure for failure in read_log(environ) if failure.at > time.time() - 86400]
    if not recent:
        yield Finding("hook log", "ok", "no hook failed in the last day")
        return
    last, hooks = recent[-1], counted(len(recent), "hook")
    newest = f"{age(last.at * 1000)}: {last.platform} {last.reason} {last.detail}"
    message = f"{hooks} failed in the last day, the newest {newest}"
    yield Finding("hook log", "warning", message)
