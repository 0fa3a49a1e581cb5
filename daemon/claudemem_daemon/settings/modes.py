"""claude-mem's modes: which types and concepts there are.

A mode is a JSON file `<id>.json` with `name`, `observation_types` and `observation_concepts`, the
latter lists of objects with `id`, `label` and emojis; what else claude-mem keeps in it is for its
own use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.settings.model import Mode, ModeItem
from claudemem_daemon.settings.sources import Rejected, document, line_of, read_bytes

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
        ModeItem("sensitive", "sensitive", "◐", "◐"),
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

_SHIPPED: Final = """
    ar bn cs da de el es fi fr he hi hu id it ja ko nl no pl pt pt-br ro ru sv th tr uk ur vi zh
    zh-tw
"""

LANGUAGES: Final = frozenset(_SHIPPED.split())
"""Variants of `code` that claude-mem ships. They change the language that it writes in, neither
types nor concepts; so without their file nothing is missing."""

_MAX_ITEMS: Final = 500
MAX_LABEL: Final = 60
MAX_VERSIONS: Final = 8
_IN_A_VERSION: Final = (("modes",), ("plugin", "modes"))
"""Where a version in the plugin cache has its modes."""


@dataclass(frozen=True, slots=True)
class LoadedMode:
    """The mode in force, what to tell of it, and every file that was looked for."""

    mode: Mode
    problem: str | None
    dependencies: tuple[FileState, ...]


@dataclass(frozen=True, slots=True)
class ModeFolders:
    """Folders that may hold mode files, in the order of precedence."""

    paths: tuple[str, ...]
    dependencies: tuple[FileState, ...]


def folders(modes_dir: str | None, data_dir: str, claude_dir: str) -> ModeFolders:
    """The user's own folders first, then those of an installed claude-mem plugin, newest version
    first: the newest folder may be without modes, half installed or half removed."""
    plugins = os.path.join(claude_dir, "plugins")
    cache = os.path.join(plugins, "cache", "thedotmack", "claude-mem")
    try:
        versions = sorted(os.listdir(cache), key=_version, reverse=True)[:MAX_VERSIONS]
    except OSError:
        versions = []
    return ModeFolders(
        (
            *((modes_dir,) if modes_dir else ()),
            os.path.join(data_dir, "modes"),
            *(os.path.join(cache, name, *path) for name in versions for path in _IN_A_VERSION),
            os.path.join(plugins, "marketplaces", "thedotmack", "plugin", "modes"),
        ),
        (_state(cache),),
    )


def load(wanted: str, where: ModeFolders) -> LoadedMode:
    """The mode `wanted`, an id that may be a file name.

    `parent--variant` is the variant's file laid over the parent's. Without the variant's file the
    parent is used, and `code` for what is unknown or broken; `problem` then says so in one line.
    """
    dependencies = dict.fromkeys(where.dependencies)
    parent, _, variant = wanted.partition("--")

    def loaded(mode: Mode, problem: str | None = None) -> LoadedMode:
        return LoadedMode(mode, problem, tuple(dependencies))

    found = _find(parent, where, dependencies)
    if isinstance(found, Rejected):
        return loaded(CODE, f"{found.reason}; the built-in mode code is used")
    if found is None and parent != CODE.id:
        missing = f"there is no {parent}.json in {where.paths[0]}"
        return loaded(CODE, f"{missing}; the built-in mode code is used")
    mode = replace(CODE if found is None else found.mode, id=wanted)
    over = _find(wanted, where, dependencies, below=found) if variant else None
    if isinstance(over, Rejected):
        return loaded(mode, f"{over.reason}; the mode {parent} is used")
    if over is not None:
        return loaded(over.mode)
    if not variant or (parent == CODE.id and variant in LANGUAGES):
        return loaded(mode)
    missing = f"there is no {wanted}.json in {where.paths[0]}"
    return loaded(mode, f"{missing}; the mode {parent} is used")


def all_modes(where: ModeFolders) -> tuple[Mode, ...]:
    """Every mode there is a file of, and the built-in one; for people who look for an id."""
    found = {CODE.id: CODE}
    for folder in where.paths:
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        except OSError:
            continue
        for name in (name.removesuffix(".json") for name in names[:_MAX_ITEMS]):
            if "--" not in name and name not in found:
                mode = load(name, where)
                if mode.problem is None:
                    found[name] = mode.mode
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Found:
    mode: Mode
    shape: Mapping[str, Any]


def _find(
    name: str, where: ModeFolders, dependencies: dict[FileState, None], below: _Found | None = None
) -> _Found | Rejected | None:
    """The first file of that name, over what is `below`; None where there is no such file."""
    for folder in where.paths:
        path = os.path.join(folder, f"{name}.json")
        dependencies[_state(path)] = None
        data = read_bytes(path) if os.path.isdir(folder) else None
        if data is None:
            continue
        read = document(data) if isinstance(data, bytes) else data
        if isinstance(read, Rejected):
            return Rejected(f"{path} {read.reason}")
        shape = read.values
        if below is not None:
            # What we take are a name and two lists, and a list is replaced as a whole.
            shape = {**below.shape, **shape}
        mode = _mode(name, shape, path)
        if mode is None:
            return Rejected(f"{path} has no list of observation_types")
        return _Found(mode, shape)
    return None


def _state(path: str) -> FileState:
    """The state of `path`, or of the outermost folder on the way to it that is missing: nothing can
    appear below before that does, and paths that share it are checked together later."""
    found = file_state(path)
    while found.state is None and found.path != "/":
        above = file_state(os.path.dirname(found.path))
        if above.state is not None:
            break
        found = above
    return found


def _mode(name: str, shape: Mapping[str, Any], path: str) -> Mode | None:
    """The mode of a file's values. A variant of the built-in `code` need not name its types; any
    other mode must. One without concepts has nothing to restrict them by."""
    of_code = name.partition("--")[0] == CODE.id
    types = _items(shape.get("observation_types"))
    if not types and not (of_code and "observation_types" not in shape):
        return None
    concepts = _items(shape.get("observation_concepts"))
    return Mode(
        id=name,
        name=line_of(shape.get("name"), MAX_LABEL) or name,
        types=types or CODE.types,
        concepts=CODE.concepts if of_code and "observation_concepts" not in shape else concepts,
        path=path,
    )


def _items(value: object) -> tuple[ModeItem, ...]:
    if not isinstance(value, list):
        return ()
    items: dict[str, ModeItem] = {}
    for entry in value[:_MAX_ITEMS]:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and name.strip():
            key = name.strip().lower()
            label, emoji, work = (
                line_of(entry.get(part), MAX_LABEL) for part in ("label", "emoji", "work_emoji")
            )
            items[key] = ModeItem(key, label or line_of(name, MAX_LABEL), emoji, work)
    return tuple(items.values())


def _version(name: str) -> tuple[bool, list[int]]:
    """Sorts folders of the plugin cache; a name without a dot is no version."""
    return "." in name.strip("."), [int(part[:9]) for part in re.findall(r"[0-9]+", name)]
