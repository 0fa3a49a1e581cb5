"""Variables that a checkout's own files put into the caller's environment.

Assistants hand to their hooks what a project's files say of variables. Such a variable seems to be the
user's, and is whatever the author of the checkout wrote.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import FileState, outermost_state
from claudemem_daemon.settings.model import DATA_DIR
from claudemem_daemon.settings.sources import read_bytes, read_values
from claudemem_daemon.warning import AnswerWarning

GUARDED: Final = frozenset(
    [
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_MEM_DAEMON_ALIASES",
        "CLAUDE_MEM_DAEMON_STORES",
        "CLAUDE_MEM_EXCLUDED_PROJECTS",
        "CLAUDE_MEM_MODES_DIR",
        DATA_DIR,
    ]
)
"""What opens files, claims other projects' rows, or lifts an exclusion: only the user may set it.
All other variables only shape the answer about this checkout. CLAUDEMEM_DAEMON_HOME is not sent to a
daemon; without one, a `trusted.json` that a checkout brings cannot know the inode of its store."""

SETTINGS: Final = (".claude/settings.json", ".claude/settings.local.json")
"""Of Claude Code and Copilot CLI: the variables are in their `env`."""
DOTENV: Final = (".env", ".gemini/.env")
"""Of Gemini CLI, which reads them unless the user turned that off."""
OF_BUN: Final = tuple(
    f".env{mode}{local}"
    for mode in ("", ".development", ".production", ".test")
    for local in ("", ".local")
)
"""Of assistants that are made with Bun, as Claude Code is: in the folder where they were started."""

PROJECT_DIRS: Final = (
    "CLAUDE_PROJECT_DIR",
    "CURSOR_PROJECT_DIR",
    "GEMINI_PROJECT_DIR",
    "GEMINI_CWD",
)
"""Where an assistant was started, whose files count wherever it works now."""


class CheckoutEnv(NamedTuple):
    """`env` is the caller's without the variables that are `refused` to a checkout, by name with their
    values."""

    env: Mapping[str, str]
    refused: Mapping[str, str] = {}
    warnings: tuple[AnswerWarning, ...] = ()
    dependencies: tuple[FileState, ...] = ()

    def left(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Another environment without the same variables of the same values."""
        if not self.refused:
            return environ
        return {name: value for name, value in environ.items() if self.refused.get(name) != value}


NO_CHECKOUT: Final = CheckoutEnv({})


def without_checkouts_word(
    env: Mapping[str, str], folders: Iterable[str], home: str
) -> CheckoutEnv:
    """`env` without what the files of these folders, of the project that it names, and of those around
    them put there. The home folder's own files are the user's."""
    suspects = {name: value for name, value in env.items() if name in GUARDED}
    if not suspects:
        return CheckoutEnv(env)
    dependencies: list[FileState] = []
    named_by: dict[str, str] = {}
    for path in _files((*folders, *_project_dirs(env)), os.path.realpath(home)):
        seen = outermost_state(path)
        dependencies.append(seen)
        # A folder named `.env` is a virtual environment.
        if seen.state is not None and not stat.S_ISDIR(seen.state[2]):
            named = _named if path.endswith(SETTINGS) else _mentioned
            named_by |= {name: path for name in named(path, suspects) if name not in named_by}
    refused = {name: suspects[name] for name in named_by}
    return CheckoutEnv(
        {name: value for name, value in env.items() if name not in refused},
        refused,
        tuple(_warning(name, named_by[name]) for name in sorted(named_by)),
        tuple(dict.fromkeys(dependencies)),
    )


def forget_checkouts_home(environ: MutableMapping[str, str]) -> None:
    """Remove HOME from the process's own environment where files of the project put it there. The
    password database tells the user's home folder then."""
    home = environ.get("HOME")
    with suppress(OSError):  # The current folder may be gone.
        for path in _files((os.getcwd(), *_project_dirs(environ)), ""):
            named = path.endswith(SETTINGS) and os.path.isfile(path)
            if named and home is not None and _named(path, {"HOME": home}):
                del environ["HOME"]
                return


def _project_dirs(environ: Mapping[str, str]) -> Iterator[str]:
    return filter(os.path.isabs, (environ.get(name, "") for name in PROJECT_DIRS))


def _warning(name: str, path: str) -> AnswerWarning:
    message = (
        f"{name} in the caller's environment is ignored: {path} puts it there, and a checkout does"
        " not decide it; put it into your own settings.json"
    )
    return AnswerWarning("setting_of_checkout", message, path, name)


def _named(path: str, suspects: Mapping[str, str]) -> Iterable[str]:
    """The variables whose values this file names; all of them where we cannot read it, because an
    assistant may be able to."""
    values = read_values(path)
    if values is None:
        return suspects
    named = values.get("env")
    found = []
    for written, value in named.items() if isinstance(named, dict) else ():
        # The system ends names and values at a NUL. What an assistant makes of a list is its own.
        name = written.partition("\0")[0]
        if not isinstance(value, str) or suspects.get(name) == value.partition("\0")[0]:
            found.append(name)
    return suspects.keys() & found


def _mentioned(path: str, suspects: Mapping[str, str]) -> Iterable[str]:
    """The variables that a `.env` file mentions: how it writes values differs from reader to reader."""
    data = read_bytes(path)
    return [name for name in suspects if not isinstance(data, bytes) or name.encode() in data]


def _files(folders: Iterable[str], home: str) -> Iterator[str]:
    seen: set[str] = set()
    for start in dict.fromkeys(folders):
        folder = start
        while folder not in seen and os.path.realpath(folder) != home:
            seen.add(folder)
            yield from (os.path.join(folder, name) for name in (*SETTINGS, *DOTENV))
            folder = os.path.dirname(folder)
        if start in seen:
            yield from (os.path.join(start, name) for name in OF_BUN)
