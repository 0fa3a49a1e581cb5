"""What keeps rows out of a folder's context, each cause in the same words wherever it is told, with
a fix that can be pasted. Pure: from the explanation's JSON shape.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.diagnostics.fixes import LIMIT, LISTS, paste, setting_fix, store_fix
from claudemem_daemon.diagnostics.near import Near, near
from claudemem_daemon.settings.exclusion import excluding
from claudemem_daemon.shapes import of_settings
from claudemem_daemon.stores.locate import quoted

EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"
TIMEOUT: Final = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
DEFAULT_LIMIT: Final = 50
MAX_NAMED: Final = 6


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why rows are missing. sentence: what, and which file or key; fix: what to do, or
    empty where nothing can be done."""

    code: str
    sentence: str
    fix: str


def find_causes(shape: Mapping[str, Any]) -> tuple[Cause, ...]:
    """The causes in an explanation, what explains most first."""
    found: dict[str, Cause] = {}
    for cause in (
        *_silent(shape),
        *_limit(shape),
        *_stores(shape),
        *_settings(shape),
        *_misnamed(shape),
        *_lists(shape),
        *_similar(shape),
        *_elsewhere(shape),
        *_filtered(shape),
        *_other_repository(shape),
        *_time(shape),
    ):
        found.setdefault(cause.sentence, cause)
    return tuple(found.values())


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


def _silent(shape: Mapping[str, Any]) -> Iterator[Cause]:
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
        yield Cause(code, warning["message"], fix)


def _limit(shape: Mapping[str, Any]) -> Iterator[Cause]:
    if shape["filters"]["limit"] == 0 and shape["keys"]:
        source = shape["filters"]["sources"][LIMIT]
        where = source["detail"] or source["origin"]
        sentence = f"the limit is 0 ({LIMIT}: {where}), so no observation is shown"
        if source["origin"] == "request":
            yield Cause("limit_zero", "the limit is 0, as asked for", "leave --limit 0 away")
        else:
            yield Cause("limit_zero", sentence, paste(shape, LIMIT, DEFAULT_LIMIT))


def _stores(shape: Mapping[str, Any]) -> Iterator[Cause]:
    folder = shape["settings"]["CLAUDE_MEM_DATA_DIR"]["value"]
    for store in shape["stores"]:
        if not store["ok"]:
            own = os.path.dirname(store["path"]) == folder
            fix = store_fix(store["path"], store["reason"], own=own)
            yield Cause(f"store_{store['reason']}", store["error"] or "a store cannot be read", fix)


def _settings(shape: Mapping[str, Any]) -> Iterator[Cause]:
    for warning in of_settings(shape)["warnings"]:
        yield Cause(warning["code"], warning["message"], setting_fix(warning))


