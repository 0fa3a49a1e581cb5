"""The fast door: a hook's standard input to the daemon, the daemon's answer to standard output.

Nothing of the package and nothing outside the standard library is imported here, and of that only
modules written in C where there is a choice: `socket`, `json` and `signal` cost more to import than
the whole question takes. Runs as `claudemem-daemon hook PLATFORM` and as a script of its own
(`python -I -S hook.py PLATFORM`).

Whatever happens, it exits 0 inside its deadline and prints one JSON object or nothing. Why it
printed nothing goes to `hook.log` in the state folder, a line each.

`state_dir` and `socket_path` are the one place where these are worked out, for client and daemon.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C half of `signal`, unknown to typeshed
import _socket
import os
import sys
import time

TYPE_CHECKING = False
"""As in `typing`, whose import alone costs a third of this program."""

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PLATFORMS = ("claude-code", "codex", "cursor", "gemini-cli", "copilot-cli", "raw")

REASONS = (
    "platform",  # unknown or missing platform name
    "stdin",  # nothing usable on standard input
    "no_daemon",  # nobody listens; answered in process where that is possible
    "denied",  # a sandbox or the file mode forbids the connection
    "unsafe",  # the socket or its folder belongs to somebody else
    "deadline",
    "broken",  # connection lost, half an answer, or no HTTP
    "http",  # an answer that is not 200
    "output",  # standard output is closed
    "internal",
)

SUN_PATH_MAX = 103
"""Bytes; macOS has room for 104 with the closing NUL, Linux for 108. One limit for both."""

DEFAULT_TIMEOUT_MS = 1500
MAX_STDIN = 32 << 20
SMALL_STDIN = 64 << 10
MAX_ANSWER = 8 << 20
MAX_LOG = 64 << 10

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
)
"""Besides `CLAUDE_MEM_*`: what tells who calls and where."""

DROPPED = ("prompt", "tool_input", "tool_response", "tool_output", "attachments", "initialPrompt")
"""Fields that can be huge and that no answer depends on."""


def home_dir(environ: Mapping[str, str]) -> str:
    """HOME, or the password database's word for a process without one."""
    home = environ.get("HOME")
    if home and home.startswith("/"):
        return home
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
        moved = _expand(given, environ)
        if moved.startswith("/"):
            return moved
    return home_dir(environ) + "/.claude-mem/daemon"


def socket_path(environ: Mapping[str, str]) -> str:
    """`CLAUDEMEM_DAEMON_SOCKET`, else `daemon.sock` in the state folder; where that is too long
    for a socket address, a short path derived from it in a private folder below /tmp."""
    given = environ.get("CLAUDEMEM_DAEMON_SOCKET")
    path = _expand(given, environ) if given else ""
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


def main(argv: list[str]) -> int:
    """Always 0; see the module."""
    started = time.monotonic()
    try:
        environ = os.environ
        if len(argv) != 1 or argv[0] not in PLATFORMS:
            _refuse_platform(argv, environ)
            return 0
        _serve(argv[0], environ, started)
    except BaseException as error:  # noqa: BLE001 - a hook never fails
        if not isinstance(error, SystemExit):
            _log(os.environ, argv[0] if argv else "-", "internal", type(error).__name__)
    return 0


