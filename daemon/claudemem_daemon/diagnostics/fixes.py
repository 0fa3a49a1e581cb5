"""What to do about a cause: a line to paste into settings.json or into a shell. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from claudemem_daemon.database_url import is_database
from claudemem_daemon.permissions import access_fix, quoted
from claudemem_daemon.settings.model import Source

DATA_DIR: Final = "CLAUDE_MEM_DATA_DIR"
SCOPE: Final = "CLAUDE_MEM_DAEMON_SCOPE"
LIMIT: Final = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
LISTS: Final = {
    "types": "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES",
    "concepts": "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS",
}
CONTEXT_CHARS: Final = 100_000
"""The size that is advised where a row does not fit."""


def deciding(shape: Mapping[str, Any], key: str) -> str:
    """What gives a setting its value: the request, or a key, perhaps another one that goes first."""
    source = shape["settings"][key]
    name, _ = Source(source["origin"], source["detail"]).named(key)
    return "the request" if source["origin"] == "request" else name


def paste(shape: Mapping[str, Any], key: str, value: object) -> str:
    """How to give a setting another value, at the place that has it now."""
    source = shape["settings"].get(key, {"origin": "default", "detail": None})
    origin = source["origin"]
    name, file = Source(origin, source["detail"]).named(key)
    if origin == "request":
        return f"leave the option out, or give it another value than {_text(source['value'])}"
    if origin in ("caller", "daemon"):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return f"export {name}={quoted(text)}"
    file = file if origin == "settings" and file else shape["settings_path"]
    return _put(name, value, file)


def _put(key: str, value: object, path: str) -> str:
    return f'put "{key}": {json.dumps(value, ensure_ascii=False)} into {path}'


def _text(value: object) -> object:
    return ",".join(value) if isinstance(value, list | tuple) else value


def store_fixes(path: str, *, own: bool) -> dict[str, str]:
    """Reason of STORE_REASONS -> what makes the store readable again where that does not depend on
    the file; `own`: it is claude-mem's, in the data dir."""
    name = quoted(path)
    aside = f"mv {name} {quoted(path + '.damaged')}"
    return {
        "missing": "name the right path in CLAUDE_MEM_DAEMON_STORES;"
        f" `ls {quoted(os.path.dirname(path))}` shows what is there",
        "busy": f"fuser -v {name}",
        "corrupt": f"{aside} && sqlite3 {quoted(path + '.damaged')} .dump"
        f" | sed 's/^ROLLBACK.*/COMMIT;/' | sqlite3 {name}",
        "hot_journal": f"sqlite3 {name} .schema",
        "foreign": aside
        if own
        else f"take {path} out of the setting or the checkout's file that names it",
        "untrusted": f"claudemem-daemon allow {name}",
        "owner": f"run the daemon as the file's owner, whom `ls -l {name}` names",
        "wal_pending": f"chmod u+w {quoted(os.path.dirname(path))}",
        "io": f"copy {name} to a local disk and name the copy in CLAUDE_MEM_DAEMON_STORES",
        "slow": "export CLAUDE_MEM_DAEMON_TIMEOUT_MS=5000",
    }


def database_fixes(url: str) -> dict[str, str]:
    """The same of a database."""
    return {
        "missing": "pipx inject claudemem-daemon 'psycopg[binary]'",
        "unreadable": f"correct {url} in CLAUDE_MEM_DAEMON_STORES",
        "foreign": f"take {url} out of CLAUDE_MEM_DAEMON_STORES",
        "slow": "export CLAUDE_MEM_DAEMON_TIMEOUT_MS=5000",
        "away": f"psql {quoted(url)} -c 'SELECT 1'",
        "refused": f"psql {quoted(url)} -c 'TABLE observations LIMIT 1'",
    }


def store_fix(path: str, reason: str | None, data_dir: object) -> str:
    """What makes a store readable again that cannot be read for `reason`."""
    own = os.path.dirname(path) == data_dir
    if is_database(path):
        return database_fixes(path).get(reason or "", f"psql {quoted(path)} -c 'SELECT 1'")
    if reason == "unreadable":
        return access_fix(path)
    return store_fixes(path, own=own).get(reason or "", f"ls -l {quoted(path)}")


def setting_fix(warning: Mapping[str, str], shape: Mapping[str, Any] | None = None) -> str:
    """What ends a warning about a setting; with an explanation, the value that is in use."""
    key, path = warning.get("key"), warning.get("path")
    code = warning["code"]
    if code == "observer_failing":
        return "claude-mem's next save ends this; until then its key, limit or base URL is wrong"
    if code == "settings_rejected" and path:
        if "regular file" in warning["message"]:
            return f"mv {quoted(path)} {quoted(path + '.aside')}"
        if "(Permission denied)" in warning["message"]:
            return access_fix(path)
        return f"python3 -m json.tool {quoted(path)}"
    if key is None:
        return "claudemem-daemon config"
    if code == "setting_of_checkout":
        return f"put {key} into your own settings.json if you want it, or take it out of {path}"
    if shape is not None and code in _ADVISED:
        return paste(shape, key, _ADVISED[code])
    if path is None:
        return f"unset {key}"
    settings = shape["settings"] if shape is not None else {}
    used = settings.get(key) or settings.get(key.replace("_DAEMON_", "_CONTEXT_"))
    if used is None or used["value"] is None or code == "modes_dir_missing":
        return f"take {key} out of {path}"
    return _put(key, _text(used["value"]), path)


_ADVISED: Final = {"setting_small": 10_000, "mode_unavailable": "code"}
"""Code of a warning -> the value that ends it."""


def fate_fix(shape: Mapping[str, Any], fate: Mapping[str, Any]) -> str:
    """The setting that would bring one row into the answer; empty where none would."""
    reason = fate["disposition"]
    if reason in ("type_filtered", "concept_filtered", "malformed_concepts"):
        kind = "types" if reason == "type_filtered" else "concepts"
        values = [fate["type"]] if kind == "types" else list(fate["concepts"] or ())
        value = values[0] if values and reason != "malformed_concepts" else ""
        listed = value and value == value.strip() and "," not in value
        wanted = ",".join((*shape["filters"][kind], value.lower())) if listed else "*"
        return paste(shape, LISTS[kind], wanted)
    if reason == "over_limit" and fate.get("rank"):
        return paste(shape, LIMIT, fate["rank"])
    if reason == "over_size":
        return paste(shape, "CLAUDE_MEM_DAEMON_CONTEXT_CHARS", CONTEXT_CHARS)
    if reason == "store_unreadable":
        stores = {store["path"]: store["reason"] for store in shape["stores"]}
        data_dir = shape["settings"][DATA_DIR]["value"]
        return store_fix(fate["store"], stores.get(fate["store"]), data_dir)
    if reason == "excluded":
        return next((cause["fix"] for cause in shape["causes"] if cause["code"] == "excluded"), "")
    if reason == "other_project" and fate["project"]:
        return f"claudemem-daemon context --projects {quoted(fate['project'])}"
    return ""
