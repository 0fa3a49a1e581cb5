"""The names of a folder: links, mounts and Unicode forms give one folder many.

A pattern in a setting counts whichever of them an assistant sends. Where a folder that the pattern
spells out is, by device and inode, on the path, the path has that spelling as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from typing import Final

from claudemem_daemon.dependencies import (
    FileDependency,
    file_identity,
    file_state,
    folder_identity,
    link_steps,
)
from claudemem_daemon.settings.exclusion import nfc

MAX_LISTED: Final = 64
"""Folders that are listed for the links in them that a pattern matches."""

_WILD: Final = re.compile(r"[*?\[]")


class FolderNames:
    """The names of folders in the file system and in `patterns` (only absolute ones spell out a
    folder). For one answer; `dependencies` is what the names were found from."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.dependencies: list[FileDependency] = []
        self._spelled: dict[tuple[int, int], list[str]] = {}
        self._listed = 0
        self._relative = False
        for pattern in dict.fromkeys(patterns):
            if pattern.startswith("/"):
                for folder in self._folders(pattern):
                    identity = folder_identity(folder)
                    if identity is not None:
                        self._spelled.setdefault(identity, []).append(folder)
            else:
                self._relative = True

    def of(self, path: str) -> tuple[str, ...]:
        """The path itself first; all in NFC."""
        if not self._spelled and not self._relative:
            return (nfc(path),)  # No pattern can match by another name.
        found = [path, *link_steps(path)]
        folder, rest = found[-1], ""
        while self._spelled:
            identity = folder_identity(folder)
            spellings = self._spelled.get(identity, ()) if identity is not None else ()
            found += [spelled.rstrip("/") + rest for spelled in spellings]
            if folder == "/":
                break
            folder, leaf = os.path.split(folder)
            rest = f"/{leaf}{rest}"
        return tuple(dict.fromkeys(nfc(name) for name in found))

    def _folders(self, pattern: str) -> Iterator[str]:
        """The folder before the first wildcard; and the links that a pattern without `**` matches."""
        parts = [part for part in pattern.split("/") if part]
        wild = next((n for n, part in enumerate(parts) if _WILD.search(part)), len(parts))
        head = "/" + "/".join(parts[:wild])
        self.dependencies.append(file_identity(head))
        yield head
        while parts and parts[-1] == "**":
            parts.pop()
        if wild < len(parts) and not any("**" in part for part in parts):
            yield from self._matched(head, parts[wild:])

    def _matched(self, folder: str, parts: list[str]) -> Iterator[str]:
        part, *rest = parts
        self._listed += 1
        if self._listed > MAX_LISTED:
            return
        self.dependencies.append(file_state(folder))
        matches = re.compile(translate(nfc(part))).match
        try:
            with os.scandir(folder) as entries:
                found = [entry for entry in entries if matches(nfc(entry.name)) and entry.is_dir()]
        except OSError:
            return
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.is_symlink():
                yield entry.path
            if rest:
                yield from self._matched(entry.path, rest)