class _NothingToPrint(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def _serve(platform: str, environ: Mapping[str, str], started: float) -> None:
    timeout = _timeout_ms(environ) / 1000
    until = started + timeout

    def give_up(_number: int, _frame: object) -> None:
        _log(environ, platform, "deadline", f"{timeout:g} s")
        os._exit(0)

    # A signal and not a socket timeout: it also ends a read of standard input, a blocked write,
    # and a server that sends one byte a second.
    _signal.signal(_signal.SIGALRM, give_up)
    _signal.setitimer(_signal.ITIMER_REAL, max(0.001, until - time.monotonic()))
    try:
        body = _read_stdin()
        answer: bytes | None
        try:
            answer = _ask(platform, body, environ)
        except _NothingToPrint as missing:
            if missing.reason != "no_daemon":
                raise
            _log(environ, platform, "no_daemon", missing.detail)
            answer = _in_process(platform, body, environ, until)
        if answer:
            _print(answer)
    except _NothingToPrint as missing:
        _log(environ, platform, missing.reason, missing.detail)


def _read_stdin() -> bytes:
    """All of standard input, or as much as makes one whole JSON value: some assistants leave the
    pipe open."""
    data = b""
    while len(data) <= MAX_STDIN:
        try:
            chunk = os.read(0, 1 << 20)
        except OSError as error:
            raise _NothingToPrint("stdin", f"cannot be read: {error.strerror}") from None
        if not chunk:
            break
        data += chunk
        if chunk.rstrip().endswith(b"}") and _json_object(data) is not None:
            break
    if len(data) <= SMALL_STDIN:
        return data
    parsed = _json_object(data)
    if parsed is None:
        raise _NothingToPrint("stdin", "too large and no JSON object")
    import json

    return json.dumps({k: v for k, v in parsed.items() if k not in DROPPED}).encode()


def _ask(platform: str, body: bytes, environ: Mapping[str, str]) -> bytes:
    path = socket_path(environ)
    if path.startswith(short_dir() + "/") and not private_dir(short_dir()):
        if os.path.lexists(short_dir()):
            raise _NothingToPrint("unsafe", f"{short_dir()} is not a folder of ours alone")
        raise _NothingToPrint("no_daemon", path)
    head = [
        f"POST /v1/hooks/{platform} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    size = 0
    for name, value in environ.items():
        if name.startswith("CLAUDE_MEM_") or name in FORWARDED:
            line = f"Claudemem-Env: {name}={_quote(value)}"
            size += len(line)
            if size < 24 << 10:
                head.append(line)
    request = "\r\n".join([*head, "", ""]).encode("ascii", "replace") + body
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        try:
            connection.connect(os.fsencode(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise _NothingToPrint("no_daemon", path) from None
        except PermissionError:
            raise _NothingToPrint("denied", f"not allowed to connect to {path}") from None
        peer = peer_uid(connection)
        if peer not in (None, os.getuid(), 0):
            raise _NothingToPrint("unsafe", f"{path} is served by user {peer}")
        connection.sendall(request)
        return _receive(connection)
    except OSError as error:
        raise _NothingToPrint("broken", error.strerror or type(error).__name__) from None
    finally:
        connection.close()


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


def _receive(connection: _socket.socket) -> bytes:
    """The body of a 200, framed by its Content-Length: the end of a stream proves nothing."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk or len(data) > 65536:
            raise _NothingToPrint("broken", "no HTTP answer")
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise _NothingToPrint("broken", "no HTTP answer")
    length = None
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
    if length is None or length > MAX_ANSWER:
        raise _NothingToPrint("broken", "no usable Content-Length")
    parts = [body]
    missing = length - len(body)
    while missing > 0:
        chunk = connection.recv(min(missing, 262144))
        if not chunk:
            raise _NothingToPrint("broken", f"{missing} bytes of the answer are missing")
        parts.append(chunk)
        missing -= len(chunk)
    body = b"".join(parts)[:length]
    if words[1] not in (b"200", b"204"):
        raise _NothingToPrint("http", words[1].decode("ascii", "replace"))
    if body.strip() and _json_object(body) is None:
        raise _NothingToPrint("broken", "the answer is not one JSON object")
    return body.strip()


def _in_process(
    platform: str, body: bytes, environ: Mapping[str, str], until: float
) -> bytes | None:
    """The daemon's own code, here; in a thread, so that a query that hears no signal cannot hold
    the prompt."""
    import _thread

    if sys.flags.no_site:
        import site

        site.main()
    result: list[bytes] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            from claudemem_daemon.server.hooks.fallback import answer_in_process

            result.append(answer_in_process(platform, body, dict(environ), until - 0.05))
        except BaseException as error:  # noqa: BLE001 - a hook never fails
            _log(environ, platform, "internal", f"in process: {type(error).__name__}")
        finally:
            done.release()

    _thread.start_new_thread(work, ())
    finished = done.acquire(timeout=max(0.01, until - time.monotonic()))
    if finished and result and result[0]:
        _print(result[0])
    elif not finished:
        _log(environ, platform, "deadline", "in process")
    # Not a return: the thread may still be inside SQLite, and must not keep the process.
    os._exit(0)


def _print(answer: bytes) -> None:
    data = answer + b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        raise _NothingToPrint("output", error.strerror or "closed") from None


def _json_object(data: bytes) -> dict[str, Any] | None:
    """The one JSON object that `data` is, else None; by the C scanner that `json` itself uses."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode().strip()
    except UnicodeDecodeError:
        return None
    if not text.startswith("{"):
        return None
    try:
        from _json import make_scanner
    except ImportError:
        import json

        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
    try:
        value, end = make_scanner(_Scanning())(text, 0)  # type: ignore[arg-type]  # duck-typed in C
    except (ValueError, StopIteration, RecursionError, SystemError):
        # SystemError: the scanner's own error class lies in `json`, which nobody has imported.
        return None
    return value if isinstance(value, dict) and end == len(text) else None


class _Scanning:
    """What the C scanner asks of its context."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> None:
        """NaN and Infinity, which Python takes and nobody else."""
        raise ValueError(name)


_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/,:*=@+")


def _quote(value: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(value))


def _expand(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        return home_dir(environ) + path[1:]
    return path


def _timeout_ms(environ: Mapping[str, str]) -> int:
    """The deadline; settings.json is parsed only where it speaks of one."""
    name = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
    value: object = environ.get(name)
    if not value:
        folder = environ.get("CLAUDE_MEM_DATA_DIR") or "~/.claude-mem"
        try:
            with open(_expand(folder, environ) + "/settings.json", "rb", buffering=0) as file:
                data = file.read(1 << 20)
        except (OSError, ValueError):
            data = b""
        if name.encode() in data:
            settings = _json_object(data) or {}
            nested = settings.get("env")
            value = settings.get(name)
            if value is None and isinstance(nested, dict):
                value = nested.get(name)
    try:
        wanted = int(str(value).strip())
    except ValueError:
        return DEFAULT_TIMEOUT_MS
    return wanted if 50 <= wanted <= 60_000 else DEFAULT_TIMEOUT_MS


def _refuse_platform(argv: list[str], environ: Mapping[str, str]) -> None:
    given = argv[0] if argv else "none"
    _log(environ, "-", "platform", given[:80])
    try:
        os.write(
            2,
            f"claudemem-daemon: hook wants one platform of {', '.join(PLATFORMS)}\n".encode(),
        )
    except OSError:
        return


def _log(environ: Mapping[str, str], platform: str, reason: str, detail: str) -> None:
    """One line in `hook.log`: seconds since 1970, platform, reason, detail. Never fails."""
    try:
        folder = state_dir(environ)
        if not private_dir(folder):
            return
        clean = "".join(c if c.isprintable() else "?" for c in detail)[:200]
        line = f"{int(time.time())}\t{platform}\t{reason}\t{clean}\n".encode("utf-8", "replace")
        path = folder + "/hook.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size > MAX_LOG:
                os.ftruncate(file, 0)
            os.write(file, line)
        finally:
            os.close(file)
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
