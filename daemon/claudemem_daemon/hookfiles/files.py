"""Settings files of assistants, changed as carefully as somebody else's file deserves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from claudemem_daemon import folders
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.codex import untrusted
from claudemem_daemon.hookfiles.commands import MARK, python_line
from claudemem_daemon.hookfiles.comments import comments
from claudemem_daemon.hookfiles.disk import check_writable, read_file, write_file
from claudemem_daemon.hookfiles.document import dump, dumped, parse
from claudemem_daemon.hookfiles.platforms import PLATFORMS, Platform, target

BACKUP = ".before-claudemem-daemon"


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to `path`; `backup` is the copy of what was there before, if one was made, and
    `theirs` are event and command of entries that somebody else wrote and that ask us too."""

    path: str
    what: Literal["written", "unchanged", "removed", "nothing"]
    backup: str | None = None
    theirs: tuple[tuple[str, str], ...] = ()


def install(
    platform: str, environ: Mapping[str, str], command: str, project: str | None = None
) -> Change:
    """Put our entries in. Everything else in the file stays, also its indentation, its mode and
    that it is a symbolic link; what was there is kept once as a backup.

    Raises `SettingsError` for a file that is no JSON object or may not be written.
    """
    known = PLATFORMS[platform]
    path = target(known, environ, project)
    text = read_file(path)
    settings = parse(known, path, text)
    fresh = merge.merged(settings, known, command, path)
    theirs = tuple(merge.their_commands(settings, known))
    if fresh == settings:
        return Change(path, "unchanged", theirs=theirs)
    check_writable(path)
    backup = None
    if text is not None and not merge.our_commands(settings, known):
        backup = path + BACKUP
        write_file(backup, text, environ, like=path)
    write_file(path, dumped(known, path, fresh, text), environ, like=path, backup=backup)
    return Change(path, "written", backup, theirs)


def uninstall(platform: str, environ: Mapping[str, str], project: str | None = None) -> Change:
    """Take our entries out. Where nothing else changed since `install`, the file becomes byte for
    byte what it was, or goes if we had made it, and so do its folders. A link is nothing that we
    make, nor is a file of which there is a backup.

    Raises `SettingsError` as `install` does.
    """
    known = PLATFORMS[platform]
    path = target(known, environ, project)
    text = read_file(path)
    if text is None:
        return Change(path, "nothing")
    settings = parse(known, path, text)
    fresh = merge.without(settings, known)
    theirs = tuple(merge.their_commands(settings, known))
    if fresh == settings:
        return Change(path, "nothing", theirs=theirs)
    check_writable(path)
    saved = read_file(path + BACKUP)
    said = comments(text)
    if saved is not None and said == comments(saved) and _nothing_else(path, saved, fresh, known):
        write_file(path, saved, environ, like=path)
    elif _was_made_by_us(path, known, fresh) and saved is None and not said:
        try:
            os.unlink(path)
        except OSError:  # a mount point
            write_file(path, dump(fresh, text), environ, like=path)
    else:
        write_file(path, dumped(known, path, fresh, text), environ, like=path)
    with suppress(FileNotFoundError):
        os.unlink(path + BACKUP)
    folders.unmake(os.path.dirname(os.path.realpath(path)), environ)
    return Change(path, "removed", theirs=theirs)


@dataclass(frozen=True, slots=True)
class Installed:
    """`ours`: the commands of our entries. `theirs`: as in `Change`. `untrusted`: events of ours
    that the assistant has not been allowed to run."""

    ours: tuple[str, ...] = ()
    theirs: tuple[tuple[str, str], ...] = ()
    untrusted: tuple[str, ...] = ()


def installed(platform: Platform, environ: Mapping[str, str], project: str | None) -> Installed:
    """What is in the file, for `doctor`; nothing where it cannot be read."""
    path = target(platform, environ, project)
    try:
        settings = parse(platform, path, read_file(path))
    except SettingsError:
        return Installed()
    return Installed(
        tuple(merge.our_commands(settings, platform)),
        tuple(merge.their_commands(settings, platform)),
        tuple(untrusted(environ, path, settings)) if platform.name == "codex" else (),
    )


def _nothing_else(path: str, saved: str, fresh: dict[str, Any], known: Platform) -> bool:
    """Whether `fresh` is what the saved file becomes by our coming and going alone."""
    try:
        settings = parse(known, path, saved)
        command = python_line(known.name, "/" + MARK)
        return merge.without(merge.merged(settings, known, command, path), known) == fresh
    except SettingsError:
        return False


def _was_made_by_us(path: str, known: Platform, fresh: dict[str, Any]) -> bool:
    """Whether nothing is left that anybody else may have written."""
    return fresh in ({}, dict(known.extra)) and not os.path.islink(path)
