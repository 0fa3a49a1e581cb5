"""The forms that the value of a setting may have.

A value of settings.json is a string, a number, a boolean, a list or an object; a value of an
environment is a string. A parser gives the typed value or raises `ValueError` with the reason, in
words that go after "is ignored: ".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard

from claudemem_daemon.database_url import is_database, without_secrets


class Parsed(NamedTuple):
    """A value that was taken; `note` says where it had to be changed for that."""

    value: Any
    note: str | None = None


Parser = Callable[[object, str], Parsed]
"""Takes the value and the home folder that `~` stands for."""


def shown(value: object) -> str:
    """A value in a message: one short line, whatever it holds."""
    try:
        text = repr(_without_secrets(value))
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 80 else text[:77] + "..."


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {_without_secrets(name): _without_secrets(part) for name, part in value.items()}
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
    if text in ("true", "1", "yes", "on"):
        return Parsed(True)
    if text in ("false", "0", "no", "off"):
        return Parsed(False)
    raise ValueError("true or false is wanted")


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
    if isinstance(value, str):
        if not value.strip():
            return Parsed(None)
        # No id begins with a bracket.
        value = _from_json(value) if value.lstrip().startswith("[") else value.split(",")
    if not _is_texts(value):
        raise ValueError("a comma list or a list of texts is wanted")
    return Parsed(clean_ids(value))


def clean_ids(parts: Iterable[str]) -> tuple[str, ...]:
    """Ids as they are compared: trimmed, lower case, none empty, each once."""
    cleaned = (part.strip().lower() for part in parts)
    return tuple(dict.fromkeys(part for part in cleaned if part))


def _from_json(text: str) -> object:
    """None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


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
    path = expand(value.strip(), home) if isinstance(value, str) else ""
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError("an absolute path is wanted")
    return Parsed(os.path.normpath(path))


def expand(path: str, home: str) -> str:
    """`~` is the home folder we were given, whatever the process's own HOME says; `~name` is looked
    up in the password database."""
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
            raise ValueError("an object is wanted, and this is not JSON")
    if not isinstance(value, Mapping):
        raise ValueError("an object is wanted")
    lists: dict[str, tuple[str, ...]] = {}
    for name, entry in value.items():
        entries = [entry] if isinstance(entry, str) else entry
        if not _is_texts(entries):
            raise ValueError(f"the entry {shown(name)} is neither a text nor a list of texts")
        lists[str(name)] = tuple(text for text in entries if text and "\0" not in text)
    return Parsed(lists)


def stores(value: object, home: str) -> Parsed:
    """`lists_by_name` with paths and database URLs: `~` expanded on both sides, relative paths
    left out, and patterns that no absolute path can match."""
    usable: dict[str, tuple[str, ...]] = {}
    relative: list[str] = []
    for pattern, entries in lists_by_name(value, home).value.items():
        folders = expand(pattern, home)
        if not folders.startswith(("/", "*", "?", "[")):
            relative.append(pattern)
            continue
        expanded = [expand(entry, home) for entry in entries]
        relative += (path for path in expanded if not (os.path.isabs(path) or is_database(path)))
        usable[folders] = tuple(path for path in expanded if path not in relative)
    note = f"not absolute, left out: {', '.join(map(shown, relative))}" if relative else None
    return Parsed(usable, note)
