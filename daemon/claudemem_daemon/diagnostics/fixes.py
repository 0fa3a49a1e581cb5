"""What to do about a cause: a line to paste into settings.json or into a shell. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from claudemem_daemon.stores.locate import quoted

LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
LISTS: Final = {
    "types": "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES",
    "concepts": "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS",
}
CONTEXT_CHARS: Final = 100_000
"""The size that is advised where a row does not fit."""


def paste(shape: Mapping[str, Any], key: str, value: object) -> str:
    """How to give a setting another value, at the place that has it now."""
    source = shape["settings"].get(key, {"origin": "default", "detail": None})
    detail = str(source["detail"] or "")
    name = detail.partition(" in ")[0] if " in " in detail else key
    if source["origin"] == "request":
        given = source["value"]
        text = ",".join(given) if isinstance(given, list | tuple) else given
        return f"leave the option away, or give it another value than {text}"
    if source["origin"] in ("caller", "daemon"):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        name = detail if detail.startswith("CLAUDE_MEM_") else name
        return f"export {name}={quoted(text)}"
    of_file = source["origin"] == "settings" and detail
    file = detail.rpartition(" in ")[2] if of_file else shape["settings_path"]
    return f'put "{name}": {json.dumps(value, ensure_ascii=False)} into {file}'


def store_fixes(path: str, *, own: bool) -> dict[str, str]:
    """Reason of STORE_REASONS -> what makes the store readable again; `own`: it is claude-mem's, in
    the data dir."""
    name = quoted(path)
    aside = f"mv {name} {quoted(path + '.damaged')}"
    return {
        "missing": f"ls {quoted(os.path.dirname(path))}; then name the right path in"
        " CLAUDE_MEM_DAEMON_STORES",
        "busy": f"fuser -v {name} shows who holds it; it is tried again with the next question",
        "corrupt": f"{aside} && sqlite3 {quoted(path + '.damaged')} .dump"
        f" | sed 's/^ROLLBACK.*/COMMIT;/' | sqlite3 {name}",
        "hot_journal": f"sqlite3 {name} .schema",
        "foreign": f"{aside}; then restore it from a backup, or let claude-mem make a new one"
        if own
        else f"take {path} out of the setting or the checkout's file that names it",
        "untrusted": f"claudemem-daemon allow {name}",
        "owner": f"ls -l {name}; run the daemon as its owner",
        "wal_pending": f"chmod u+w {quoted(os.path.dirname(path))}",
        "io": f"cp {name} to a local disk and name the copy in CLAUDE_MEM_DAEMON_STORES",
        "slow": "export CLAUDE_MEM_DAEMON_TIMEOUT_MS=5000",
        "away": f"psql {name} -c 'SELECT 1'",
        "refused": f"psql {name} -c 'TABLE observations LIMIT 1'",
        "unreadable": f"chmod u+r {name}",
    }


def store_fix(path: str, reason: str | None, *, own: bool) -> str:
    return store_fixes(path, own=own).get(reason or "", f"ls -l {quoted(path)}")


def setting_fix(warning: Mapping[str, str]) -> str:
    """What ends a warning about a setting."""
    key, path = warning.get("key"), warning.get("path")
    code = warning["code"]
    if code == "observer_failing":
        return "mend it there; the next save of claude-mem ends this"
    if code == "settings_rejected" and path:
        return f"python3 -m json.tool {quoted(path)} shows where; mend it there"
    if key and path:
        return f"set {key} in {path} to a value that is taken, or take the line out"
    if key:
        return f"unset {key}"
    return "claudemem-daemon config shows every value and its source"


def fate_fix(shape: Mapping[str, Any], fate: Mapping[str, Any]) -> str:
    """The setting that would bring one row into the answer; empty where none would."""
    reason = fate["disposition"]
    if reason in ("type_filtered", "concept_filtered"):
        kind = "types" if reason == "type_filtered" else "concepts"
        values = [fate["type"]] if kind == "types" else list(fate["concepts"])[:1]
        if not values or values[0] != values[0].strip() or "," in values[0]:
            return paste(shape, LISTS[kind], "*")
        wanted = [*shape["filters"][kind], values[0].lower()]
        return paste(shape, LISTS[kind], ",".join(wanted))
    if reason == "malformed_concepts":
        return paste(shape, LISTS["concepts"], "*")
    if reason == "over_limit":
        return paste(shape, LIMIT, fate["rank"]) if fate.get("rank") else ""
    if reason == "over_size":
        return paste(shape, "CLAUDE_MEM_DAEMON_CONTEXT_CHARS", CONTEXT_CHARS)
    if reason == "store_unreadable":
        one = next((s for s in shape["stores"] if s["path"] == fate["store"]), None)
        return store_fix(fate["store"], one["reason"] if one else None, own=False)
    if reason == "excluded":
        return next((cause["fix"] for cause in shape["causes"] if cause["code"] == "excluded"), "")
    if reason == "other_project" and fate["project"]:
        return f"claudemem-daemon context --projects {quoted(fate['project'])}"
    return ""
