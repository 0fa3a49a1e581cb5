"""The hook client: a hook's standard input to the daemon, the daemon's answer to standard output.

Nothing outside the standard library and `local.py` is imported here, and of that only modules
written in C where there is a choice: `socket`, `json` and `signal` cost more to import than the
whole question takes.

Whatever happens, it exits 0 inside its deadline and prints one JSON object or nothing. Why it
printed nothing goes to `hook.log` in the state folder, a line each.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C half of `signal`, unknown to typeshed
import _socket
import os
import time

from claudemem_daemon.local import (
    HERE,
    MAX_LOG,
    PLATFORMS,
    environment_headers,
    expand,
    home_dir,
    open_own,
    other_owner,
    peer_uid,
    private_dir,
    quote,
    short_dir,
    socket_path,
    state_dir,
)

TYPE_CHECKING = False
"""As in `typing`, whose import alone costs a third of this program."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    InProcess = Callable[[str, bytes, Mapping[str, str], float], bytes]
    """The daemon's own code for one call: platform, standard input, environment, and the moment on
    the monotonic clock at which it must be done; what to print."""

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
    "python",  # it cannot start; the command itself writes this one
)

DEFAULT_TIMEOUT_MS = 1500
MAX_WAIT_MS = 4500
"""Whatever the setting says: after 5 s, as `hooks install` writes it, an assistant gives up on its
own and complains. `raw` has no assistant that we know of."""
MAX_STDIN = 32 << 20
SMALL_STDIN = 64 << 10
MAX_ANSWER = 8 << 20
MAX_FIELD = 8 << 10
"""Bytes of one field that still go along with a standard input of more than SMALL_STDIN."""

TIMEOUT = "CLAUDE_MEM_DAEMON_TIMEOUT_MS"
DATA_DIR = "CLAUDE_MEM_DATA_DIR"
PROMPT_CONTEXT = "CLAUDE_MEM_DAEMON_PROMPT_CONTEXT"
DESCRIPTION = f"""
  Answer one hook: its JSON on standard input, the assistant's JSON (or nothing)
  on standard output.

  PLATFORM is one of
  {", ".join(PLATFORMS)}.

  Exits 0 always, inside its deadline. Why it printed nothing is in hook.log in
  the state folder; `status` and `doctor` read it. To have an assistant call it:
  claudemem-daemon hooks install PLATFORM
"""
HELP = f"""\
Usage: claudemem-daemon hook PLATFORM
{DESCRIPTION}
Options:
  -h, --help  Show this message and exit.
"""


def main(argv: list[str], in_process: InProcess) -> int:
    """Always 0; see the module. `in_process` answers where no daemon can be asked."""
    started = time.monotonic()
    try:
        environ = os.environ
        if "--help" in argv or "-h" in argv:
            os.write(1, HELP.encode())
            return 0
        if len(argv) != 1 or argv[0] not in PLATFORMS:
            _refuse_platform(argv, environ)
            return 0
        _serve(argv[0], environ, started, in_process)
    except BaseException as error:  # noqa: BLE001 - a hook never fails
        if not isinstance(error, SystemExit):
            _log(os.environ, argv[0] if argv else "-", "internal", type(error).__name__)
    return 0


