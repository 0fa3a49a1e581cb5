"""The listening socket: bound by ourselves, or handed over by systemd."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from claudemem_daemon.errors import DaemonError

BACKLOG: Final = 1024
FIRST_FD: Final = 3
"""Where systemd's sockets begin (sd_listen_fds(3))."""


class Listening(NamedTuple):
    """An open listening socket; `identity` is device and inode of its file. The file of an
    inherited one is not ours to touch."""

    sock: socket.socket
    path: str
    identity: tuple[int, int] | None
    inherited: bool

    def in_place(self) -> bool:
        """Whether a client that connects to the path reaches us; of an inherited socket only
        whether there is anything, for its owner may have made it anew."""
        seen = _identity(self.path)
        return seen is not None if self.inherited else seen == self.identity

    def state(self) -> dict[str, Any]:
        """The permission bits of the file (0o600) and its owner's uid, None where it is gone."""
        try:
            seen = os.lstat(self.path)
        except OSError:
            mode, owner = None, None
        else:
            mode, owner = stat.S_IMODE(seen.st_mode), seen.st_uid
        return {"path": self.path, "mode": mode, "owner": owner, "inherited": self.inherited}

    def unlink(self) -> None:
        """Remove the file, if it is the one we bound and not somebody's after us."""
        if not self.inherited and self.in_place():
            with suppress(OSError):
                os.unlink(self.path)


def bind(path: str) -> Listening:
    """A new socket at `path`, mode 0600 from its first instant.

    A socket file that is there already is replaced: the caller holds the lock, so nobody serves
    it. Anything else there stays, and is a `DaemonError`.
    """
    _clear(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode of a socket file is what the umask leaves at bind; a chmod afterwards would come too
    # late for whoever is quick, and fails on some mounts.
    before = os.umask(0o177)
    try:
        sock.bind(os.fsencode(path))
        identity = _identity(path)
    except OSError as error:
        sock.close()
        raise DaemonError(_refused(path, error)) from error
    finally:
        os.umask(before)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return Listening(sock, path, identity, inherited=False)


def taken(path: str) -> bool:
    """Whether a process listens on the socket at `path`. For systemd this is a first question, at
    which it starts its own daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.setblocking(False)
        try:
            client.connect(os.fsencode(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def inherited(environ: MutableMapping[str, str]) -> Listening | None:
    """The socket that the service manager opened, None when it gave us none.

    The variables that told of it are taken out of `environ`: they are for this process alone.
    Raises `DaemonError` for a descriptor that is no listening Unix stream socket.
    """
    given = {name: environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if given["LISTEN_PID"] != str(os.getpid()):
        return None
    if not given["LISTEN_FDS"].isdecimal():
        raise DaemonError(f"LISTEN_FDS={given['LISTEN_FDS']!r} is not a number; mend the unit")
    count = int(given["LISTEN_FDS"])
    if count > 1:
        raise DaemonError(
            f"{count} sockets were handed over and one is wanted; keep one Listen line"
        )
    return _adopt(FIRST_FD) if count else None


def _adopt(fd: int) -> Listening:
    where = f"file descriptor {fd} from the service manager"
    try:
        os.set_inheritable(fd, False)
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise DaemonError(f"{where} is not a socket ({error.strerror}); mend the unit") from error
    wrong = None
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        wrong = "is not a Unix stream socket"
    elif not _listens(sock):
        wrong = "does not listen"
    if wrong is not None:
        sock.close()
        raise DaemonError(f"{where} {wrong}; mend the unit")
    sock.setblocking(False)
    path = os.fsdecode(sock.getsockname())
    return Listening(sock, path, _identity(path), inherited=True)


def _listens(sock: socket.socket) -> bool:
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        # macOS has the option for Unix sockets only since some release; bind() vouches there.
        return True


def _refused(path: str, error: OSError) -> str:
    what = error.strerror or str(error)
    return f"cannot listen on {path}: {what}; CLAUDEMEM_DAEMON_SOCKET puts it elsewhere"


def _clear(path: str) -> None:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DaemonError(_refused(path, error)) from error
    if not stat.S_ISSOCK(seen.st_mode):
        kind = "a folder" if stat.S_ISDIR(seen.st_mode) else "a file that is not a socket"
        raise DaemonError(f"{path} is {kind} and stays as it is; move it away and start again")
    if seen.st_uid != os.geteuid():
        raise DaemonError(f"{path} belongs to user {seen.st_uid}, not to you; remove it")
    with suppress(FileNotFoundError):
        os.unlink(path)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino)
