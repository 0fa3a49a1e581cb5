"""claude-mem's modes: which types and concepts there are.

A mode is a JSON file `<id>.json` with `name`, `observation_types` and `observation_concepts`, the
latter lists of objects with `id`, `label` and emojis; what else claude-mem keeps in it is for its
own use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from claudemem_daemon.dependencies import FileState, outermost_state
from claudemem_daemon.settings.model import Mode, ModeItem
from claudemem_daemon.settings.sources import Document, Rejected, document, line_of, read_bytes

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

_LANGUAGES: Final = """
    ar bn cs da de el es fi fr he hi hu id it ja ko nl no pl pt pt-br ro ru sv th tr uk ur vi zh
    zh-tw
"""
_WITHOUT_A_FILE: Final = {CODE.id, *(f"code--{language}" for language in _LANGUAGES.split())}
"""The built-in mode, and its variants that claude-mem ships. These change the language that it
writes in, neither types nor concepts; so without their file nothing is missing."""

_MAX_ITEMS: Final = 500
MAX_MODES: Final = 50
"""Mode files of one folder that `all` reads: claude-mem has fewer, but for variants."""
MAX_LABEL: Final = 60
MAX_VERSIONS: Final = 8
_IN_A_VERSION: Final = (("modes",), ("plugin", "modes"))
"""Where a version in the plugin cache has its modes."""


class LoadedMode(NamedTuple):
    """The mode in force, what to tell of it, and every file that was looked for."""

    mode: Mode
    problem: str | None
    dependencies: tuple[FileState, ...]


class ModeFolders:
    """Folders that may hold mode files, in order of precedence: the user's own, then those of an
    installed claude-mem plugin, of every version: the newest may be half installed or half removed."""

    def __init__(self, modes_dir: str | None, data_dir: str, claude_dir: str) -> None:
        plugins = os.path.join(claude_dir, "plugins")
        cache = os.path.join(plugins, "cache", "thedotmack", "claude-mem")
        self._looked_for = {outermost_state(cache): None}
        try:
            versions = sorted(os.listdir(cache), key=_version, reverse=True)[:MAX_VERSIONS]
        except OSError:
            versions = []
        self._folders = (
            *((modes_dir,) if modes_dir else ()),
            os.path.join(data_dir, "modes"),
            *(os.path.join(cache, name, *path) for name in versions for path in _IN_A_VERSION),
            os.path.join(plugins, "marketplaces", "thedotmack", "plugin", "modes"),
        )

    def load(self, wanted: str) -> LoadedMode:
        """The mode `wanted`, an id that may be a file name.

        `parent--variant` is the variant's file laid over the parent's. Without the variant's file
        the parent is used, and `code` for what is unknown or broken; `problem` is one line on that.
        """
        parent = wanted.partition("--")[0]
        mode, values = CODE, dict[str, Any]()
        for name in dict.fromkeys((parent, wanted)):
            path, read = self._read(name)
            problem = None
            if isinstance(read, Document):
                # What we take are a name and two lists, and a list is replaced as a whole.
                values |= read.values
                found = _mode(name, values, path)
                mode = found or mode
                problem = None if found else f"{path} has no list of observation_types"
            elif read is not None:
                problem = f"{path} {read.reason}"
            elif name not in _WITHOUT_A_FILE:
                problem = f"there is no {name}.json in {self._folders[0]}"
            if problem is not None:
                used = "built-in mode code" if name == parent else f"mode {parent}"
                return LoadedMode(mode, f"{problem}; the {used} is used", tuple(self._looked_for))
            mode = mode._replace(id=wanted)
        return LoadedMode(mode, None, tuple(self._looked_for))

    def all(self) -> tuple[Mode, ...]:
        """The modes that have a file, without their variants, and the built-in one."""
        found = {CODE.id: CODE}
        for folder in self._folders:
            try:
                files = sorted(
                    name
                    for name in os.listdir(folder)
                    if name.endswith(".json") and "--" not in name
                )
            except OSError:
                continue
            for name in (file.removesuffix(".json") for file in files[:MAX_MODES]):
                loaded = self.load(name) if name not in found else None
                if loaded is not None and loaded.problem is None:
                    found[name] = loaded.mode
        return tuple(found.values())

    def _read(self, name: str) -> tuple[str, Document | Rejected | None]:
        """The first file of that name; None where there is none."""
        for folder in self._folders:
            path = os.path.join(folder, f"{name}.json")
            self._looked_for[outermost_state(path)] = None
            data = read_bytes(path) if os.path.isdir(folder) else None
            if data is not None:
                return path, document(data) if isinstance(data, bytes) else data
        return "", None


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