class _NothingToPrint(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def _serve(
    platform: str, environ: Mapping[str, str], started: float, in_process: InProcess
) -> None:
    timeout = DEFAULT_TIMEOUT_MS / 1000

    def give_up(_number: int, _frame: object) -> None:
        _log(environ, platform, "deadline", f"{timeout:g} s")
        os._exit(0)

    # A signal and not a socket timeout: it also ends a read of standard input, a blocked write,
    # and a server that sends one byte a second. Whoever started us may have blocked it.
    _signal.signal(_signal.SIGALRM, give_up)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    # Twice: looking up how long we may take can take long itself.
    _signal.setitimer(_signal.ITIMER_REAL, timeout)
    timeout = _wait_ms(platform, environ) / 1000
    until = started + timeout
    _signal.setitimer(_signal.ITIMER_REAL, max(0.001, until - time.monotonic()))
    try:
        owner = other_owner(state_dir(environ))
        if owner is not None:
            _say(f"HOME belongs to user {owner} and this is user {os.geteuid()}: no answer")
            return
        _need_output()
        body, call = _read_stdin()
        try:
            _ask(platform, body, environ, until)
            return
        except _NothingToPrint as missing:
            if missing.reason not in ("no_daemon", "denied"):
                raise
            _log(environ, platform, missing.reason, missing.detail)
            if _news_alone(call, environ):
                return
            _answer_here(platform, body, environ, until, in_process)
    except _NothingToPrint as missing:
        _log(environ, platform, missing.reason, missing.detail)


def _need_output() -> None:
    """Where standard output is closed, the next file that is opened would take its place."""
    try:
        os.fstat(1)
    except OSError:
        raise _NothingToPrint("output", "closed") from None


def _read_stdin() -> tuple[bytes, dict[str, Any]]:
    """The JSON object on standard input, as it came and read; no end is waited for, because some
    assistants leave the pipe open. In a large one long fields are shortened."""
    data = bytearray()
    call = None
    while call is None and len(data) <= MAX_STDIN:
        try:
            chunk = os.read(0, 1 << 20)
        except OSError as error:
            raise _NothingToPrint("stdin", f"cannot be read: {error.strerror}") from None
        if not chunk:
            break
        data += chunk
        if chunk.rstrip().endswith(b"}"):
            call = _json_object(data)
    if call is None:
        raise _NothingToPrint("stdin", "no JSON object")
    if len(data) <= SMALL_STDIN:
        return bytes(data), call
    import json

    call = {name: value for name, value in map(_shortened, call.items()) if value is not None}
    return json.dumps(call).encode(), call


def _shortened(field: tuple[str, Any]) -> tuple[str, Any]:
    """A field as it is if it is small; of a long text its beginning, of anything else None. The
    texts of prompts and tools are long, and no answer depends on what they say at their end."""
    import json

    name, value = field
    if isinstance(value, str):
        return name, value if len(value) <= MAX_FIELD else value[:256]
    return name, value if len(json.dumps(value)) <= MAX_FIELD else None


def _ask(platform: str, body: bytes, environ: Mapping[str, str], until: float) -> None:
    """Print the daemon's answer, and tell the daemon that it is printed."""
    path = socket_path(environ)
    if path.startswith(short_dir() + "/") and not private_dir(short_dir()):
        if os.path.lexists(short_dir()):
            raise _NothingToPrint("unsafe", f"{short_dir()} is not a folder of ours alone")
        raise _NothingToPrint("no_daemon", path)
    head = [
        f"POST /v1/hooks/{platform} HTTP/1.1",
        "Host: localhost",
        "Claudemem-Acknowledge: 1",
        f"Claudemem-Deadline-Ms: {max(1, int((until - time.monotonic()) * 1000))}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    here = _here(environ)
    if here:
        head.append(f"Claudemem-Env: {HERE}={quote(here)}")
    head += [f"Claudemem-Env: {line}" for line in environment_headers(environ)]
    request = "\r\n".join([*head, "", ""]).encode("ascii", "replace") + body
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError as error:
        raise _NothingToPrint("denied", f"no Unix socket: {error.strerror}") from None
    try:
        try:
            connection.connect(os.fsencode(path))
        except PermissionError:
            raise _NothingToPrint("denied", f"not allowed to connect to {path}") from None
        except OSError:
            raise _NothingToPrint("no_daemon", path) from None
        peer = peer_uid(connection)
        if peer not in (None, os.getuid(), 0):
            raise _NothingToPrint("unsafe", f"{path} is served by user {peer}")
        connection.sendall(request)
        answer = _receive(connection)
        if answer:
            _print(answer)
        try:
            connection.sendall(b"\r\n")
        except OSError:
            return
    except OSError as error:
        raise _NothingToPrint("broken", error.strerror or type(error).__name__) from None
    finally:
        connection.close()


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


def _news_alone(call: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Whether only news would count, as at every prompt but for a setting; without a daemon nobody
    knows what is new, and to find that out would cost each prompt a quarter of a second."""
    if "prompt" not in call:
        return False
    event = call.get("hook_event_name", call.get("hookEventName"))
    if str(event).lower().endswith("start"):
        return False
    given = environ.get(PROMPT_CONTEXT)
    if given:
        return given == "delta"
    return PROMPT_CONTEXT.encode() not in _settings(environ)


def _answer_here(
    platform: str, body: bytes, environ: Mapping[str, str], until: float, in_process: InProcess
) -> None:
    """The daemon's own code, here; in a thread, so that a query that hears no signal cannot hold
    the prompt."""
    import _thread

    result: list[bytes] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            known = {**environ, HERE: _here(environ)}
            result.append(in_process(platform, body, known, until - 0.05))
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


def _json_object(data: bytes | bytearray) -> dict[str, Any] | None:
    """The one JSON object that `data` is, else None; by the C scanner that `json` itself uses.
    Bytes that are no UTF-8 become surrogates, as in a path."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").strip()
    if not text.startswith("{"):
        return None
    from _json import make_scanner

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
    parse_constant = float


def _here(environ: Mapping[str, str]) -> str:
    """The folder we run in, by the name the shell has for it; empty where it is gone."""
    try:
        real = os.getcwd()
        named = environ.get(HERE, "")
        return named if named.startswith("/") and os.path.samefile(named, real) else real
    except OSError:
        return ""


def _wait_ms(platform: str, environ: Mapping[str, str]) -> int:
    wanted = timeout_ms(environ)
    return wanted if platform == "raw" else min(wanted, MAX_WAIT_MS)


def timeout_ms(environ: Mapping[str, str]) -> int:
    """The deadline; settings.json is parsed only where it speaks of one. What is no number from 50
    on is the default, and more than a minute is a minute, as everywhere."""
    value: object = environ.get(TIMEOUT)
    if not value:
        data = _settings(environ)
        value = _value(data, TIMEOUT) if TIMEOUT.encode() in data else None
    digits = "" if isinstance(value, bool) else str(value).strip()
    if not (digits.isascii() and digits.isdigit()):
        return DEFAULT_TIMEOUT_MS
    wanted = int(digits[:9])
    return min(wanted, 60_000) if wanted >= 50 else DEFAULT_TIMEOUT_MS


def _settings(environ: Mapping[str, str]) -> bytes:
    """The settings.json that counts for this environment, as it is; empty where there is none."""
    usual = home_dir(environ) + "/.claude-mem"
    given = expand(environ.get(DATA_DIR) or "", environ)
    if given.startswith("/"):
        return _content(given + "/settings.json")
    data = _content(usual + "/settings.json")
    if DATA_DIR.encode() in data:
        moved = _value(data, DATA_DIR)
        folder = expand(moved, environ) if isinstance(moved, str) else ""
        if folder.startswith("/") and folder.rstrip("/") != usual:
            return _content(folder + "/settings.json")
    return data


def _value(data: bytes, name: str) -> object:
    """One key of a settings.json, flat or below a top-level `env`."""
    settings = _json_object(data) or {}
    nested = settings.get("env")
    below = nested.get(name) if isinstance(nested, dict) else None
    return settings.get(name, below)


def _content(path: str) -> bytes:
    """The beginning of a file, and nothing of a FIFO that nobody writes to."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(file, 1 << 20)
        finally:
            os.close(file)
    except (OSError, ValueError):
        return b""


def _refuse_platform(argv: list[str], environ: Mapping[str, str]) -> None:
    given = argv[0] if argv else "none"
    _log(environ, "-", "platform", given[:80])
    _say(f"hook wants one platform of {', '.join(PLATFORMS)}")


def _say(message: str) -> None:
    try:
        os.write(2, f"claudemem-daemon: {message}\n".encode())
    except OSError:
        return


def _log(environ: Mapping[str, str], platform: str, reason: str, detail: str) -> None:
    """One line in `hook.log`: seconds since 1970, platform, reason, detail. Never fails."""
    try:
        folder = state_dir(environ)
        if not private_dir(folder) and not _make_folder(folder):
            return
        clean = "".join(c if c.isprintable() else "?" for c in detail)[:200]
        line = f"{int(time.time())}\t{platform}\t{reason}\t{clean}\n".encode("utf-8", "replace")
        file = open_own(folder + "/hook.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(file).st_size
            if size + len(line) > MAX_LOG:
                # The newer half stays, from a whole line on.
                kept = os.pread(file, MAX_LOG // 2, max(0, size - MAX_LOG // 2))
                os.ftruncate(file, 0)
                line = kept[kept.find(b"\n") + 1 :] + line
            os.write(file, line)
        finally:
            os.close(file)
    except (OSError, ValueError):
        return


def _make_folder(folder: str) -> bool:
    """Make the state folder where no daemon has run yet; its parent too, but never a home."""
    try:
        if not os.path.isdir(os.path.dirname(folder)):
            os.mkdir(os.path.dirname(folder), 0o700)
        os.mkdir(folder, 0o700)
    except OSError:
        return False
    return private_dir(folder)
