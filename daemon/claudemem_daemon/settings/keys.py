"""Every setting: its name, its default, the forms its value may have.

One table for reading, for `config` and for `doctor`. A value of settings.json may be a string, a
number, a boolean, a list or an object; a value of an environment is a string. A parser returns the
typed value or raises `ValueError` with the reason, in words that go after "is ignored: ".
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from claudemem_daemon.database_url import is_database, without_secrets
from claudemem_daemon.settings.claude_mem_keys import CLAUDE_MEM_ONLY, PREFIX
from claudemem_daemon.warning import AnswerWarning

MAX_OBSERVATIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that was taken; `note` says where it had to be bent to be taken."""

    value: Any
    note: str | None = None


Parser = Callable[[object, str], Parsed]
"""Takes the value and the home folder that `~` stands for."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `field` is its name in `Settings`; a default of None means that something else
    decides, such as the mode."""

    name: str
    field: str
    default: Any
    parse: Parser


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was read: a `path`, or an environment. `instead` says what is used when it is
    wrong; `warnings` takes what is to be told."""

    name: str
    warnings: list[AnswerWarning]
    path: str | None = None
    instead: str = ""


def shown(value: object) -> str:
    """A value in a message: one short line, whatever it holds."""
    try:
        text = repr(_without_secrets(value))
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 80 else text[:77] + "..."


def taken(key: Key, raw: object, home: str, place: Place) -> Parsed | None:
    """The value of `key` that was read at `place`; None, and a warning, for a wrong one."""
    said = f"{key.name} = {shown(raw)} in {place.name}"
    try:
        parsed = key.parse(raw, home)
    except ValueError as error:
        message = f"{said} is ignored: {error}{place.instead}"
        place.warnings.append(AnswerWarning("setting_invalid", message, place.path, key.name))
        return None
    if parsed.note is not None:
        message = f"{said}: {parsed.note}"
        place.warnings.append(AnswerWarning("setting_adjusted", message, place.path, key.name))
    return parsed


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {_without_secrets(name): _without_secrets(one) for name, one in value.items()}
    return [*map(_without_secrets, value)] if isinstance(value, list | tuple) else value


def count(most: int, *, least: int = 0) -> Parser:
    """A whole number from `least` to `most`, as a number or as its digits; more counts as `most`.
    No sign, no exponent, no fraction: "1e2" is more likely a slip than a hundred."""
    wanted = f"a whole number from {least} to {most} is wanted"

    def parse(value: object, _home: str) -> Parsed:
        number = isinstance(value, int | str) and not isinstance(value, bool)
        # A JSON number has at most 4,300 digits, or the file would not have been read.
        digits = str(value).strip() if number else ""
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(wanted)
        digits = digits.lstrip("0") or "0"
        if len(digits) > len(str(most)) or int(digits) > most:
            return Parsed(most, f"more than {most} counts as {most}")
        if int(digits) < least:
            raise ValueError(wanted)
        return Parsed(int(digits))

    return parse


def flag(value: object, _home: str) -> Parsed:
    """true or false, in the spellings people use."""
    text = str(value).strip().lower() if isinstance(value, str | int) else ""
    if text not in _FLAGS:
        raise ValueError("true or false is wanted")
    return Parsed(_FLAGS[text])


_FLAGS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def choice(*words: str) -> Parser:
    """One of a few words, in any letter case."""

    def parse(value: object, _home: str) -> Parsed:
        text = value.strip().lower() if isinstance(value, str) else ""
        if text not in words:
            raise ValueError(f"one of {', '.join(words)} is wanted")
        return Parsed(text)

    return parse


def ids(value: object, _home: str) -> Parsed:
    """A comma list or a JSON list of ids, also one written as text, as in an environment: trimmed,
    in lower case, each once.

    None stands for "the mode's list". That is what an empty text means, for claude-mem puts one
    into every settings.json that it makes. An explicit empty list (`[]`, or a text of commas alone)
    allows nothing. `*` alone lifts the restriction.
    """
    if isinstance(value, str) and not value.strip():
        return Parsed(None)
    if isinstance(value, str):
        # No id begins so.
        value = _from_json(value) if value.lstrip().startswith("[") else value.split(",")
    if not _is_texts(value):
        raise ValueError("a comma list or a list of texts is wanted")
    return Parsed(clean_ids(value))


def _from_json(text: str) -> object:
    """None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def clean_ids(parts: Iterable[str]) -> tuple[str, ...]:
    """Ids as they are compared: trimmed, lower case, none empty, each once."""
    cleaned = (part.strip().lower() for part in parts)
    return tuple(dict.fromkeys(part for part in cleaned if part))


