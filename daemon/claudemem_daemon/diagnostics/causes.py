"""What keeps rows out of a folder's context, each cause in the same words wherever it is told, with
a fix that can be pasted. Pure: from the explanation's JSON shape.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import (
    DATA_DIR,
    LIMIT,
    LISTS,
    SCOPE,
    deciding,
    paste,
    setting_fix,
    store_fix,
)
from claudemem_daemon.diagnostics.lists import MAX_NAMED, dropped, near_misses
from claudemem_daemon.permissions import quoted
from claudemem_daemon.settings.exclusion import excluding
from claudemem_daemon.shapes import of_settings

EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"
TIMEOUT: Final = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
DEFAULT_LIMIT: Final = 50

_UNANSWERED: Final = {
    "cwd_vanished": "ask from a folder that exists, or name one with --cwd",
    "cwd_nameless": "claudemem-daemon context --projects unknown-project",
    "ambiguous_key": "",
}
"""Code of a warning that explains why there is no row -> what to do, unless the warning says it."""


ENDS: Final = {
    "excluded": ("of an excluded checkout", "excluded checkout"),
    "type_filtered": ("of a type that is not in the list", "type not listed"),
    "concept_filtered": ("without a concept of the list", "concepts not listed"),
    "malformed_concepts": ("with concepts that are not a JSON list", "unreadable concepts"),
    "platform_filtered": ("of another assistant", "other assistant's"),
    "other_repository": ("of another repository", "other repository's"),
    "duplicate_of": ("the same as another row", "duplicates"),
    "unreadable": ("with an id or a value that cannot be read", "cannot be read"),
    "not_read": ("not compared in time", "not compared in time"),
    "over_limit": ("beyond the limit", "beyond the limit"),
    "over_size": ("beyond the size", "beyond the size"),
}
"""Where rows end, in the order of the filters -> in a sentence, beside a bar."""


def find_causes(shape: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The causes in an explanation, what explains most first."""
    found: dict[str, Finding] = {}
    for part in (
        _warnings, _limit, _stores, near_misses, _settings, _similar, _elsewhere, _filtered, _time
    ):  # fmt: skip
        for cause in part(shape):
            found.setdefault(cause.sentence, cause)
    return tuple(found.values())


def verdict(shape: Mapping[str, Any]) -> str:
    """The sentence that says whether rows are missing here and what leaves them out."""
    name = shape["repository"]["name"] or "this folder"
    causes = find_causes(shape)
    total, shown, ended = rows_here(shape), rows_shown(shape), reasons(shape)
    if not shown and causes:
        return causes[0].sentence
    others = sum(shape["others"].values())
    if not total and not others and not shape["stores"]:
        folder = shape["settings"][DATA_DIR]["value"]
        return f"no memory yet: no store in {folder}; claude-mem makes it in its first session"
    if not total:
        # Rows of the repository's other worktrees are none of a narrower scope.
        scope = shape["settings"][SCOPE]["value"]
        none = f"no memory yet: no row of {name}"
        whose = "other projects"
        if scope != "all" and shape["repository"]["kind"] not in (None, "none"):
            none, whose = (
                f"no row of {name} in scope {scope}",
                "its other worktrees or other projects",
            )
        rest = f"; the stores have {counted(others, 'row')} of {whose} (claudemem-daemon projects)"
        return f"{none} in the stores that were read{rest if others else ''}"
    parts = [f"{ended[reason]:,} {words}" for reason, (words, _) in ENDS.items() if ended[reason]]
    rest = f"; {', '.join(parts)}" if parts else ""
    return f"{shown:,} of {counted(total, 'row')} of {name} {'is' if shown == 1 else 'are'} shown{rest}"


def rows_here(shape: Mapping[str, Any]) -> int:
    """Rows of this repository's keys in all stores."""
    return sum(count["rows"] for count in shape["counts"])


def rows_shown(shape: Mapping[str, Any]) -> int:
    return sum(count["included"] for count in shape["counts"])


def reasons(shape: Mapping[str, Any]) -> Counter[str]:
    """Disposition -> rows, over all projects and stores."""
    total: Counter[str] = Counter()
    for count in shape["counts"]:
        total.update(count["reasons"])
    return total


