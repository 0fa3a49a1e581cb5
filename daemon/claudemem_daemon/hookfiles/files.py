"""Settings files of assistants, changed as carefully as somebody else's file deserves."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from claudemem_daemon import folders
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.codex import untrusted
from claudemem_daemon.hookfiles.commands import MARK, python_line
from claudemem_daemon.hookfiles.comments import blanked, comments
from claudemem_daemon.hookfiles.platforms import PLATFORMS, Platform, target
from claudemem_daemon.hookfiles.splice import splice
from claudemem_daemon.local import of_another

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
    settings = _parse(known, path, text)
    fresh = merge.merged(settings, known, command, path)
    theirs = tuple(merge.their_commands(settings, known))
    if fresh == settings:
        return Change(path, "unchanged", theirs=theirs)
    check_writable(path)
    backup = None
    if text is not None and not merge.our_commands(settings, known):
        backup = path + BACKUP
        write_file(backup, text, environ, like=path)
    write_file(path, _dumped(known, path, fresh, text), environ, like=path, backup=backup)
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
    settings = _parse(known, path, text)
    fresh = merge.without(settings, known)
    theirs = tuple(merge.their_commands(settings, known))
    if fresh == settings:
        return Change(path, "nothing", theirs=theirs)
    check_writable(path)
    saved = read_file(path + BACKUP)
    said = comments(text) if known.comments else []
    if (
        saved is not None
        and said == (comments(saved) if known.comments else [])
        and _nothing_else(path, saved, fresh, known)
    ):
        write_file(path, saved, environ, like=path)
    elif _was_made_by_us(path, known, fresh) and saved is None and not said:
        try:
            os.unlink(path)
        except OSError:  # a mount point
            write_file(path, _dump(fresh, text), environ, like=path)
    else:
        write_file(path, _dumped(known, path, fresh, text), environ, like=path)
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
        settings = _parse(platform, path, read_file(path))
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
        settings = _parse(known, path, saved)
        command = python_line(known.name, "/" + MARK)
        return merge.without(merge.merged(settings, known, command, path), known) == fresh
    except SettingsError:
        return False


def _was_made_by_us(path: str, known: Platform, fresh: dict[str, Any]) -> bool:
    """Whether nothing is left that anybody else may have written."""
    return fresh in ({}, dict(known.extra)) and not os.path.islink(path)


def check_writable(path: str) -> None:
    """A file whose owner may not write it was made so by somebody who means it, or by a program
    that makes it anew; the folder would let us replace it all the same.

    Raises `SettingsError`; for what belongs to another user, too.
    """
    refused = of_another(os.path.realpath(path))
    if refused is not None:
        raise SettingsError(refused)
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if not mode & stat.S_IWUSR or not os.access(path, os.W_OK):
            raise SettingsError(
                f"{path} is write-protected (mode {stat.S_IMODE(mode):04o}); nothing was changed:"
                " `chmod u+w` it first, or change what makes it"
            )


def _no_dangling_link(path: str) -> None:
    """What a link points to is its owner's to make: a disk that is not mounted, a checkout of
    dotfiles that is not there yet.

    Raises `SettingsError`.
    """
    at = path
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if not os.path.exists(at):
        raise SettingsError(
            f"{at} is a link to {os.path.realpath(at)}, where nothing is; nothing was changed:"
            " make that first, or remove the link"
        )


def read_file(path: str) -> str | None:
    try:
        _no_dangling_link(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise SettingsError(f"{path} is not a regular file; move it away, nothing was changed")
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(f"{path} cannot be read ({what}); nothing was changed") from None


def _parse(known: Platform, path: str, text: str | None) -> dict[str, Any]:
    text = blanked(text) if text is not None and known.comments else text
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(
            text.removeprefix("\ufeff"), parse_constant=_no_json, object_pairs_hook=_once
        )
    except _TwiceError as error:
        raise SettingsError(
            f"{path} has {str(error)[:80]!r} twice in one object, of which only one could stay;"
            " mend it first, nothing was changed"
        ) from None
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{path} is no JSON (line {error.lineno} column {error.colno}: {error.msg});"
            " mend it first, nothing was changed"
        ) from None
    except (ValueError, RecursionError):
        raise SettingsError(
            f"{path} is no JSON that can be read; mend it first, nothing was changed"
        ) from None
    if not isinstance(value, dict):
        raise SettingsError(f"{path} is no JSON object; mend it first, nothing was changed")
    return value


class _TwiceError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, one in pairs:
        if name in value:
            raise _TwiceError(name)
        value[name] = one
    return value


def _no_json(name: str) -> None:
    """NaN and Infinity, which Python reads and no assistant does."""
    raise ValueError(name)


def _dumped(known: Platform, path: str, value: dict[str, Any], before: str | None) -> str:
    if before is None or not known.comments or not comments(before):
        return _dump(value, before)
    if not blanked(before).strip():
        return before.rstrip() + "\n" + _dump(value, None)
    made = splice(before, value, _unit(before) or "  ", ascii_only=False, with_comments=True)
    if made is None:
        raise SettingsError(
            f"{path} cannot be changed without loss of a comment; nothing was changed: change it by"
            f" hand, as `claudemem-daemon hooks print {known.name}` shows it"
        )
    return made


def _unit(text: str) -> str:
    """The indentation of the second line, which is that of one level."""
    second = next((line for line in text.splitlines()[1:] if line.strip() not in ("", "}")), "")
    return second[: len(second) - len(second.lstrip())]


def _dump(value: dict[str, Any], before: str | None) -> str:
    """What was written before with the change in it; where that does not go, written anew with the
    same indentation, script and last line break."""
    if before is None or not before.strip():
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    text = before.removeprefix("\ufeff")
    lead = _unit(text)
    ascii_only = text.isascii() and "\\u" in text
    made = splice(text, value, lead or "  ", ascii_only=ascii_only)
    if made is None:
        indent = (lead or 2) if "\n" in text.strip() else None
        made = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        made += text[len(text.rstrip()) :]
    return mark + made


def write_file(
    path: str, text: str, environ: Mapping[str, str], *, like: str, backup: str | None = None
) -> None:
    """Replace the file whole, or leave it as it was, and without `backup`: a link's target, with
    the mode it had. A file that is a mount point cannot be replaced and is written in place."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        folders.make(folder, environ)
        handle, temporary = tempfile.mkstemp(prefix=".claudemem-", dir=folder)
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(like).st_mode & 0o7777)
            _put(temporary, real, text)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    except OSError as error:
        if backup is not None:
            with suppress(OSError):
                os.unlink(backup)
        raise SettingsError(
            f"{path} cannot be written ({error.strerror}); nothing was changed"
        ) from None


def _put(temporary: str, real: str, text: str) -> None:
    try:
        os.replace(temporary, real)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        with open(real, "r+", encoding="utf-8", newline="") as file:
            before = file.read()
            try:
                _overwrite(file, text)
            except OSError:
                _overwrite(file, before)
                raise


def _overwrite(file: TextIO, text: str) -> None:
    file.seek(0)
    file.write(text)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())
