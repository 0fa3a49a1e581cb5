"""Whether this user may use a path, why not, and the command that changes it."""

from __future__ import annotations

import os
import shlex
import stat
from typing import NamedTuple

from claudemem_daemon.local import other_owner

ELSEWHERE = "name a folder that you may write in CLAUDEMEM_DAEMON_HOME"


class Trouble(NamedTuple):
    """What is wrong with a folder, and the command that ends it, or what to do where no command
    does."""

    message: str
    fix: str

    @property
    def line(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


def folder_trouble(path: str) -> Trouble | None:
    """Why `path` is not a folder of ours that nobody else can enter, or cannot be made one; None
    where it is one, or is missing and can be made."""
    refused = of_another(path)
    if refused is not None:
        return Trouble(refused, "")
    at = _existing(path)
    what = at if at == path else f"{path} cannot be made: {at}"
    aside = f"mv {quoted(at)} {quoted(at + '.aside')}"
    if os.path.islink(path):
        return Trouble(f"{path} is a symbolic link and has to be a folder", aside)
    if not os.path.isdir(at):
        return Trouble(f"{what} is not a folder", aside)
    seen = os.stat(at)
    if at == path and seen.st_uid != os.geteuid():
        return Trouble(f"{path} belongs to user {seen.st_uid}, not to you", aside)
    if at == path and seen.st_mode & 0o077:
        mode = stat.S_IMODE(seen.st_mode)
        message = f"{path} is open to others (mode {mode:04o}): see what is in it first"
        return Trouble(message, f"chmod 700 {quoted(path)}")
    if os.access(at, os.W_OK | os.X_OK):
        return None
    if os.statvfs(at).f_flag & os.ST_RDONLY:
        return Trouble(f"{what} is on a read-only file system", ELSEWHERE)
    above = os.stat(os.path.dirname(at))
    ours = os.geteuid() in (seen.st_uid, above.st_uid)
    return Trouble(f"{what} is write-protected", access_fix(at) if ours else ELSEWHERE)


def of_another(path: str) -> str | None:
    """The line that refuses to write where `other_owner` names somebody; None where nobody."""
    owner = other_owner(path)
    if owner is None:
        return None
    return (
        f"{path} belongs to user {owner} and this is user {os.geteuid()}: nothing was written; run"
        f" it as user {owner}, without sudo"
    )


def access_fix(path: str, rights: str = "r") -> str:
    """The command that gives this user `rights` to a file. Where a folder above it is closed, or
    the file is missing because its folder is write-protected, it is about that folder. What is
    another's in a folder that is not ours is theirs to open."""
    at, user = _existing(path), os.geteuid()
    owner = os.lstat(at).st_uid  # It may be a link to itself.
    if owner != user and os.stat(os.path.dirname(at)).st_uid == user:
        return f"sudo chown {user} {quoted(at)}"
    if owner != user:
        return f"ask user {owner}, whose {at} is, for access"
    return f"chmod u+{'rwx' if os.path.isdir(at) else rights} {quoted(at)}"


def quoted(path: str) -> str:
    """The path as a shell takes it back, odd bytes included."""
    if path.isprintable():
        return shlex.quote(path)
    body = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}"
        for byte in os.fsencode(path)
    )
    return f"$'{body}'"


def _existing(path: str) -> str:
    """The path, or the folder above it in which the next part is missing or cannot be seen."""
    while not os.path.lexists(path):
        path = os.path.dirname(path) or "."
    return path
