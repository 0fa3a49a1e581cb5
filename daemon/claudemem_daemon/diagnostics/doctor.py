"""`doctor`: what a person would check, from end to end, each with what to do about it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from claudemem_daemon import __version__
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.database_url import CREATE_INDEX, is_database, names_database
from claudemem_daemon.diagnostics.causes import rows_shown
from claudemem_daemon.diagnostics.finding import Finding, Severity
from claudemem_daemon.diagnostics.hook_checks import hook_entries, hook_log, read_log
from claudemem_daemon.diagnostics.problems import of_answer, of_process, of_silence
from claudemem_daemon.errors import ClaudememError
from claudemem_daemon.local import state_dir
from claudemem_daemon.permissions import folder_trouble
from claudemem_daemon.question import Question
from claudemem_daemon.service import manage
from claudemem_daemon.service.manager import has_manager
from claudemem_daemon.service.plan import make_plan
from claudemem_daemon.shapes import OF_SETTINGS

Explain = Callable[[bool], Mapping[str, Any]]
"""Explains the question; takes whether the daemon is to be asked."""


SLOW_MS = 200
_STATUS = {"ok": "ok", "note": "note", "warning": "warning", "error": "failed"}


def examine(
    environ: Mapping[str, str], question: Question, program: str, explain: Explain
) -> tuple[Finding, ...]:
    """All checks, from the daemon outwards. Changes nothing."""
    client = Client(environ)
    status: Mapping[str, Any] | Unreachable
    try:
        status = client.get_json("/v1/status")
    except Unreachable as error:
        status = error
    by_daemon = not isinstance(status, Unreachable)

    @cache
    def explanation() -> Mapping[str, Any]:
        return explain(by_daemon)

    parts: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _folder(environ),
        lambda: _daemon(environ, client, status, question),
        lambda: _service(environ, program, explanation()),
        lambda: _memory(explanation(), by_daemon=by_daemon),
        lambda: hook_entries(environ, explanation()["settings_path"]),
        lambda: iter([hook_log(read_log(environ))]),
    )
    checks: list[Finding] = []
    for part in parts:
        try:
            checks += part()
        except ClaudememError as error:
            checks.append(Finding(error.code, error.message, severity="error"))
    return tuple(checks)


def as_json(check: Finding) -> dict[str, str]:
    return {
        "name": check.code,
        "status": _STATUS[check.severity],
        "message": check.sentence,
        "fix": check.fix,
    }


def report(checks: tuple[Finding, ...]) -> str:
    """The block for a bug report: versions and verdicts, no names, no paths of the user's."""
    python, system = platform.python_version(), f"{platform.system()} {platform.release()}"
    lines = [f"claudemem-daemon {__version__}, Python {python}, {system}"]
    lines += [f"{_STATUS[check.severity]:<8}{check.code}" for check in checks]
    return "\n".join(lines)


def _folder(environ: Mapping[str, str]) -> Iterator[Finding]:
    folder = state_dir(environ)
    trouble = folder_trouble(folder)
    if trouble is not None:
        yield Finding("state folder", *trouble, "error")
    elif os.path.lexists(folder):
        yield _ok("state folder", f"{folder} is ours alone")
    else:
        yield _ok("state folder", f"{folder} does not exist yet; the daemon makes it")


def _daemon(
    environ: Mapping[str, str],
    client: Client,
    status: Mapping[str, Any] | Unreachable,
    question: Question,
) -> Iterator[Finding]:
    if isinstance(status, Unreachable):
        head = of_silence(status, managed=has_manager(environ))
        yield Finding("daemon", head.sentence, head.next or "", "error")
        return
    head = of_answer(status)
    if head.next is not None:
        yield Finding("daemon", head.sentence, head.next)
    else:
        answers = f"version {__version__} answers on {client.path}"
        yield _ok("daemon", f"{answers}, pid {status['process']['pid']}")
        yield from of_process(status)
    began = time.perf_counter()
    client.get("/api/context/inject", {"cwd": question.cwd or "/"})
    took = (time.perf_counter() - began) * 1000
    message = f"answered over the socket in {took:.1f} ms"
    if took < SLOW_MS:
        yield _ok("a real question", message)
    else:
        fix = "claudemem-daemon status tells how long each store takes"
        yield Finding("a real question", message, fix)


def _service(
    environ: Mapping[str, str], program: str, shape: Mapping[str, Any]
) -> Iterator[Finding]:
    stores = shape["settings"]["CLAUDE_MEM_DAEMON_STORES"]["value"]
    network = names_database(stores or {})
    plan = make_plan(environ, program, network=network)
    state = manage.find_state(plan, environ)
    if state.state == "active":
        yield _ok("service", state.sentence)
    elif state.state in ("absent", "unknown") and not has_manager(environ):
        yield _ok("service", f"{state.sentence}; no service manager of this user is running")
    else:
        severity: Severity = "error" if state.state == "broken" else "warning"
        yield Finding("service", state.sentence, state.fix, severity)
    if network and state.state == "active" and any(map(manage.is_local_only, plan.files)):
        message = "the unit allows no network, and CLAUDE_MEM_DAEMON_STORES names a database"
        yield Finding("service", message, "claudemem-daemon service install")


def _memory(shape: Mapping[str, Any], *, by_daemon: bool) -> Iterator[Finding]:
    """Settings, stores, and what keeps rows out of this folder's context, in the words of `explain`."""
    path = shape["settings_path"]
    found = [
        Finding(_area(cause["code"]), cause["sentence"], cause["fix"]) for cause in shape["causes"]
    ]
    how = "as the daemon holds it" if by_daemon else "as it is now"
    how = how if os.path.lexists(path) else "no such file: defaults"
    settings = [finding for finding in found if finding.code == "settings"]
    yield from settings or [_ok("settings", f"{path}, {how}")]
    for store in shape["stores"]:
        if store["ok"]:
            schema = f", schema {store['schema_version'] or 'unknown'}"
            yield _ok("store", store["path"] + ("" if is_database(store["path"]) else schema))
    tables = [query["store"] for query in shape["queries"] if query["plan"] == "table"]
    for store in list(filter(is_database, tables))[:1]:
        message = f"{store}: every question reads the whole table"
        yield Finding("store", message, f"{CREATE_INDEX} (as its owner)")
    yield from (finding for finding in found if finding.code != "settings")
    if rows_shown(shape) or not found:
        yield _ok("memory here", shape["verdict"])


def _ok(code: str, sentence: str) -> Finding:
    return Finding(code, sentence, severity="ok")


def _area(code: str) -> str:
    if code.startswith(OF_SETTINGS):
        return "settings"
    return "store" if code.startswith("store_") else "memory here"
