"""`doctor`: what a person would check, from end to end, each with what to do about it."""

from __future__ import annotations

import json
import os
import platform
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from claudemem_daemon import __version__
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics import held
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.headline import of_silence
from claudemem_daemon.diagnostics.hooklog import read_log
from claudemem_daemon.diagnostics.problems import settings_fix
from claudemem_daemon.diagnostics.projects import resembling
from claudemem_daemon.diagnostics.row_counts import count_rows
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.hook import home_dir, private_dir, state_dir
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.hookfiles.twice import double_injection
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question, caller_environment
from claudemem_daemon.service import manage
from claudemem_daemon.service.plan import make_plan
from claudemem_daemon.settings.keys import suggest
from claudemem_daemon.settings.sources import read_values
from claudemem_daemon.shapes import query_shape
from claudemem_daemon.stores.locate import quoted

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `fix` is empty where nothing is to be done."""

    name: str
    status: Verdict
    message: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


class _Told:
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

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """As `config --json` has them."""
        if self.by_daemon:
            return held.of_daemon(self.client, self.question)
        return held.of_files(self.pipeline, self.question)

    @cached_property
    def rows(self) -> Mapping[str, Any]:
        """As `query --json` has them."""
        question = self.question
        if self.by_daemon:
            body = {"cwd": question.cwd, "env": dict(question.env)}
            shape: Mapping[str, Any] = self.client.post("/v1/query", body)
            return shape
        return query_shape(self.pipeline.ask(question, Deadline.after(5)))


def examine(
    environ: Mapping[str, str], cwd: str, pipeline: Pipeline, program: str
) -> tuple[Check, ...]:
    """All checks, in the order in which one would look. Changes nothing."""
    told = _Told(environ, pipeline, Question(cwd=cwd, env=caller_environment(environ)))
    looks: tuple[Callable[[], Iterator[Check]], ...] = (
        lambda: _folder(environ),
        lambda: _daemon(told),
        lambda: _service(environ, program),
        lambda: _settings(told),
        lambda: _stores(told),
        lambda: _hooks(environ, told),
        lambda: _hook_log(environ),
    )
    checks: list[Check] = []
    for look in looks:
        try:
            checks += look()
        except ClaudememError as error:
            checks.append(Check(error.code, "failed", error.message))
    return tuple(checks)


def report(checks: tuple[Check, ...], environ: Mapping[str, str]) -> str:
    """The block for a bug report: versions and verdicts, no names, no paths of the user's."""
    python, system = platform.python_version(), f"{platform.system()} {platform.release()}"
    lines = [f"claudemem-daemon {__version__}, Python {python}, {system}"]
    lines += [f"{one.status:<8}{one.name}" for one in checks]
    return "\n".join(lines).replace(home_dir(environ), "~")


def _folder(environ: Mapping[str, str]) -> Iterator[Check]:
    folder = state_dir(environ)
    if not os.path.lexists(folder):
        yield Check("state folder", "ok", f"{folder} does not exist yet; the daemon makes it")
    elif private_dir(folder):
        yield Check("state folder", "ok", f"{folder} is ours alone")
    else:
        yield Check(
            "state folder",
            "failed",
            f"{folder} is not a folder of ours alone",
            f"chmod 700 {folder}",
        )


def _daemon(told: _Told) -> Iterator[Check]:
    client, health = told.client, told.health
    if isinstance(health, Unreachable):
        yield Check("daemon", "failed", health.message, of_silence(health).next or "")
        return
    if health["version"] != __version__:
        yield Check(
            "daemon",
            "warning",
            f"version {health['version']} runs, this command is {__version__}",
            "claudemem-daemon stop, then start it again",
        )
    else:
        yield Check("daemon", "ok", f"version {health['version']} answers, pid {health['pid']}")
    seen = os.lstat(client.path)
    mode = stat.S_IMODE(seen.st_mode)
    if mode & 0o077 or seen.st_uid != os.getuid():
        message = f"{client.path} has mode {mode:04o} and owner {seen.st_uid}"
        yield Check("socket", "failed", message, "claudemem-daemon stop, then start it again")
    else:
        yield Check("socket", "ok", f"{client.path}, mode {mode:04o}")
    began = time.perf_counter()
    client.get("/api/context/inject", {"cwd": told.question.cwd or "/"})
    took = (time.perf_counter() - began) * 1000
    verdict: Verdict = "ok" if took < 200 else "warning"
    fix = "" if verdict == "ok" else "claudemem-daemon status tells how long each store takes"
    yield Check("a real question", verdict, f"answered over the socket in {took:.1f} ms", fix)


def _service(environ: Mapping[str, str], program: str) -> Iterator[Check]:
    state = manage.look(make_plan(environ, program), environ)
    verdict: Verdict = "ok" if state.state in ("active", "unknown") else "warning"
    fix = "claudemem-daemon service install" if verdict == "warning" else ""
    yield Check("service", verdict, state.sentence, fix)


def _settings(told: _Told) -> Iterator[Check]:
    path, warnings = told.settings["settings_path"], told.settings["warnings"]
    wrong = [
        Check("settings", "warning", one["message"], settings_fix(one["code"])) for one in warnings
    ]
    # A name that is no setting is in nobody's values.
    for name in read_values(path) or {}:
        meant = suggest(str(name)) if str(name).startswith("CLAUDE_MEM_") else None
        if meant is not None:
            message = f"{path}: {name} is no setting; did you mean {meant}?"
            wrong.append(Check("settings", "warning", message, f"rename it to {meant}"))
    how = "as the daemon holds it" if told.by_daemon else "as it is now"
    if not os.path.lexists(path):
        how = "no such file: defaults"
    yield from wrong or [Check("settings", "ok", f"{path}, {how}")]


