"""What the programs on one machine agree on: paths, and what a caller sends along of its environment.

The bottom of the package: everything may import this, and it imports `os` and `sys` alone, for the
hook does.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
"""As in `typing`, whose import alone costs a third of a hook."""

if TYPE_CHECKING:
    from collections.abc import Mapping

PLATFORMS = ("claude-code", "codex", "cursor", "gemini-cli", "copilot-cli", "opencode", "raw")

MAX_LOG = 64 << 10
"""Bytes of `hook.log`."""

HERE = "PWD"
"""Sent as if it were a variable: where we run, whatever the variable of that name says."""

SUN_PATH_MAX = 103
"""Bytes; macOS has room for 104 with the closing NUL, Linux for 108. One limit for both."""

MAX_LIST = 4 << 20
"""Characters that are read of a list of our own; one that has more is none of ours."""

MAX_ENVIRONMENT = 24 << 10
"""Bytes of the caller's variables in one request; the daemon takes headers of 32 KiB."""

FORWARDED = (
    "CLAUDECODE",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_PROJECT_DIR",
    "CURSOR_PROJECT_DIR",
    "CURSOR_VERSION",
    "GEMINI_CWD",
    "GEMINI_PROJECT_DIR",
    "COPILOT_CLI",
    "CODEX_HOME",
    "TZ",
)
"""Besides `CLAUDE_MEM_*`: what tells who calls, where, and in which time zone."""


def home_dir(environ: Mapping[str, str]) -> str:
    """HOME, or the password database's word for a process without one."""
    home = environ.get("HOME")
    if home and home.startswith("/"):
        return home.rstrip("/") or "/"
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/nonexistent"


def state_dir(environ: Mapping[str, str]) -> str:
    """Our own folder: `CLAUDEMEM_DAEMON_HOME`, else `~/.claude-mem/daemon`. Depends on HOME alone,
    so that a shell, a hook, cron, ssh and the service all agree."""
    given = environ.get("CLAUDEMEM_DAEMON_HOME")
    if given:
        moved = expand(given, environ)
        if moved.startswith("/"):
            return moved.rstrip("/") or "/"
    return home_dir(environ) + "/.claude-mem/daemon"


def socket_path(environ: Mapping[str, str]) -> str:
    """`CLAUDEMEM_DAEMON_SOCKET`, else `daemon.sock` in the state folder; where that is too long
    for a socket address, a short path derived from it in a private folder below /tmp."""
    given = environ.get("CLAUDEMEM_DAEMON_SOCKET")
    path = expand(given, environ) if given else ""
    if not path.startswith("/"):
        path = state_dir(environ) + "/daemon.sock"
    if len(os.fsencode(path)) <= SUN_PATH_MAX:
        return path
    import hashlib

    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return f"{short_dir()}/{name}.sock"


def short_dir() -> str:
    """Where sockets with too long a name go: ours alone, or refused."""
    return f"/tmp/claudemem-{os.getuid()}"  # noqa: S108 - checked by `private_dir` before use


def private_dir(path: str) -> bool:
    """A real folder, ours, closed to everybody else."""
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    return seen.st_mode & 0o170077 == 0o040000 and seen.st_uid == os.getuid()


def other_owner(path: str) -> int | None:
    """The uid of another user in whose folder `path` is or would be made; None where it is ours.

    Under sudo HOME may be the caller's: a file that root makes there is in the way of its owner for
    good. Folders of root are everybody's: in a container even HOME may be one.
    """
    while True:
        try:
            owner = os.lstat(path).st_uid
        except OSError:
            path = os.path.dirname(path) or "/"
            if path == "/":
                return None
            continue
        return None if owner in (os.geteuid(), 0) else owner


def open_own(path: str, flags: int) -> int:
    """A regular file of ours, opened so that nothing can block; a new one has mode 0600.

    Where something else is in its place, it is put aside if the file may be created. Raises
    `OSError`.
    """
    if not _is_own(path):
        if not flags & os.O_CREAT:
            raise OSError(0, "not a regular file of yours", path)
        put_aside(path)
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def replace_own(path: str, data: bytes, *, sync: bool = True) -> None:
    """Write a file of ours whole, or leave it as it was. For one writer at a time: the name of the
    file in between is always the same, so that of a killed one the next writer leaves no litter.
    Raises `OSError`."""
    fresh = path + ".new"
    file = open_own(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while data:
            data = data[os.write(file, data) :]
        if sync:
            os.fsync(file)
    except OSError:
        os.unlink(fresh)
        raise
    finally:
        os.close(file)
    move_own(fresh, path)


def move_own(source: str, path: str) -> None:
    """Rename a file of ours to `path`. Raises `OSError`."""
    if not _is_own(path):
        put_aside(path)
    os.replace(source, path)


def put_aside(path: str) -> None:
    """Rename what is at `path` to `<path>.aside`. What was put aside before is replaced, but for a
    folder, which stays: then a number follows. Raises `OSError`."""
    aside, number = path + ".aside", 1
    while os.path.lexists(aside) and (os.path.isdir(aside) or os.path.isdir(path)):
        number += 1
        aside = f"{path}.aside{number}"
    os.rename(path, aside)


def _is_own(path: str) -> bool:
    """A regular file of ours, or nothing yet."""
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return True
    return seen.st_mode & 0o170000 == 0o100000 and seen.st_uid == os.geteuid()


def expand(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        return home_dir(environ) + path[1:]
    return path


def peer_uid(connection: _socket.socket) -> int | None:
    """Who is at the other end of a Unix socket; None where the system does not tell."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is not None:
        return int.from_bytes(
            connection.getsockopt(_socket.SOL_SOCKET, option, 12)[4:8], sys.byteorder
        )
    if sys.platform == "darwin":
        # struct xucred: version, uid, ...; SOL_LOCAL is 0, LOCAL_PEERCRED is 1.
        return int.from_bytes(connection.getsockopt(0, 1, 76)[4:8], sys.byteorder)
    return None


def caller_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of a process that asks, the variables that decide its answer. The short ones come first, and
    those beyond MAX_ENVIRONMENT are left out."""
    known = [
        (len(quote(value)) + len(name) + len("Claudemem-Env: =\r\n"), name)
        for name, value in environ.items()
        if name in FORWARDED or (name.startswith("CLAUDE_MEM_") and _plain(name))
    ]
    chosen: dict[str, str] = {}
    size = 0
    for length, name in sorted(known):
        size += length
        if size <= MAX_ENVIRONMENT:
            chosen[name] = environ[name]
    return chosen


def environment_headers(environ: Mapping[str, str]) -> list[str]:
    """`caller_environment` as values of the header `Claudemem-Env`."""
    return [f"{name}={quote(value)}" for name, value in caller_environment(environ).items()]


def _plain(name: str) -> bool:
    """Whether a header can carry the name; no setting has another."""
    return name.isascii() and name.isidentifier()


_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/,:*=@+")


def quote(value: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(value))
