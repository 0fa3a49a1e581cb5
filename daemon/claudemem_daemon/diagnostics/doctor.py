"""`doctor`: what a person would check, from end to end, each with what to do about it."""

from __future__ import annotations

import json
import os
import platform
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from claudemem_daemon import __version__, lookup
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.database_url import CREATE_INDEX, is_database, names_database
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.causes import rows_shown
from claudemem_daemon.diagnostics.fixes import setting_fix
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
from claudemem_daemon.shapes import of_settings

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `fix` is empty where nothing is to be done."""

    name: str
    status: Verdict
    message: str
    fix: str = ""


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
) -> tuple[Check, ...]:
    """All checks, from the daemon outwards. Changes nothing."""
    facts = _Facts(environ, pipeline, Question(cwd=cwd, env=caller_environment(environ)))
    parts: tuple[Callable[[], Iterator[Check]], ...] = (
        lambda: _folder(environ),
        lambda: _daemon(facts),
        lambda: _service(environ, program, facts),
        lambda: _settings(facts),
        lambda: _stores(facts),
        lambda: _hooks(environ, facts),
        lambda: _hook_log(environ),
    )
    checks: list[Check] = []
    for part in parts:
        try:
            checks += part()
        except ClaudememError as error:
            checks.append(Check(error.code, "failed", error.message))
    return tuple(checks)


def report(checks: tuple[Check, ...], environ: Mapping[str, str]) -> str:
    """The block for a bug report: versions and verdicts, no names, no paths of the user's."""
    python, system = platform.python_version(), f"{platform.system()} {platform.release()}"
    lines = [f"claudemem-daemon {__version__}, Python {python}, {system}"]
    lines += [f"{check.status:<8}{check.name}" for check in checks]
    return "\n".join(lines).replace(home_dir(environ), "~")


def _folder(environ: Mapping[str, str]) -> Iterator[Check]:
    folder = state_dir(environ)
    name = "state folder"
    if not os.path.lexists(folder):
        yield Check(name, "ok", f"{folder} does not exist yet; the daemon makes it")
    elif private_dir(folder):
        yield Check(name, "ok", f"{folder} is ours alone")
    else:
        message = f"{folder} is not a folder of ours alone"
        yield Check(name, "failed", message, f"chmod 700 {folder}")


def _daemon(facts: _Facts) -> Iterator[Check]:
    client, health = facts.client, facts.health
    if isinstance(health, Unreachable):
        yield Check("daemon", "failed", health.message, of_silence(health).next or "")
        return
    restart = "claudemem-daemon stop, then start it again"
    if health["version"] != __version__:
        message = f"version {health['version']} runs, this command is {__version__}"
        yield Check("daemon", "warning", message, restart)
    else:
        yield Check("daemon", "ok", f"version {health['version']} answers, pid {health['pid']}")
    seen = os.lstat(client.path)
    mode = stat.S_IMODE(seen.st_mode)
    if mode & 0o077 or seen.st_uid != os.getuid():
        message = f"{client.path} has mode {mode:04o} and owner {seen.st_uid}"
        yield Check("socket", "failed", message, restart)
    else:
        yield Check("socket", "ok", f"{client.path}, mode {mode:04o}")
    began = time.perf_counter()
    client.get("/api/context/inject", {"cwd": facts.question.cwd or "/"})
    took = (time.perf_counter() - began) * 1000
    verdict: Verdict = "ok" if took < 200 else "warning"
    fix = "" if verdict == "ok" else "claudemem-daemon status tells how long each store takes"
    yield Check("a real question", verdict, f"answered over the socket in {took:.1f} ms", fix)


def _service(environ: Mapping[str, str], program: str, facts: _Facts) -> Iterator[Check]:
    network = names_database(facts.settings["settings"]["CLAUDE_MEM_DAEMON_STORES"]["value"] or {})
    plan = make_plan(environ, program, network=network)
    state = manage.look(plan, environ)
    verdict: Verdict = "failed" if state.state == "broken" else "warning"
    if state.state in ("active", "unknown"):
        verdict = "ok"
    fix = "" if verdict == "ok" else "claudemem-daemon service install"
    yield Check("service", verdict, state.sentence, fix)
    if network and state.state == "active" and any(map(manage.is_local_only, plan.files)):
        message = "the unit allows no network, and CLAUDE_MEM_DAEMON_STORES names a database"
        yield Check("service", "warning", message, "claudemem-daemon service install")


