"""`doctor`: what a person would check, from end to end, each with what to do about it."""

from __future__ import annotations

import json
import os
import platform
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from claudemem_daemon import __version__
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.corridor import Corridor, Way
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.headline import of_silence
from claudemem_daemon.diagnostics.hooklog import read_log
from claudemem_daemon.diagnostics.related import related_keys
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.hook import home_dir, private_dir, state_dir
from claudemem_daemon.hookfiles.files import installed
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.hookfiles.twice import double_injection
from claudemem_daemon.question import Question, caller_environment
from claudemem_daemon.service import manage
from claudemem_daemon.service.plan import make_plan
from claudemem_daemon.settings.keys import suggest
from claudemem_daemon.settings.sources import Rejected, parse, read_bytes

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


def examine(
    environ: Mapping[str, str], cwd: str, corridor: Corridor, program: str
) -> tuple[Check, ...]:
    """All checks, in the order in which one would look. Changes nothing."""
    question = Question(cwd=cwd, env=caller_environment(environ))
    looks: tuple[Callable[[], Iterator[Check]], ...] = (
        lambda: _folder(environ),
        lambda: _daemon(environ, question),
        lambda: _service(environ, program),
        lambda: _settings(corridor, question),
        lambda: _stores(corridor, question),
        lambda: _hooks(environ, corridor),
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


def _daemon(environ: Mapping[str, str], question: Question) -> Iterator[Check]:
    client = Client(environ)
    try:
        health = json.loads(client.get("/healthz"))
    except Unreachable as error:
        yield Check("daemon", "failed", error.message, of_silence(error).next or "")
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
    client.get("/api/context/inject", {"cwd": question.cwd or "/"})
    took = (time.perf_counter() - began) * 1000
    verdict: Verdict = "ok" if took < 200 else "warning"
    yield Check("a real question", verdict, f"answered over the socket in {took:.1f} ms")


def _service(environ: Mapping[str, str], program: str) -> Iterator[Check]:
    state = manage.look(make_plan(environ, program), environ)
    verdict: Verdict = "ok" if state.state in ("active", "unknown") else "warning"
    fix = "claudemem-daemon service install" if verdict == "warning" else ""
    yield Check("service", verdict, state.sentence, fix)


def _settings(corridor: Corridor, question: Question) -> Iterator[Check]:
    state = corridor.configuration.state()
    settings = corridor.configuration.snapshot(question)
    wrong = [Check("settings", "warning", one.message, "correct it") for one in settings.warnings]
    data = read_bytes(state.path)
    values = parse(data) if isinstance(data, bytes) else {}
    if not isinstance(values, Rejected):
        for name in values:
            meant = suggest(str(name)) if str(name).startswith("CLAUDE_MEM_") else None
            if meant is not None:
                message = f"{state.path}: {name} is no setting; did you mean {meant}?"
                wrong.append(Check("settings", "warning", message, f"rename it to {meant}"))
    yield from wrong or [Check("settings", "ok", f"{state.path}, revision {state.revision}")]


def _stores(corridor: Corridor, question: Question) -> Iterator[Check]:
    way = corridor.way(question)
    answer = corridor.ask(question, Deadline.after(5))
    reports = answer.selection.stores
    if not reports and way.located.stores:
        yield Check("stores", "ok", "none is read for this folder: see memory here")
    elif not reports:
        yield Check(
            "stores",
            "warning",
            f"no store: {way.settings.data_dir}/claude-mem.db does not exist",
            "install claude-mem and work a while, or name stores in CLAUDE_MEM_DAEMON_STORES",
        )
    for one in reports:
        if one.ok:
            yield Check("store", "ok", f"{one.path}, schema {one.schema_version or 'unknown'}")
        else:
            fix = "claudemem-daemon allow " + one.path if one.reason == "untrusted" else ""
            yield Check("store", "warning", one.error or "cannot be read", fix)
    count = len(answer.selection.observations)
    off = next(
        (one for one in way.warnings if one.code in ("excluded", "cwd_vanished", "cwd_nameless")),
        None,
    )
    if off is not None and not way.keys.keys:
        yield Check("memory here", "warning", off.message)
    elif way.settings.limit == 0:
        limit = way.settings.sources["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]
        message = f"turned off: the limit is 0 ({limit.detail or limit.origin})"
        yield Check("memory here", "warning", message, "claudemem-daemon config")
    elif count:
        yield Check("memory here", "ok", f"{count} observations for {way.keys.name}")
    elif answer.selection.rows_exist:
        message = "rows exist, but the filters exclude all of them"
        yield Check("memory here", "warning", message, "claudemem-daemon explain")
    else:
        yield Check("memory here", "ok", f"none yet for {way.keys.name}")
    yield from _related(corridor, way)


def _related(corridor: Corridor, way: Way) -> Iterator[Check]:
    for key, rows in related_keys(way, corridor.pool).items():
        setting = json.dumps({way.keys.name.partition("/")[0]: [key]})
        yield Check(
            "related keys",
            "warning",
            f"key {key!r} is not matched, but {rows} of its newest rows have files here: was this"
            " folder renamed?",
            f"CLAUDE_MEM_DAEMON_ALIASES = {setting}",
        )


def _hooks(environ: Mapping[str, str], corridor: Corridor) -> Iterator[Check]:
    found = False
    for name, known in PLATFORMS.items():
        commands = installed(known, environ, None)
        if not commands:
            continue
        found = True
        gone = [one for one in commands if _missing_program(one)]
        if gone:
            message = f"{name}: the program in its entries is gone ({gone[0][:120]})"
            yield Check("hooks", "warning", message, f"claudemem-daemon hooks install {name}")
        elif len(commands) < len(known.events):
            message = f"{name}: {len(commands)} of {len(known.events)} entries are there"
            yield Check("hooks", "warning", message, f"claudemem-daemon hooks install {name}")
        else:
            yield Check("hooks", "ok", f"{name}: {len(commands)} entries")
    if not found:
        fix = "claudemem-daemon hooks install claude-code"
        yield Check("hooks", "warning", "no assistant has our entries", fix)
    data = read_bytes(corridor.configuration.settings_path)
    values: Any = parse(data) if isinstance(data, bytes) else {}
    twice = double_injection(environ, {} if isinstance(values, Rejected) else values)
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