def _stores(told: _Told) -> Iterator[Check]:
    rows = told.rows
    limit = rows["filters"]["limit"]
    folder = told.settings["settings"]["CLAUDE_MEM_DATA_DIR"]["value"]
    if not rows["stores"] and (limit == 0 or not rows["projects"]):
        yield Check("stores", "ok", "none is read for this folder: see memory here")
    elif not rows["stores"]:
        yield Check(
            "stores",
            "warning",
            f"no store: {folder}/claude-mem.db does not exist",
            "install claude-mem and work a while, or name stores in CLAUDE_MEM_DAEMON_STORES",
        )
    waiting = {one.get("path") for one in rows["warnings"] if one["code"] == "store_untrusted"}
    for one in rows["stores"]:
        path = one["path"]
        if one["ok"]:
            yield Check("store", "ok", f"{path}, schema {one['schema_version'] or 'unknown'}")
        else:
            fix = "claudemem-daemon allow " + quoted(path) if path in waiting else ""
            yield Check("store", "warning", one["error"] or "cannot be read", fix)
    yield _memory(told)
    yield from _related(told)


def _memory(told: _Told) -> Check:
    rows, resolved = told.rows, told.pipeline.resolved(told.question)
    name = resolved.keys.name
    off = next((one["message"] for one in rows["warnings"] if one["code"] in _SILENT), None)
    count = len(rows["observations"])
    if off is not None and not rows["projects"]:
        return Check("memory here", "warning", off)
    if rows["filters"]["limit"] == 0:
        limit = rows["filters"]["sources"]["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]
        message = f"turned off: the limit is 0 ({limit['detail'] or limit['origin']})"
        return Check("memory here", "warning", message, "claudemem-daemon config")
    if count:
        return Check("memory here", "ok", f"{count} observations for {name}")
    if any(one["stores"] for one in rows["projects"]):
        counts = count_rows(resolved, told.pipeline.pool)
        anothers = next((one for one in counts.warnings if one.code == "ambiguous_key"), None)
        if anothers is not None and not any(counts.rows(key) for key in counts.keys):
            return Check("memory here", "warning", anothers.message)
        message = "rows exist, but the filters exclude all of them"
        return Check("memory here", "warning", message, "claudemem-daemon explain")
    return Check("memory here", "ok", f"none yet for {name}")


_SILENT = ("excluded", "cwd_vanished", "cwd_nameless")
"""Codes of warnings that tell why a folder has no memory at all."""


def _related(told: _Told) -> Iterator[Check]:
    """Found by the files' own word on what is excluded; so not where the daemon knows better."""
    damaged = any(one["code"] == "settings_rejected" for one in told.settings["warnings"])
    if damaged or not told.rows["projects"]:
        return
    resolved = told.pipeline.resolved(told.question)
    for one in resembling(resolved, told.pipeline.pool, Deadline.after(3)):
        yield Check(
            "related keys",
            "warning",
            f"key {one.key!r} is not matched, but looks like this repository's: {one.why}",
            f"put {one.alias} into {resolved.settings.settings_path}",
        )


def _hooks(environ: Mapping[str, str], told: _Told) -> Iterator[Check]:
    found = False
    for name, known in PLATFORMS.items():
        there = installed(known, environ, None)
        commands = there.ours
        for event, command in there.theirs:
            yield Check(
                "hooks",
                "warning",
                f"{name}: an entry at {event} asks us too and was not written by us:"
                f" {command[:200]}",
                "keep one of the two, or context may come twice" if commands else "",
            )
        found = found or bool(there.theirs)
        if not commands:
            continue
        found = True
        gone = [one for one in commands if _missing_program(one)]
        if gone:
            message = f"{name}: the program in its entries is gone ({gone[0][:120]})"
            yield Check("hooks", "warning", message, f"claudemem-daemon hooks install {name}")
        elif len(commands) > len(known.events):
            message = f"{name}: {len(commands)} entries of ours for {len(known.events)} events"
            yield Check("hooks", "warning", message, "keep one an event, or context comes twice")
        elif len(commands) < len(known.events):
            message = f"{name}: {len(commands)} of {len(known.events)} entries are there"
            yield Check("hooks", "warning", message, f"claudemem-daemon hooks install {name}")
        else:
            yield Check("hooks", "ok", f"{name}: {len(commands)} entries")
    if not found:
        fix = "claudemem-daemon hooks install claude-code"
        yield Check("hooks", "warning", "no assistant has our entries", fix)
    twice = double_injection(environ, read_values(told.settings["settings_path"]))
    if twice is not None and found:
        yield Check("double injection", "warning", twice, "set what it says")


def _missing_program(command: str) -> bool:
    """Whether the entry starts a program by path that is not there any more."""
    words = command.split("[ -x ", 1)
    if len(words) < 2:
        return False
    path = words[1].split(" ] &&", 1)[0].strip("'\"")
    return not os.access(path, os.X_OK)


def _hook_log(environ: Mapping[str, str]) -> Iterator[Check]:
    recent = [one for one in read_log(environ) if one.at > time.time() - 86400]
    if not recent:
        yield Check("hook log", "ok", "no hook came away with nothing in the last day")
        return
    last = recent[-1]
    yield Check(
        "hook log",
        "warning" if last.reason not in ("no_daemon",) else "ok",
        f"{len(recent)} hooks came away with nothing in the last day, the newest"
        f" {age(last.at * 1000)}: {last.platform} {last.reason} {last.detail}",
    )