def _settings(facts: _Facts) -> Iterator[Check]:
    path, warnings = facts.settings["settings_path"], facts.settings["warnings"]
    wrong = [
        Check("settings", "warning", warning["message"], setting_fix(warning))
        for warning in warnings
    ]
    how = "as the daemon holds it" if facts.by_daemon else "as it is now"
    if not os.path.lexists(path):
        how = "no such file: defaults"
    yield from wrong or [Check("settings", "ok", f"{path}, {how}")]


def _stores(facts: _Facts) -> Iterator[Check]:
    """The stores, and what keeps rows out of this folder's context, in the words of `explain`."""
    shape = facts.explanation
    for store in shape["stores"]:
        if store["ok"]:
            yield Check(
                "store", "ok", f"{store['path']}, schema {store['schema_version'] or 'unknown'}"
            )
    for query in shape["queries"]:
        if is_database(query["store"]) and query["plan"] == "table":
            message = f"{query['store']}: every question reads the whole table"
            yield Check("store", "warning", message, CREATE_INDEX + " (as its owner)")
            break
    settled = {warning["message"] for warning in facts.settings["warnings"]}
    causes = [cause for cause in shape["causes"] if cause["sentence"] not in settled]
    for cause in causes:
        code = cause["code"]
        name = "store" if code.startswith("store_") else "memory here"
        name = "settings" if code == "setting_misnamed" else name
        yield Check(name, "warning", cause["sentence"], cause["fix"])
    if rows_shown(shape):
        name = shape["repository"]["name"]
        yield Check("memory here", "ok", f"{rows_shown(shape)} observations for {name}")
    elif not causes:
        yield Check("memory here", "ok", shape["verdict"])


def _hooks(environ: Mapping[str, str], facts: _Facts) -> Iterator[Check]:
    found = False
    for name, known in PLATFORMS.items():
        there = installed(known, environ, None)
        commands = there.ours
        for event, command in there.theirs:
            message = f"{name}: an entry at {event} asks us too and was not written by us:"
            fix = "keep one of the two, or context may come twice" if commands else ""
            yield Check("hooks", "warning", f"{message} {command[:200]}", fix)
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
        yield Check("hooks", "warning", "no assistant has our entries", fix)
    twice = double_injection(environ, read_values(facts.settings["settings_path"]))
    if twice is not None and found:
        yield Check("double injection", "warning", twice, "set what it says")


def _entries(name: str, commands: Sequence[str], expected: int, untrusted: Sequence[str]) -> Check:
    """Our entries of one assistant."""
    again = f"claudemem-daemon hooks install {name}"
    trouble = next(filter(None, map(_program_trouble, dict.fromkeys(commands))), None)
    count = len(commands)
    if trouble is not None:
        message = f"{name}: the program in its entries {trouble}"
        return Check("hooks", "failed", message, again)
    if count > expected:
        message = f"{count} entries of ours for {expected} events"
        fix = "keep one an event, or context comes twice"
    elif count < expected:
        message, fix = f"{count} of {expected} entries are there", again
    elif untrusted:
        message, fix = f"skips our entries for {', '.join(untrusted)} until allowed", ASK
    else:
        return Check("hooks", "ok", f"{name}: {count} entries")
    return Check("hooks", "warning", f"{name}: {message}", fix)


def _program_trouble(command: str) -> str | None:
    """What is wrong with the program that an entry starts by path; None for one by curl."""
    words = command.split("[ -x ", 1)
    return program_trouble(shlex.split(words[1])[0]) if len(words) == 2 else None


def _hook_log(environ: Mapping[str, str]) -> Iterator[Check]:
    recent = [failure for failure in read_log(environ) if failure.at > time.time() - 86400]
    if not recent:
        yield Check("hook log", "ok", "no hook failed in the last day")
        return
    last, hooks = recent[-1], "hook" if len(recent) == 1 else "hooks"
    newest = f"{age(last.at * 1000)}: {last.platform} {last.reason} {last.detail}"
    message = f"{len(recent)} {hooks} failed in the last day, the newest {newest}"
    yield Check("hook log", "warning", message)