def globs(value: object, home: str) -> Parsed:
    """A comma list or a JSON list of patterns, also one written as text; `~` expanded."""
    if isinstance(value, str):
        listed = _from_json(value)
        # `[0]` is a list and a pattern; a list of patterns has texts in it.
        value = listed if _is_texts(listed) else value.split(",")
    if not _is_texts(value):
        raise ValueError("a comma list or a list of patterns is wanted")
    return Parsed(tuple(expand(part.strip(), home) for part in value if part.strip()))


def mode_id(value: object, _home: str) -> Parsed:
    """A mode's id: it becomes a file name, so it must be one and nothing else."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise ValueError("the id of a mode is wanted")
    if not re.fullmatch(r"(?!--|\.)[\w.-]{1,100}", text):
        raise ValueError("a mode's id has letters, digits, '-', '_' and '.' alone")
    return Parsed(text)


def absolute(value: object, home: str) -> Parsed:
    """An absolute path after `~` was expanded."""
    text = value.strip() if isinstance(value, str) else ""
    path = expand(text, home)
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError("an absolute path is wanted")
    return Parsed(os.path.normpath(path))


def expand(path: str, home: str) -> str:
    """`~` is the home folder we were given, whatever the process's own HOME says; `~name` is the
    password database's word."""
    if path == "~" or path.startswith("~/"):
        return (home.rstrip("/") + path[1:]) or "/"
    return os.path.expanduser(path) if path.startswith("~") else path


def lists_by_name(value: object, _home: str) -> Parsed:
    """An object (or its JSON text) whose values are texts or lists of texts."""
    if isinstance(value, str):
        if not value.strip():
            return Parsed({})
        value = _from_json(value)
        if value is None:
            raise ValueError("an object is wanted, and this is no JSON")
    if not isinstance(value, Mapping):
        raise ValueError("an object is wanted")
    taken: dict[str, tuple[str, ...]] = {}
    for name, entry in value.items():
        entries = [entry] if isinstance(entry, str) else entry
        if not _is_texts(entries):
            raise ValueError(f"the entry {shown(name)} is neither a text nor a list of texts")
        taken[str(name)] = tuple(text for text in entries if text and "\0" not in text)
    return Parsed(taken)


def stores(value: object, home: str) -> Parsed:
    """`lists_by_name` with paths and database URLs: `~` expanded on both sides, relative paths
    left out."""
    taken: dict[str, tuple[str, ...]] = {}
    relative: list[str] = []
    for pattern, entries in lists_by_name(value, home).value.items():
        expanded = [expand(entry, home) for entry in entries]
        usable = [entry for entry in expanded if os.path.isabs(entry) or is_database(entry)]
        relative += [entry for entry in expanded if entry not in usable]
        taken[expand(pattern, home)] = tuple(usable)
    note = f"not absolute, left out: {', '.join(map(shown, relative))}" if relative else None
    return Parsed(taken, note)


_SHOW: Final = "CLAUDE_MEM_CONTEXT_SHOW_"
_FULL_FIELD: Final = "CLAUDE_MEM_CONTEXT_FULL_FIELD"
_PROMPT: Final = "CLAUDE_MEM_DAEMON_PROMPT_CONTEXT"