def _warnings(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Why nothing at all is answered for this folder, a broken link to its repository, and broken
    tables."""
    for warning in shape["warnings"]:
        code = warning["code"]
        if code == "excluded":
            yield Finding(code, warning["message"], _not_excluded(shape, warning))
        elif code in _UNANSWERED and not rows_here(shape):
            yield Finding(code, warning["message"], _UNANSWERED[code])
        elif code == "store_tables":
            path = warning["path"]
            damaged = "malformed" in warning["message"]
            fix = store_fix(path, "corrupt", shape["settings"][DATA_DIR]["value"])
            yield Finding(
                code, warning["message"], fix if damaged else f"sqlite3 {quoted(path)} .schema"
            )
        elif code in ("git_unreadable", "git_contradicted"):
            closed = "may not be looked into" in warning["message"]
            remedy = "chmod -R a+rX .git" if closed else "git worktree repair"
            fix = f"run {remedy} in the main checkout"
            yield Finding(code, warning["message"], fix)


def _not_excluded(shape: Mapping[str, Any], warning: Mapping[str, str]) -> str:
    """The list of exclusions without the pattern that excludes this folder."""
    patterns = tuple(shape["settings"][EXCLUDED]["value"] or ())
    hit = excluding(warning.get("path") or shape["repository"]["name"], patterns)
    hits = {hit} if hit else {p for p in patterns if repr(p) in warning["message"]}
    return paste(shape, EXCLUDED, ",".join(p for p in patterns if p not in hits))


def _limit(shape: Mapping[str, Any]) -> Iterator[Finding]:
    if shape["filters"]["limit"] == 0 and shape["keys"]:
        if shape["filters"]["sources"][LIMIT]["origin"] == "request":
            yield Finding("limit_zero", "the limit is 0, as asked for", "leave out --limit 0")
        else:
            sentence = f"the limit is 0 ({_source(shape, LIMIT)}), so no observation is shown"
            yield Finding("limit_zero", sentence, paste(shape, LIMIT, DEFAULT_LIMIT))


def _source(shape: Mapping[str, Any], key: str) -> str:
    """Which key of which file or environment a setting has its value from."""
    source = shape["settings"][key]
    origin, detail = source["origin"], source["detail"] or key
    if origin in ("caller", "daemon"):
        return f"{detail} in the {origin}'s environment"
    return detail if " in " in detail else f"{key} in {detail}"


def _stores(shape: Mapping[str, Any]) -> Iterator[Finding]:
    folder = shape["settings"][DATA_DIR]["value"]
    for store in shape["stores"]:
        if not store["ok"]:
            fix = store_fix(store["path"], store["reason"], folder)
            error = store["error"] or "a store cannot be read"
            yield Finding(f"store_{store['reason']}", error, fix)


def _settings(shape: Mapping[str, Any]) -> Iterator[Finding]:
    for warning in of_settings(shape)["warnings"]:
        yield Finding(warning["code"], warning["message"], setting_fix(warning, shape))
    for setting in shape["misnamed"]:
        path, name, meant = (setting[part] for part in ("path", "name", "meant"))
        sentence = f"{path}: {name} is not a setting; did you mean {meant}?"
        swap = quoted(f's/"{name}"/"{meant}"/')
        yield Finding("setting_misnamed", sentence, f"sed -i.bak {swap} {quoted(path)}")


def _similar(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Keys of the stores that look like this repository's."""
    by_alias: dict[str, list[Mapping[str, Any]]] = {}
    for project in shape["similar"]:
        by_alias.setdefault(project["alias"], []).append(project)
    for alias, found in by_alias.items():
        names = sorted({project["key"] for project in found})
        keys = ", ".join(map(repr, names[:MAX_NAMED]))
        rows = sum(project["rows"] for project in found)
        sentence = (
            f"{counted(rows, 'row')} under the key{'s' * (len(names) > 1)} {keys} look{'s' * (rows == 1)}"
            f" like this repository's: {found[0]['why']}; was the folder renamed?"
        )
        name, _, older = alias.partition(": ")
        yield Finding("similar_key", sentence, paste(shape, name.strip('"'), json.loads(older)))


def _elsewhere(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """No store where the settings say, but one where claude-mem keeps it by default."""
    path = shape["store_elsewhere"]
    if path is not None:
        folder, source = shape["settings"][DATA_DIR]["value"], _source(shape, DATA_DIR)
        named = os.path.join(folder, os.path.basename(path))
        sentence = f"no store at {named} ({source}), but there is {path}"
        if os.path.lexists(named):
            sentence = f"no row of this repository at {named} ({source}), but {path} has some"
        yield Finding("store_elsewhere", sentence, paste(shape, DATA_DIR, os.path.dirname(path)))


def _filtered(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows exist and none is shown, and no near miss says why."""
    total, ended = rows_here(shape), reasons(shape)
    if not total or rows_shown(shape) or not shape["filters"]["limit"]:
        return
    for reason, kind in (
        ("malformed_concepts", "concepts"),
        ("type_filtered", "types"),
        ("concept_filtered", "concepts"),
    ):
        count, key, values = ended[reason], LISTS[kind], dropped(shape, kind)
        why = " their concepts are not a JSON list, so they have none"
        if reason != "malformed_concepts":
            named = ", ".join(f"{value!r} {rows:,}" for value, rows, _ in values[:MAX_NAMED])
            why = f" {deciding(shape, key)} leaves out {kind} {named or 'none at all'}"
            count = 0 if any(meant for _, _, meant in values) else count
        if count:
            share = "all" if count == total else f"{count:,} of"
            sentence = f"the filter excludes {share} {counted(total, 'row')}:{why}"
            yield Finding(reason, sentence, paste(shape, key, "*"))


def _time(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows that there was no time to compare."""
    left = reasons(shape)["not_read"]
    if left and rows_shown(shape) < shape["filters"]["limit"]:
        now = shape["settings"][TIMEOUT]["value"]
        sentence = f"{counted(left, 'row')} could not be compared in {now} ms ({TIMEOUT})"
        yield Finding("not_read", sentence, paste(shape, TIMEOUT, now * 10))
