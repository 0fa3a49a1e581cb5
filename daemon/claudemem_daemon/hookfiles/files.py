"""Settings files of assistants, changed as carefully as somebody else's file deserves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from claudemem_daemon import folders
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.codex import untrusted
from claudemem_daemon.hookfiles.commands import MARK, python_line
from claudemem_daemon.hookfiles.disk import check_writable, read_file, write_file
from claudemem_daemon.hookfiles.document import dump, parse
from claudemem_daemon.hookfiles.platforms import PLATFORMS, Platform, target
from claudemem_daemon.hookfiles.plugin import command_of, is_our_plugin, plugin_text
from claudemem_daemon.hookfiles.splice import comments

BACKUP = ".before-claudemem-daemon"


class Change(NamedTuple):
    """What was done to `path`; `backup` is the copy of what was there before, if one was made."""

    path: str
    what: Literal["written", "removed", "unchanged"]
    backup: str | None = None


class Installed(NamedTuple):
    """ours: the commands of our entries. theirs: event and command of each entry that somebody else
    wrote and that asks us too. untrusted: events of ours that the assistant has not been allowed to
    run."""

    ours: tuple[str, ...] = ()
    theirs: tuple[tuple[str, str], ...] = ()
    untrusted: tuple[str, ...] = ()


def install(
    name: str, environ: Mapping[str, str], command: str, project: str | None = None
) -> Change:
    """Put our entries in, or the plugin. Everything else in the file stays, also its indentation,
    its mode and that it is a symbolic link; what was there is copied once as a backup.

    Raises `SettingsError` for a file that is not a JSON object or may not be written, and for a plugin
    that we did not write.
    """
    platform = PLATFORMS[name]
    path = target(platform, environ, project)
    before = read_file(path)
    if platform.shape == "plugin":
        if before is not None and not is_our_plugin(before):
            raise SettingsError(f"{path} is not as we wrote it; move it away, nothing was changed")
        fresh, had_ours = plugin_text(command), True
    else:
        settings = parse(before, path, with_comments=platform.comments)
        merged = merge.merged(settings, platform, command, path)
        if merged == settings:
            return Change(path, "unchanged")
        fresh = _dump(platform, path, merged, before)
        had_ours = bool(merge.our_commands(settings, platform))
    if fresh == before:
        return Change(path, "unchanged")
    check_writable(path)
    backup = None
    if before is not None and not had_ours:
        backup = path + BACKUP
        write_file(backup, before, environ, like=path)
    write_file(path, fresh, environ, like=path, backup=backup)
    return Change(path, "written", backup)


def uninstall(name: str, environ: Mapping[str, str], project: str | None = None) -> Change:
    """Take our entries out. Where nothing else changed since `install`, the file becomes byte for
    byte what it was, or goes if we had made it, and so do its folders. A link is nothing that we
    make, nor is a file of which there is a backup. A plugin that somebody changed stays.

    Raises `SettingsError` as `install` does.
    """
    platform = PLATFORMS[name]
    path = target(platform, environ, project)
    before = read_file(path)
    if before is None:
        return Change(path, "unchanged")
    if platform.shape == "plugin":
        fresh, made_by_us = ("", True) if is_our_plugin(before) else (before, False)
    else:
        fresh, made_by_us = _without_ours(platform, path, before)
    if fresh == before:
        return Change(path, "unchanged")
    check_writable(path)
    if not (made_by_us and _removed(path)):
        write_file(path, fresh, environ, like=path)
    with suppress(FileNotFoundError):
        os.unlink(path + BACKUP)
    folders.unmake(os.path.dirname(os.path.realpath(path)), environ)
    return Change(path, "removed")


def installed(
    platform: Platform, environ: Mapping[str, str], project: str | None = None
) -> Installed:
    """What is in the file; nothing where it cannot be read."""
    path = target(platform, environ, project)
    try:
        text = read_file(path)
        if platform.shape == "plugin":
            command = command_of(text or "")
            theirs = () if text is None or command else (("plugin", path),)
            return Installed((command,) if command else (), theirs)
        settings = parse(text, path, with_comments=platform.comments)
    except SettingsError:
        return Installed()
    return Installed(
        tuple(merge.our_commands(settings, platform)),
        tuple(merge.their_commands(settings, platform)),
        tuple(untrusted(environ, path, settings)) if platform.asks else (),
    )


def _removed(path: str) -> bool:
    """Whether the file is gone now; a mount point cannot be removed."""
    with suppress(OSError):
        os.unlink(path)
    return not os.path.lexists(path)


def _dump(platform: Platform, path: str, value: dict[str, Any], before: str | None) -> str:
    text = dump(value, before)
    if text is None:
        raise SettingsError(
            f"{path} cannot be changed without loss of a comment; nothing was changed: change it by"
            f" hand, as `claudemem-daemon hooks print {platform.name}` shows it"
        )
    return text


def _without_ours(platform: Platform, path: str, before: str) -> tuple[str, bool]:
    """The text of the file without our entries, and whether we made the file and nobody else wrote
    anything into it."""
    settings = parse(before, path, with_comments=platform.comments)
    left = merge.without(settings, platform)
    if left == settings:
        return before, False
    saved = read_file(path + BACKUP)
    if saved is not None and comments(before) == comments(saved):
        with suppress(SettingsError):
            command = python_line(platform.name, f"/{MARK}")
            earlier = parse(saved, path, with_comments=platform.comments)
            merged = merge.merged(earlier, platform, command, path)
            if merge.without(merged, platform) == left:
                return saved, False
    made_by_us = (
        left in ({}, dict(platform.extra))
        and saved is None
        and not os.path.islink(path)
        and not comments(before)
    )
    return _dump(platform, path, left, before), made_by_us
