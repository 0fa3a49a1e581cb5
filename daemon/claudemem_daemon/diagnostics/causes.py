"""What keeps rows out of a folder's context, each cause in the same words wherever it is told, with
a fix that can be pasted. Pure: from the explanation's JSON shape.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.diagnostics.fixes import LIMIT, LISTS, paste, setting_fix, store_fix
from claudemem_daemon.diagnostics.near import Near, near
from claudemem_daemon.settings.exclusion import excluding
from claudemem_daemon.shapes import of_settings
from claudemem_daemon.stores.locate import quoted

DATA_DIR: Final = "CLAUDE_MEM_DATA_DIR"
EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"
TIMEOUT: Final = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
DEFAULT_LIMIT: Final = 50
MAX_NAMED: Final = 6


def find_causes(shape: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The causes in an explanation, what explains most first."""
    found: dict[str, Finding] = {}
    for cause in (
        *_silent(shape),
        *_git(shape),
        *_limit(shape),
        *_stores(shape),
        *_lists(shape),
        *_settings(shape),
        *_misnamed(shape),
        *_similar(shape),
        *_elsewhere(shape),
        *_filtered(shape),
        *_other_repository(shape),
        *_time(shape),
    ):
        found.setdefault(cause.sentence, cause)
    return tuple(found.values())


def _cause(code: str, sentence: str, fix: str) -> Finding:
    return Finding(code, "warning", sentence, fix)


def rows_here(shape: Mapping[str, Any]) -> int:
    """Rows of this repository's keys in all stores."""
    return sum(count["rows"] for count in shape["counts"])


def rows_shown(shape: Mapping[str, Any]) -> int:
    return sum(count["included"] for count in shape["counts"])


def reasons(shape: Mapping[str, Any]) -> dict[str, int]:
    """Disposition -> rows, over all projects and stores."""
    total: dict[str, int] = {}
    for count in shape["counts"]:
        for reason, rows in count["reasons"].items():
            total[reason] = total.get(reason, 0) + rows
    return total


_SILENT: Final = {
    "excluded": "",
    "cwd_vanished": "ask from a folder that exists, or name one with --cwd",
    "cwd_nameless": "ask from a checkout, or for projects by name with --projects",
    "cwd_no_folder": "name a folder with --cwd",
}


