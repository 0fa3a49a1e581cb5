"""git's own small files, read as git reads them. Every read is bounded, and none waits."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Final

from claudemem_daemon.dependencies import (
    file_state,
    folder_identity,
    is_file,
    is_folder,
    once,
    something_at,
    unrecorded,
)

MAX_BYTES: Final = 64 << 10
MAX_CONFIG_BYTES: Final = 256 << 20
"""Tools write thousands of branches into one config."""


def _open(path: str, max_bytes: int) -> int:
    """A descriptor of a regular file. Raises `OSError` or `ValueError` for anything else."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    seen = os.fstat(handle)
    if stat.S_ISREG(seen.st_mode) and seen.st_size <= max_bytes:
        return handle
    os.close(handle)
    raise OSError(f"{path} is not a file of at most {max_bytes} bytes")


def _read(path: str) -> str | None:
    data = b""
    with suppress(OSError, ValueError), open(_open(path, MAX_BYTES), "rb") as file:
        data = file.read(MAX_BYTES)
    return None if b"\0" in data else os.fsdecode(data.rstrip(b"\r\n")) or None


def read_line(path: str) -> str | None:
    """A one-line file as a path or name; a name may contain line breaks, so only those at the end
    are removed. None for a file that is empty or missing."""
    # The stat comes first, or a change before the reading would not show.
    exists = file_state(path).state is not None
    return once("content", path, _read) if exists else None


def read_gitlink(path: str) -> str | None:
    """The target of a `.git` file, absolute or of another system; None when it is no such file."""
    line = read_line(path)
    if line is None or not line.startswith("gitdir:"):
        return None
    target = line.removeprefix("gitdir:").removeprefix(" ")
    if is_windows(target):
        return target
    return resolve(target, os.path.dirname(path)) if target else None


def resolve(path: str, base: str) -> str:
    """`path` made absolute against `base`; `..` goes by the text, as the links are written."""
    return os.path.normpath(os.path.join(base, path))


def is_git_dir(path: str) -> bool:
    """Whether git accepts it as a git directory. What it goes by is directly in the folder, so the
    folder's times tell when that comes or goes."""
    file_state(path)
    with unrecorded():
        return (
            something_at(os.path.join(path, "HEAD"))
            and is_folder(os.path.join(path, "objects"))
            and is_folder(os.path.join(path, "refs"))
        )


def is_of_worktree(git_dir: str) -> bool:
    """Whether it is the git directory of a linked worktree, which is read next."""
    with unrecorded():
        return is_file(os.path.join(git_dir, "commondir"))


def is_windows(path: str) -> bool:
    """A path of another system: with a drive letter, or of a share."""
    return re.match(r"[A-Za-z]:[\\/]|\\\\", path) is not None


def on_this_system(path: str) -> str | None:
    """The path itself, or where WSL mounts a Windows path, if it is there."""
    if not is_windows(path):
        return path
    if path.startswith("\\"):
        return None
    drive, rest = path[0].lower(), path[3:].replace("\\", "/")
    mounted = f"/mnt/{drive}/{rest}"
    return mounted if file_state(mounted).state is not None else None


def same_folder(path: str, other: str) -> bool:
    """Whether both paths lead to one folder, whatever links, mounts or letter case they go by."""
    if path == other:
        return True
    identity = folder_identity(path)
    return identity is not None and identity == folder_identity(other)


_SECTION: Final = re.compile(rb'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_SETTING: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")


_ESCAPES: Final = {rb"\n": b"\n", rb"\t": b"\t", rb"\b": b"\b"}


def read_config(git_dir: str) -> dict[str, str]:
    """The settings that tell where the checkout is: `core.bare`, `core.worktree`,
    `extensions.worktreeconfig`, which git ignores in included files."""
    settings = _read_config(os.path.join(git_dir, "config"))
    if truth(settings.get("extensions.worktreeconfig")):
        return settings | _read_config(os.path.join(git_dir, "config.worktree"))
    return settings


def _read_config(path: str) -> dict[str, str]:
    file_state(path)
    return once("config", path, _config)


def truth(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "yes", "on", "1", "")


def _config(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    section = b""
    with suppress(OSError, ValueError), open(_open(path, MAX_CONFIG_BYTES), "rb") as file:
        for raw in file:
            line = raw.strip()
            head = _SECTION.match(line) if line.startswith(b"[") else None
            if head is not None:
                section = head.group(1).lower() if head.group(2) is None else b""
                line = line[head.end() :].strip()
            if section not in (b"core", b"extensions") or b"\0" in line:
                continue
            setting = _SETTING.match(line)
            if setting is not None:
                name = section + b"." + setting.group(1).lower()
                found[os.fsdecode(name)] = os.fsdecode(_value(setting.group(2) or b""))
    return found


def _value(raw: bytes) -> bytes:
    """The value without quotes, escapes and comments."""
    out, end, quoted = bytearray(), 0, False
    for sign in re.findall(rb"\\.|.", raw, re.DOTALL):
        if sign == b'"':
            quoted = not quoted
        elif sign in (b"#", b";") and not quoted:
            break
        else:
            out += _ESCAPES.get(sign, sign.removeprefix(b"\\"))
            if quoted or not sign.isspace():
                end = len(out)
    return bytes(out[:end])