KEYS: Final[Mapping[str, Key]] = {
    key.name: key
    for key in (
        Key("CLAUDE_MEM_CONTEXT_OBSERVATIONS", "limit", 50, count(MAX_OBSERVATIONS)),
        Key("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", "types", None, ids),
        Key("CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS", "concepts", None, ids),
        Key("CLAUDE_MEM_MODE", "mode", "code", mode_id),
        Key("CLAUDE_MEM_MODES_DIR", "modes_dir", None, absolute),
        Key("CLAUDE_MEM_CONTEXT_FULL_COUNT", "full_count", 0, count(MAX_OBSERVATIONS)),
        Key(_FULL_FIELD, "full_field", "narrative", choice("narrative", "facts")),
        Key("CLAUDE_MEM_CONTEXT_SESSION_COUNT", "session_count", 10, count(10_000)),
        Key(_SHOW + "LAST_SUMMARY", "show_last_summary", True, flag),
        Key(_SHOW + "LAST_MESSAGE", "show_last_message", False, flag),
        Key(_SHOW + "READ_TOKENS", "show_read_tokens", False, flag),
        Key(_SHOW + "WORK_TOKENS", "show_work_tokens", False, flag),
        Key(_SHOW + "SAVINGS_AMOUNT", "show_savings_amount", False, flag),
        Key(_SHOW + "SAVINGS_PERCENT", "show_savings_percent", True, flag),
        Key(_SHOW + "TERMINAL_OUTPUT", "show_terminal_output", True, flag),
        Key("CLAUDE_MEM_EXCLUDED_PROJECTS", "excluded_projects", (), globs),
        Key("CLAUDE_MEM_DAEMON_SCOPE", "scope", "all", choice("all", "parent", "self")),
        Key("CLAUDE_MEM_DAEMON_STORES", "stores", {}, stores),
        Key("CLAUDE_MEM_DAEMON_ALIASES", "aliases", {}, lists_by_name),
        Key("CLAUDE_MEM_DAEMON_CONTEXT_CHARS", "context_chars", 10_000, count(10_000_000)),
        Key(_PROMPT, "prompt_context", "delta", choice("delta", "full", "off")),
        Key("CLAUDE_MEM_DAEMON_TIMEOUT_MS", "timeout_ms", 1500, count(60_000, least=50)),
    )
}

_CONTEXT: Final = "CLAUDE_MEM_CONTEXT_"
OWN_NAMES: Final[Mapping[str, str]] = {
    name: "CLAUDE_MEM_DAEMON_" + name.removeprefix(_CONTEXT)
    for name in KEYS
    if name.startswith(_CONTEXT)
}
"""claude-mem's key -> the key of the same meaning that wins over it for this daemon alone."""

ALL_KEYS: Final[Mapping[str, Key]] = {
    **KEYS,
    **{own: replace(KEYS[name], name=own, default=None) for name, own in OWN_NAMES.items()},
}

DATA_DIR: Final = "CLAUDE_MEM_DATA_DIR"

DATA_DIR_KEY: Final = Key(DATA_DIR, "data_dir", None, absolute)
"""Apart from the others, for it decides which settings.json they are read from."""


def suggest(name: str) -> str | None:
    """The setting that a misspelt `CLAUDE_MEM_*` key may mean, for "did you mean"; None for a key
    of ours, for one of claude-mem's own, and for one that looks like none of these."""
    known = (*ALL_KEYS, DATA_DIR, *CLAUDE_MEM_ONLY)
    if name in known or not name.upper().startswith(PREFIX):
        return None
    # Without the beginning that all have, so that it does not make any two of them look alike.
    short = {key.removeprefix(PREFIX): key for key in known}
    near = difflib.get_close_matches(name.upper().removeprefix(PREFIX), short, n=1, cutoff=0.8)
    return short[near[0]] if near else None
