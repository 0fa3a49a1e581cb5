"""claude-mem's modes: which types and concepts there are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.evidence import Evidence, look
from claudemem_daemon.settings.model import Mode, ModeItem
from claudemem_daemon.settings.sources import Rejected, parse, read_bytes

CODE: Final = Mode(
    id="code",
    name="Code",
    types=(
        ModeItem("bugfix", "bug fix", "●", "⚒"),
        ModeItem("feature", "feature", "◆", "⚒"),
        ModeItem("refactor", "refactoring", "↻", "⚒"),
        ModeItem("change", "change", "✓", "⚒"),
        ModeItem("discovery", "discovery", "○", "⌕"),
        ModeItem("decision", "decision", "⚖", "⚖"),
        ModeItem("security_alert", "security alert", "⚠", "⚠"),
        ModeItem("security_note", "security note", "⚷", "⚷"),
    ),
    concepts=(
        ModeItem("how-it-works", "how it works"),
        ModeItem("why-it-exists", "why it exists"),
        ModeItem("what-changed", "what changed"),
        ModeItem("problem-solution", "problem and solution"),
        ModeItem("gotcha", "gotcha"),
        ModeItem("pattern", "pattern"),
        ModeItem("trade-off", "trade-off"),
    ),
    path=None,
)


@dataclass(frozen=True, slots=True)
class LoadedMode:
    """The mode in force, what to tell of it, and every file that was looked for."""

    mode: Mode
    problem: str | None
    evidence: tuple[Evidence, ...]


def folders(modes_dir: str | None, data_dir: str, claude_dir: str) -> tuple[str, ...]:
    """Where mode files may lie, the user's own first, then an installed claude-mem plugin's."""
    plugins = os.path.join(claude_dir, "plugins")
    cache = os.path.join(plugins, "cache", "thedotmack", "claude-mem")
    try:
        versions = sorted(os.listdir(cache), key=_version, reverse=True)[:1]
    except OSError:
        versions = []
    return (
        *((modes_dir,) if modes_dir else ()),
        os.path.join(data_dir, "modes"),
        *(os.path.join(cache, version, "modes") for version in versions),
        os.path.join(plugins, "marketplaces", "thedotmack", "plugin", "modes"),
    )


def load(wanted: str, places: tuple[str, ...]) -> LoadedMode:
    """The mode `wanted`; `parent--variant` inherits from `parent`, and is the parent where there
    is no such variant. What is unknown or broken is the built-in `code`, with one problem."""
    evidence: list[Evidence] = []
    parent, _, variant = wanted.partition("--")
    base = _read(parent, places, evidence)
    problem: str | None = None
    if isinstance(base, Rejected):
        problem = base.reason
        base = None
    if base is None and parent != "code":
        problem = problem or f"no mode {parent!r} in {places[0]}"
        return LoadedMode(CODE, f"{problem}; the built-in mode code stands", tuple(evidence))
    shape: Mapping[str, Any] = base or {}
    if variant:
        over = _read(wanted, places, evidence)
        if isinstance(over, Rejected):
            problem = f"{over.reason}; its parent {parent} stands"
        elif over is not None:
            shape = _merged(shape, over)
    if not shape:
        return LoadedMode(CODE, problem, tuple(evidence))
    path = next((one.path for one in evidence if one.state is not None), None)
    mode = Mode(
        id=wanted,
        name=str(shape.get("name") or wanted),
        types=_items(shape.get("observation_types")) or CODE.types,
        concepts=_items(shape.get("observation_concepts"))
        if "observation_concepts" in shape
        else CODE.concepts,
        path=path,
    )
    return LoadedMode(mode, problem, tuple(evidence))


def _read(
    name: str, places: tuple[str, ...], evidence: list[Evidence]
) -> Mapping[str, Any] | Rejected | None:
    for place in places:
        path = os.path.join(place, f"{name}.json")
        evidence.append(look(path))
        data = read_bytes(path)
        if data is None:
            continue
        shape = data if isinstance(data, Rejected) else parse(data)
        if isinstance(shape, Rejected):
            return Rejected(f"{path} {shape.reason}")
        return shape
    return None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(below, value) if both else value  # type: ignore[arg-type]  # checked
    return merged


def _items(value: object) -> tuple[ModeItem, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        ModeItem(
            one["id"].strip().lower(),
            str(one.get("label") or one["id"]),
            str(one.get("emoji") or ""),
            str(one.get("work_emoji") or ""),
        )
        for one in value
        if isinstance(one, dict) and isinstance(one.get("id"), str) and one["id"].strip()
    )


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in name.split("."))