def _misnamed(shape: Mapping[str, Any]) -> Iterator[Cause]:
    for setting in shape["misnamed"]:
        path, name, meant = (setting[part] for part in ("path", "name", "meant"))
        swap = quoted(f's/"{name}"/"{meant}"/')
        yield Cause(
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


def _lists(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """Near misses of the two lists."""
    for kind, key in LISTS.items():
        named: list[str] = []
        wanted = list(shape["filters"][kind])
        for value, rows, meant in dropped(shape, kind):
            if meant is None:
                continue
            named.append(f"{value!r} ({_rows(rows)}): {meant.words}")
            listed = value.strip().lower()
            if meant.misspelt in wanted and meant.misspelt:
                wanted[wanted.index(meant.misspelt)] = listed
            elif listed not in wanted:
                wanted.append(listed)
        if named:
            commas = any("," in entry for entry in wanted)
            fix = paste(shape, key, wanted if commas else ",".join(wanted))
            sentence = f"{kind} left out by {key}: {'; '.join(named[:MAX_NAMED])}"
            yield Cause(f"{kind}_near_miss", sentence, fix)


def _similar(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """Keys of the stores that look like this repository's."""
    by_alias: dict[str, list[Mapping[str, Any]]] = {}
    for project in shape["similar"]:
        by_alias.setdefault(project["alias"], []).append(project)
    for alias, found in by_alias.items():
        names = sorted({project["key"] for project in found})
        keys = ", ".join(map(repr, names[:MAX_NAMED]))
        rows = sum(project["rows"] for project in found)
        sentence = (
            f"{_rows(rows)} under the key{'s' * (len(names) > 1)} {keys} look{'s' * (rows == 1)}"
            f" like this repository's: {found[0]['why']}; was the folder renamed?"
        )
        name, _, older = alias.partition(": ")
        yield Cause("similar_key", sentence, paste(shape, name.strip('"'), json.loads(older)))


def _elsewhere(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """No store where the settings say, but one where claude-mem keeps it by default."""
    path = shape["store_elsewhere"]
    if path is not None:
        setting = shape["settings"]["CLAUDE_MEM_DATA_DIR"]
        where = setting["detail"] or setting["origin"]
        folder = os.path.dirname(path)
        missing = os.path.join(setting["value"], os.path.basename(path))
        sentence = f"no store at {missing} (CLAUDE_MEM_DATA_DIR: {where}), but there is {path}"
        fix = paste(shape, "CLAUDE_MEM_DATA_DIR", folder)
        yield Cause("store_elsewhere", sentence, fix)


def _filtered(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """Rows exist and none is shown, and no near miss says why."""
    total, ended = rows_here(shape), reasons(shape)
    if not total or rows_shown(shape) or not shape["filters"]["limit"]:
        return
    for reason, kind in (("type_filtered", "types"), ("concept_filtered", "concepts")):
        key, count = LISTS[kind], ended.get(reason, 0)
        if not count:
            continue
        values = dropped(shape, kind)[:MAX_NAMED]
        named = ", ".join(f"{value!r} {rows:,}" for value, rows, _ in values) or "none at all"
        sentence = (
            f"the filter excludes {'all' if count == total else f'{count:,} of'} {_rows(total)}:"
            f" {key} leaves out {kind} {named}"
        )
        yield Cause(reason, sentence, paste(shape, key, "*"))


def _other_repository(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """All rows of our keys are another repository's."""
    for warning in shape["warnings"]:
        if warning["code"] == "ambiguous_key" and not rows_here(shape):
            fix = "give each repository its own store by CLAUDE_MEM_DAEMON_STORES"
            yield Cause("ambiguous_key", warning["message"], fix)


def _time(shape: Mapping[str, Any]) -> Iterator[Cause]:
    """Rows that there was no time to compare."""
    left = reasons(shape).get("not_read", 0)
    if left and rows_shown(shape) < shape["filters"]["limit"]:
        now = shape["settings"][TIMEOUT]["value"]
        sentence = f"{_rows(left)} could not be compared in {now} ms ({TIMEOUT})"
        yield Cause("not_read", sentence, paste(shape, TIMEOUT, now * 10))


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"


def verdict(shape: Mapping[str, Any]) -> str:
    """The one sentence that says whether rows are missing here and what keeps them out."""
    name = shape["repository"]["name"] or "this folder"
    causes = find_causes(shape)
    total, shown, ended = rows_here(shape), rows_shown(shape), reasons(shape)
    if not shown and causes:
        return causes[0].sentence
    if not total:
        others = sum(shape["others"].values())
        rest = f"; the stores have {_rows(others)} of other projects" if others else ""
        return f"no memory yet: no row of {name} in the stores that were read{rest}"
    parts = [
        f"{ended[reason]:,} {words}" for reason, (words, _) in ENDS.items() if ended.get(reason)
    ]
    rest = f"; {', '.join(parts)}" if parts else ""
    return f"{shown:,} of {_rows(total)} of {name} {'is' if shown == 1 else 'are'} shown{rest}"


ENDS: Final = {
    "excluded": ("of an excluded checkout", "excluded checkout"),
    "type_filtered": ("of a type that the list leaves out", "type not listed"),
    "concept_filtered": ("without a concept of the list", "concepts not listed"),
    "malformed_concepts": ("with concepts that are no JSON list", "unreadable concepts"),
    "platform_filtered": ("of another assistant", "other assistant's"),
    "other_repository": ("of another repository", "other repository's"),
    "duplicate_of": ("the same as another row", "duplicates"),
    "not_read": ("not compared in time", "not compared in time"),
    "over_limit": ("beyond the limit", "beyond the limit"),
    "over_size": ("beyond the size", "beyond the size"),
}
"""Where rows end, in the order of the filters -> in a sentence, beside a bar."""
