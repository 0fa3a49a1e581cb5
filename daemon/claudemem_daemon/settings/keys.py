"""Every setting: its name, its default, the forms its value may have.

One table for reading, for `config` and for `doctor`. Values may be strings, numbers, booleans or
lists; a parser returns the typed value or raises `ValueError` with the reason, in words that go
after "is ignored: ".
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_OBSERVATIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that was taken; `note` says where it had to be bent to be taken."""

    value: Any
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `field` is its name in `Settings`; a default of None means the mode decides."""

    name: str
    field: str
    default: Any
    parse: Callable[[object], Parsed]


def count(most: int, *, least: int = 0) -> Callable[[object], Parsed]:
    """A whole number from `least` to `most`; more than that counts as `most`."""

    def parse(value: object) -> Parsed:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"a whole number from {least} is wanted")
        text = str(value).strip()
        if not (text.isascii() and text.isdigit()) or len(text) > 30 or int(text) < least:
            raise ValueError(f"a whole number from {least} is wanted")
        number = int(text)
        if number > most:
            return Parsed(most, f"more than {most} counts as {most}")
        return Parsed(number)

    return parse


def flag(value: object) -> Parsed:
    """true or false, in the spellings people use."""
    if isinstance(value, bool):
        return Parsed(value)
    text = str(value).strip().lower() if isinstance(value, str | int) else ""
    if text in ("true", "1", "yes", "on"):
        return Parsed(True)
    if text in ("false", "0", "no", "off"):
        return Parsed(False)
    raise ValueError("true or false is wanted")


def choice(*words: str) -> Callable[[object], Parsed]:
    def parse(value: object) -> Parsed:
        text = value.strip().lower() if isinstance(value, str) else ""
        if text not in words:
            raise ValueError(f"one of {', '.join(words)} is wanted")
        return Parsed(text)

    return parse


def ids(value: object) -> Parsed:
    """A comma list or a JSON list of ids, in lower case. None stands for "the mode's list": that is
    what an empty text means, for claude-mem writes one into every new settings.json. An explicit
    empty list (`[]`, or a text of commas alone) allows nothing."""
    if isinstance(value, str):
        if not value.strip():
            return Parsed(None)
        parts = value.split(",")
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        parts = value
    else:
        raise ValueError("a comma list or a list of texts is wanted")
    cleaned = (part.strip().lower() for part in parts)
    return Parsed(tuple(dict.fromkeys(part for part in cleaned if part)))


def globs(value: object) -> Parsed:
    """A comma list or a JSON list of patterns, as they are."""
    if isinstance(value, str):
        parts = value.split(",")
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        parts = value
    else:
        raise ValueError("a comma list or a list of patterns is wanted")
    return Parsed(tuple(part.strip() for part in parts if part.strip()))


def mode_id(value: object) -> Parsed:
    """A mode's id: it becomes a file name, so it must be one."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise ValueError("the id of a mode is wanted")
    if not all(c.isalnum() or c in "-_." for c in text) or text.startswith(".") or len(text) > 100:
        raise ValueError("a mode's id has letters, digits, '-', '_' and '.' alone")
    return Parsed(text)


def absolute(value: object) -> Parsed:
    """An absolute path after `~` was expanded."""
    text = value.strip() if isinstance(value, str) else ""
    path = os.path.expanduser(text)
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError("an absolute path is wanted")
    return Parsed(os.path.normpath(path))


def lists_by_name(value: object) -> Parsed:
    """An object (or its JSON text) whose values are texts or lists of texts."""
    if isinstance(value, str):
        if not value.strip():
            return Parsed({})
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("an object is wanted, and this is no JSON") from None
    if not isinstance(value, Mapping):
        raise ValueError("an object is wanted")
    taken: dict[str, tuple[str, ...]] = {}
    for name, entry in value.items():
        entries = [entry] if isinstance(entry, str) else entry
        if not isinstance(entries, list) or not all(isinstance(one, str) for one in entries):
            raise ValueError(f"the entry {str(name)[:60]!r} is neither a text nor a list of texts")
        taken[str(name)] = tuple(one for one in entries if one and "\0" not in one)
    return Parsed(taken)


