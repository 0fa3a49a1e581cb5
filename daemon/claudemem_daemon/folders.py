"""Folders that an install makes on its way, remembered so that an uninstall can take them back.

An empty folder may well be somebody's; so only those go again that are in the list, and only while
they are empty. The list lies in our own state folder and goes with its last entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from claudemem_daemon.local import MAX_LIST, open_own, replace_own, state_dir
from claudemem_daemon.permissions import of_another

LIST = "folders.json"


@contextmanager
def made(folder: str, environ: Mapping[str, str]) -> Iterator[None]:
    """With `folder` and all that was missing above it; where the work in it fails, without them
    again. Nothing is made in a folder of another user. Raises `OSError`."""
    refused = of_another(folder)
    if refused is not None:
        raise PermissionError(0, refused)
    missing = _missing(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        yield
    except OSError:
        _remove(missing)
        raise
    if missing:
        # Without the list nothing is lost but that the folders stay.
        with suppress(OSError):
            _remember(missing, environ)


def unmake(folder: str, environ: Mapping[str, str]) -> None:
    """Remove `folder` and those above it that `made` made, where nothing is in them any more."""
    made = _read(environ)
    if not made:
        return
    _remove(above for above in made if _within(folder, above))
    own = os.path.dirname(_path(environ))
    left = [path for path in made if os.path.isdir(path)]
    with suppress(OSError):
        if any(not _within(own, path) for path in left):
            _write(left, environ)
        else:
            os.unlink(_path(environ))
            _remove(left)


def _missing(folder: str) -> list[str]:
    found: list[str] = []
    while folder != "/" and not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _within(folder: str, above: str) -> bool:
    return folder == above or folder.startswith(above + "/")


def _remove(folders: Iterable[str]) -> None:
    """The deepest first; what is not empty stays."""
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(folder)


def _remember(folders: Iterable[str], environ: Mapping[str, str]) -> None:
    own = os.path.dirname(_path(environ))
    also = _missing(own)
    os.makedirs(own, mode=0o700, exist_ok=True)
    try:
        _write(dict.fromkeys((*_read(environ), *folders, *also)), environ)
    except OSError:
        _remove(also)
        raise


def _path(environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), LIST)


def _read(environ: Mapping[str, str]) -> list[str]:
    try:
        with open(open_own(_path(environ), os.O_RDONLY), encoding="ascii") as file:
            made = json.loads(file.read(MAX_LIST))
    except (OSError, ValueError, RecursionError):
        return []
    return [path for path in made if isinstance(path, str)] if isinstance(made, list) else []


def _write(folders: Iterable[str], environ: Mapping[str, str]) -> None:
    replace_own(_path(environ), (json.dumps(list(folders), indent=1) + "\n").encode("ascii"))
