"""The command line that an entry runs, written so that it can fail without being noticed. Pure."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from claudemem_daemon.errors import InvalidRequest

MARK: Final = "claudemem-daemon"
"""The program's name; the end of every curl line of ours."""

_SILENCED: Final = " 2>/dev/null"
_RUNS_US: Final = re.compile(rf"\b{MARK}['\"]* hook [a-z]|/v1/hooks/[a-z]", re.DOTALL)


def launcher(environ: Mapping[str, str], argv0: str) -> str:
    """The program as the user calls it: a stable link on the PATH, never what it points to, for
    that changes with the next upgrade."""
    if os.path.isabs(argv0) and os.path.basename(argv0) == MARK:
        return argv0
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, MARK)
        if os.path.isabs(path) and os.access(path, os.X_OK):
            return path
    beside = os.path.join(os.path.dirname(sys.executable), MARK)
    if os.access(beside, os.X_OK) or os.path.basename(argv0) != MARK:
        return beside
    return os.path.abspath(argv0)


def lasting_launcher(environ: Mapping[str, str], argv0: str) -> str:
    """`launcher`, for a settings file or a unit that outlives this call.

    Raises `InvalidRequest` for one in a cache, where `uvx` and `pipx run` put it: it is gone when
    the cache is pruned, and the hooks with it.
    """
    program = launcher(environ, argv0)
    cache = _cache_of(program, environ)
    if cache is None:
        return program
    installer = "pipx install" if "pipx" in program else "uv tool install"
    raise InvalidRequest(
        f"this program is in a cache ({cache}) and goes when that is pruned: install it for good,"
        f" `{installer} {shlex.quote(_source())}`, and run this again with that one"
    )


def program_trouble(path: str) -> str | None:
    """Why the program cannot run, as its Python is gone; None where it can."""
    if not os.access(path, os.X_OK):
        return f"is gone ({path[:120]})"
    try:
        # Not `hook`, which never fails.
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot run ({path[:120]}: {error})"
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return f"cannot run ({path[:120]}: {said[:200]})" if done.returncode else None


def _cache_of(program: str, environ: Mapping[str, str]) -> str | None:
    """The cache folder that holds the program's environment. The environment itself may carry the
    tag of a cache, as those made by `uv venv` do."""
    folder = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        if (
            os.path.basename(folder) in (".cache", "Caches")
            or folder == environ.get("XDG_CACHE_HOME", "").rstrip("/")
            or os.path.exists(os.path.join(folder, "CACHEDIR.TAG"))
        ):
            return folder
    return None


def _source() -> str:
    """What was installed, in the words of an installer."""
    try:
        shape = json.loads(distribution(MARK).read_text("direct_url.json") or "")
        prefix = f"{shape['vcs_info']['vcs']}+" if "vcs_info" in shape else ""
        return prefix + str(shape["url"]).removeprefix("file://")
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return MARK


def python_line(platform: str, program: str, *, silenced: bool | None = None) -> str:
    """Runs the program if it is there; a machine where it was removed prints nothing, exits 0, and
    no prompt waits. Gemini CLI reads standard error when nothing is printed, so that is closed;
    Codex runs the user's own shell, and csh would take `2>` for an argument and a redirection."""
    quoted = shlex.quote(program)
    silent = platform != "codex" if silenced is None else silenced
    return f"[ -x {quoted} ] && {quoted} hook {platform}{_SILENCED if silent else ''} || true"


def curl_line(platform: str, socket: str) -> str:
    """The same with curl alone. `--max-time` is the deadline, `-f` keeps an error's text to itself,
    `-q` leaves a .curlrc alone that would print more."""
    return (
        f"curl -q -sf --max-time 2 --unix-socket {shlex.quote(socket)} --data-binary @-"
        f" http://localhost/v1/hooks/{platform}{_SILENCED} || true # {MARK}"
    )


def is_ours(command: object, platform: str) -> bool:
    """Whether `hooks install PLATFORM` wrote exactly this, in this version or another. Whatever
    somebody wrote around it or in its manner is theirs."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    before_path = next((word for word in words[:-1] if word in ("-x", "--unix-socket")), None)
    if before_path is None:
        return False
    path = words[words.index(before_path) + 1]
    # A line that is changed leaves its old form here.
    every_line = (
        python_line(platform, path, silenced=False),
        python_line(platform, path, silenced=True),
        curl_line(platform, path),
        curl_line(platform, path).replace("curl -q ", "curl "),
    )
    return os.path.isabs(path) and command in every_line


def runs_us(command: object) -> bool:
    """Whether a command asks us for context, whoever wrote it; for a word to the user alone."""
    return isinstance(command, str) and _RUNS_US.search(command) is not None
