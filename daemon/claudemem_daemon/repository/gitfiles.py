"""git's own small files, read as git reads them. Every read is bounded and waits for nothing."""

from __future__ import annotations

import os
import re
import stat
from typing import Final

MOST_BYTES: Final = 64 << 10


def read_small(path: str) -> bytes | None:
    """A regular file's content; None for what is missing, unreadable, huge, or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
            return None
        return os.read(handle, MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(handle)


def read_line(path: str) -> str | None:
    """A one-line file as a path or name, without its line end; a name may hold line breaks, so
    only the last ones go. None when there is nothing in it."""
    data = read_small(path)
    if data is None:
        return None
    return os.fsdecode(data.rstrip(b"\r\n")) or None


def read_gitlink(path: str) -> str | None:
    """The target of a `.git` file, absolute; None when it is no such file."""
    line = read_line(path)
    if line is None or not line.startswith("gitdir:"):
        return None
    target = line.removeprefix("gitdir:").removeprefix(" ")
    return resolve(target, os.path.dirname(path)) if target else None


def resolve(path: str, base: str) -> str:
    """`path` made absolute against `base`; `..` goes by the text, as the links are written."""
    return os.path.normpath(os.path.join(base, path))


def is_git_dir(path: str) -> bool:
    """What git accepts as a git directory: HEAD, and objects and refs of its own or of another."""
    try:
        os.lstat(os.path.join(path, "HEAD"))
    except (OSError, ValueError):
        return False
    if os.path.isfile(os.path.join(path, "commondir")):
        return True
    return os.path.isdir(os.path.join(path, "objects")) and os.path.isdir(
        os.path.join(path, "refs")
    )


def is_foreign(path: str) -> bool:
    """A path of another system: a drive letter, or backslashes for slashes."""
    return re.match(r"[A-Za-z]:[\\/]", path) is not None


def from_windows(path: str) -> str | None:
    """Where WSL mounts a Windows path, if it is there."""
    drive, rest = path[0].lower(), path[3:].replace("\\", "/")
    mounted = f"/mnt/{drive}/{rest}"
    return mounted if os.path.exists(mounted) else None


_SECTION: Final = re.compile(rb'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_SETTING: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")


def read_config(git_dir: str) -> dict[str, str]:
    """The few settings that say where the checkout is: `core.bare`, `core.worktree`,
    `extensions.worktreeconfig`. Includes are not followed; git honours none of these there."""
    settings = _config(os.path.join(git_dir, "config"))
    if truth(settings.get("extensions.worktreeconfig")):
        settings |= _config(os.path.join(git_dir, "config.worktree"))
    return settings


def truth(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "yes", "on", "1", "")


def _config(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    section = b""
    for raw in (read_small(path) or b"").split(b"\n"):
        line = raw.strip()
        head = _SECTION.match(line)
        if head is not None:
            section = head.group(1).lower() if head.group(2) is None else b""
            line = line[head.end() :].strip()
        setting = _SETTING.match(line)
        if setting is None or section not in (b"core", b"extensions"):
            continue
        name = section + b"." + setting.group(1).lower()
        found[os.fsdecode(name)] = os.fsdecode(_value(setting.group(2) or b""))
    return found


def _value(raw: bytes) -> bytes:
    """Quotes, escapes and comments of one value."""
    out = bytearray()
    quoted = False
    kept = 0
    position = 0
    while position < len(raw):
        sign = raw[position : position + 1]
        if sign == b'"':
            quoted = not quoted
        elif sign == b"\\":
            position += 1
            after = raw[position : position + 1]
            out += {b"n": b"\n", b"t": b"\t", b"b": b"\b"}.get(after, after)
            kept = len(out)
        elif sign in (b"#", b";") and not quoted:
            break
        else:
            out += sign
            if quoted or not sign.isspace():
                kept = len(out)
        position += 1
    return bytes(out[:kept])
