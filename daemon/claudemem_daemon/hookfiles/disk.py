"""Somebody else's file: read, and replaced whole or left as it was."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO, Final

from claudemem_daemon import folders
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.permissions import access_fix, of_another

MAX_SETTINGS: Final = 16 << 20
"""Characters of a settings file; what has more was not written for an assistant."""


def read_file(path: str) -> str | None:
    """The text of a settings file, None where there is none. Raises `SettingsError`."""
    try:
        _no_dangling_link(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise SettingsError(f"{path} is not a regular file; move it away, nothing was changed")
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read(MAX_SETTINGS + 1)
        if len(text) > MAX_SETTINGS:
            raise SettingsError(f"{path} has more than 16 MiB; move it away, nothing was changed")
        return text
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(_unchanged(path, f"read ({what})", error)) from None


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
                f" `{access_fix(path, 'w')}` first, or change what makes it"
            )


def write_file(
    path: str, text: str, environ: Mapping[str, str], *, like: str, backup: str | None = None
) -> None:
    """Replace the file whole, with the mode of `like`; or leave it as it was, and without `backup`."""
    try:
        replace_file(path, text.encode(), environ, like=like)
    except OSError as error:
        if backup is not None:
            with suppress(OSError):
                os.unlink(backup)
        raise SettingsError(_unchanged(path, f"written ({error.strerror})", error)) from None


def replace_file(path: str, data: bytes, environ: Mapping[str, str], *, like: str) -> None:
    """Replace the file, of a link the target, and make its folder; where that fails, nothing is left
    of it. A file that is a mount point cannot be replaced and is written in place. A new one has the
    mode of `like`, if there is such a file. Raises `OSError`."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    with folders.made(folder, environ):
        handle, temporary = tempfile.mkstemp(prefix=".claudemem-", dir=folder)
        try:
            with open(handle, "wb") as file:
                _overwrite(file, data)
            with suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(like).st_mode & 0o7777)
            try:
                os.replace(temporary, real)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                _write_in_place(real, data)
        finally:
            with suppress(OSError):
                os.unlink(temporary)


def _write_in_place(path: str, data: bytes) -> None:
    with open(path, "r+b") as file:
        before = file.read()
        try:
            _overwrite(file, data)
        except OSError:
            _overwrite(file, before)
            raise


def _overwrite(file: BinaryIO, data: bytes) -> None:
    file.seek(0)
    file.write(data)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _unchanged(path: str, failed: str, error: Exception) -> str:
    first = f": `{access_fix(path)}` first" if isinstance(error, PermissionError) else ""
    return f"{path} cannot be {failed}; nothing was changed{first}"


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