def _silent(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Why nothing at all is answered for this folder."""
    for warning in shape["warnings"]:
        code = warning["code"]
        if code not in _SILENT or (code != "excluded" and rows_here(shape)):
            continue
        fix = _SILENT[code]
        if code == "excluded":
            patterns = list(shape["settings"][EXCLUDED]["value"] or ())
            path = warning.get("path") or shape["repository"]["name"]
            hit = excluding(path, tuple(patterns))
            hits = {hit} if hit else {p for p in patterns if repr(p) in warning["message"]}
            fix = paste(shape, EXCLUDED, ",".join(p for p in patterns if p not in hits))
        yield _cause(code, warning["message"], fix)


def _git(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """A checkout whose link to its repository is broken."""
    for warning in shape["warnings"]:
        if warning["code"] in ("git_unreadable", "git_contradicted"):
            fix = "run git worktree repair in the main checkout"
            yield _cause(warning["code"], warning["message"], fix)


def _limit(shape: Mapping[str, Any]) -> Iterator[Finding]:
    if shape["filters"]["limit"] == 0 and shape["keys"]:
        if shape["filters"]["sources"][LIMIT]["origin"] == "request":
            yield _cause("limit_zero", "the limit is 0, as asked for", "leave --limit 0 away")
        else:
            sentence = f"the limit is 0 ({_source(shape, LIMIT)}), so no observation is shown"
            yield _cause("limit_zero", sentence, paste(shape, LIMIT, DEFAULT_LIMIT))


def _source(shape: Mapping[str, Any], key: str) -> str:
    """Which key of which file or environment a setting has its value from."""
    source = shape["settings"][key]
    origin, detail = source["origin"], source["detail"] or key
    if origin in ("caller", "daemon"):
        return f"{detail} in the {origin}'s environment"
    return detail if " in " in detail else f"{key} in {detail}"


def _stores(shape: Mapping[str, Any]) -> Iterator[Finding]:
    folder = shape["settings"]["CLAUDE_MEM_DATA_DIR"]["value"]
    for store in shape["stores"]:
        if not store["ok"]:
            own = os.path.dirname(store["path"]) == folder
            fix = store_fix(store["path"], store["reason"], own=own)
            yield _cause(
                f"store_{store['reason']}", store["error"] or "a store cannot be read", fix
            )


def _settings(shape: Mapping[str, Any]) -> Iterator[Finding]:
    for warning in of_settings(shape)["warnings"]:
        yield _cause(warning["code"], warning["message"], setting_fix(warning, shape))


def _misnamed(shape: Mapping[str, Any]) -> Iterator[Finding]:
    for setting in shape["misnamed"]:
        path, name, meant = (setting[part] for part in ("path", "name", "meant"))
        swap = quoted(f's/"{name}"/"{meant}"/')
        yield _cause(
            "setting_misnamed",
            f"{path}: {name} is no setting; did you mean {meant}?",
            f"sed -i.bak {swap} {quoted(path)}",
        )


def dropped(shape: Mapping[str, Any], kind: str) -> list[tuple[str, int, Near | None]]:
    """Values that a list leaves out, the most frequent first, with what each may be meant to be."""
    allowed = shape["filters"][kind]
    values = shape["dropped"][kind]
    return [
        (value, rows, near(value, allowed, shape["modes"][kind]))
        for value, rows in sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _lists(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Near misses of the two lists."""
    for kind, key in LISTS.items():
        named: list[str] = []
        wanted = list(shape["filters"][kind])
        for value, rows, meant in dropped(shape, kind):
            if meant is None:
                continue
            named.append(f"{value!r} ({counted(rows, 'row')}): {meant.words}")
            listed = value.strip().lower()
            if meant.misspelt in wanted and meant.misspelt:
                wanted[wanted.index(meant.misspelt)] = listed
            elif listed not in wanted:
                wanted.append(listed)
        if named:
            commas = any("," in entry for entry in wanted)
            if wanted == list(shape["filters"][kind]):
                # Blanks around a value are in the rows; what is written in a list has none.
                wanted = ["*"]
            fix = paste(shape, key, wanted if commas else ",".join(wanted))
            sentence = f"{kind} left out by {key}: {'; '.join(named[:MAX_NAMED])}"
            sentence += _of_other_modes(shape, kind)
            yield _cause(f"{kind}_near_miss", sentence, fix)


def _of_other_modes(shape: Mapping[str, Any], kind: str) -> str:
    """What the list has that only other modes know."""
    modes, mode = shape["modes"][kind], shape["settings"]["CLAUDE_MEM_MODE"]["value"]
    found = [value for value in shape["filters"][kind] if mode not in modes.get(value, [mode])]
    if not found:
        return ""
    return f"; the list has {', '.join(found[:MAX_NAMED])} of the mode {modes[found[0]][0]}"


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
        yield _cause("similar_key", sentence, paste(shape, name.strip('"'), json.loads(older)))


def _elsewhere(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """No store where the settings say, but one where claude-mem keeps it by default."""
    path = shape["store_elsewhere"]
    if path is not None:
        folder = shape["settings"][DATA_DIR]["value"]
        named, source = os.path.join(folder, os.path.basename(path)), _source(shape, DATA_DIR)
        if os.path.lexists(named):
            sentence = f"no row of this repository at {named} ({source}), but {path} has some"
        else:
            sentence = f"no store at {named} ({source}), but there is {path}"
        yield _cause("store_elsewhere", sentence, paste(shape, DATA_DIR, os.path.dirname(path)))


def _filtered(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows exist and none is shown, and no near miss says why."""
    total, ended = rows_here(shape), reasons(shape)
    if not total or rows_shown(shape) or not shape["filters"]["limit"]:
        return
    if count := ended.get("malformed_concepts", 0):
        sentence = (
            f"the filter excludes {'all' if count == total else f'{count:,} of'} {counted(total, 'row')}:"
            " their concepts are no JSON list, so they have none"
        )
        yield _cause("malformed_concepts", sentence, paste(shape, LISTS["concepts"], "*"))
    for reason, kind in (("type_filtered", "types"), ("concept_filtered", "concepts")):
        key, count, values = LISTS[kind], ended.get(reason, 0), dropped(shape, kind)
        if not count or any(meant for _, _, meant in values):
            continue
        named = ", ".join(f"{value!r} {rows:,}" for value, rows, _ in values[:MAX_NAMED])
        named = named or "none at all"
        sentence = (
            f"the filter excludes {'all' if count == total else f'{count:,} of'} {counted(total, 'row')}:"
            f" {key} leaves out {kind} {named}"
        )
        yield _cause(reason, sentence, paste(shape, key, "*"))


def _other_repository(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """All rows of our keys are another repository's."""
    for warning in shape["warnings"]:
        if warning["code"] == "ambiguous_key" and not rows_here(shape):
            fix = "give each repository its own store by CLAUDE_MEM_DAEMON_STORES"
            yield _cause("ambiguous_key", warning["message"], fix)


def _time(shape: Mapping[str, Any]) -> Iterator[Finding]:
    """Rows that there was no time to compare."""
    left = reasons(shape).get("not_read", 0)
    if left and rows_shown(shape) < shape["filters"]["limit"]:
        now = shape["settings"][TIMEOUT]["value"]
        sentence = f"{counted(left, 'row')} could not be compared in {now} ms ({TIMEOUT})"
        yield _cause("not_read", sentence, paste(shape, TIMEOUT, now * 10))