def stores(value: object) -> Parsed:
    """`lists_by_name` with paths: `~` expanded on both sides, relative ones left out."""
    taken: dict[str, tuple[str, ...]] = {}
    relative: list[str] = []
    for pattern, entries in lists_by_name(value).value.items():
        expanded = [os.path.expanduser(entry) for entry in entries]
        relative += [entry for entry in expanded if not os.path.isabs(entry)]
        taken[os.path.expanduser(pattern)] = tuple(e for e in expanded if os.path.isabs(e))
    return Parsed(taken, f"not absolute, left out: {', '.join(relative)}" if relative else None)


_SHOW: Final = "CLAUDE_MEM_CONTEXT_SHOW_"

KEYS: Final[Mapping[str, Key]] = {
    key.name: key
    for key in (
        Key("CLAUDE_MEM_CONTEXT_OBSERVATIONS", "limit", 50, count(MOST_OBSERVATIONS)),
        Key("CLAUDE_MEM_DAEMON_OBSERVATIONS", "limit", None, count(MOST_OBSERVATIONS)),
        Key("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", "types", None, ids),
        Key("CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS", "concepts", None, ids),
        Key("CLAUDE_MEM_MODE", "mode", "code", mode_id),
        Key("CLAUDE_MEM_MODES_DIR", "modes_dir", None, absolute),
        Key("CLAUDE_MEM_CONTEXT_FULL_COUNT", "full_count", 0, count(MOST_OBSERVATIONS)),
        Key(
            "CLAUDE_MEM_CONTEXT_FULL_FIELD",
            "full_field",
            "narrative",
            choice("narrative", "facts"),
        ),
        Key("CLAUDE_MEM_CONTEXT_SESSION_COUNT", "session_count", 10, count(10_000)),
        Key(_SHOW + "LAST_SUMMARY", "show_last_summary", True, flag),
        Key(_SHOW + "LAST_MESSAGE", "show_last_message", False, flag),
        Key(_SHOW + "READ_TOKENS", "show_read_tokens", False, flag),
        Key(_SHOW + "WORK_TOKENS", "show_work_tokens", False, flag),
        Key(_SHOW + "SAVINGS_AMOUNT", "show_savings_amount", False, flag),
        Key(_SHOW + "SAVINGS_PERCENT", "show_savings_percent", True, flag),
        Key("CLAUDE_MEM_EXCLUDED_PROJECTS", "excluded_projects", (), globs),
        Key("CLAUDE_MEM_DAEMON_SCOPE", "scope", "all", choice("all", "parent", "self")),
        Key("CLAUDE_MEM_DAEMON_STORES", "stores", {}, stores),
        Key("CLAUDE_MEM_DAEMON_ALIASES", "aliases", {}, lists_by_name),
        Key("CLAUDE_MEM_DAEMON_CONTEXT_CHARS", "context_chars", 10_000, count(10_000_000)),
        Key(
            "CLAUDE_MEM_DAEMON_PROMPT_CONTEXT",
            "prompt_context",
            "delta",
            choice("delta", "full", "off"),
        ),
        Key("CLAUDE_MEM_DAEMON_TIMEOUT_MS", "timeout_ms", 1500, count(60_000, least=50)),
    )
}

DATA_DIR: Final = "CLAUDE_MEM_DATA_DIR"


def suggest(name: str) -> str | None:
    """The setting that a misspelt `CLAUDE_MEM_*` key may mean, for "did you mean"; None for a key
    of ours and for one that looks like nothing of ours (claude-mem has many of its own)."""
    if name in KEYS or name == DATA_DIR:
        return None
    near = difflib.get_close_matches(name.upper(), [*KEYS, DATA_DIR], n=1, cutoff=0.9)
    return near[0] if near else None
