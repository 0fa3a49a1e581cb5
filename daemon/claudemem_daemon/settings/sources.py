"""A JSON file of settings as bytes become values: what is accepted, what is rejected and why."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MAX_BYTES: Final = 1 << 20

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Rejected(NamedTuple):
    """A file that cannot be used. `reason` is the end of a sentence that starts with the path; `line`
    and `column`, from 1, are of the fault in the text, if there is one; `at` is when it was seen, in
    seconds since 1970."""

    reason: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    at: float = 0.0


class Document(NamedTuple):
    """A file that can be used. `notes` are what to tell of it, as ends of sentences that start with
    the path."""

    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def read_bytes(path: str) -> bytes | Rejected | None:
    """The file's content; None when there is no file. Never waits for a FIFO or a device."""
    try:
        with open(path, "rb", opener=_opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Rejected("is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        return Rejected("is not a regular file")
    except (OSError, ValueError) as error:
        return Rejected(f"cannot be read ({getattr(error, 'strerror', None) or error})")
    return data if len(data) <= MAX_BYTES else Rejected(f"has more than {MAX_BYTES} bytes")


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def read_values(path: str) -> Mapping[str, Any] | None:
    """The values of the file now, none where it is missing; None for a damaged one."""
    data = read_bytes(path)
    read = document(data) if isinstance(data, bytes) else data
    return None if isinstance(read, Rejected) else read.values if read is not None else {}


def line_of(value: object, most: int) -> str:
    """A text of a file as part of a line of ours, of `most` characters at most."""
    text = value[:4096] if isinstance(value, str) else ""
    # The zero-width joiner joins emojis; other invisible characters have no place in a line.
    shown = "".join(sign if sign.isprintable() or sign == "\u200d" else " " for sign in text)
    line = " ".join(shown.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def document(data: bytes) -> Document | Rejected:
    """The settings of one file: flat keys, and over them those of a top-level `env` object. Of a key
    that occurs twice in one object the last counts, and that is noted. Bytes that are not UTF-8 and
    lone surrogates become U+FFFD."""
    repeated: dict[str, None] = {}

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in entries:
            if name in values:
                repeated[name] = None
            values[name] = value
        return values

    notes: list[str] = []
    odd: Rejected | None = None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", "replace")
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        odd = Rejected(f"is not UTF-8: line {line} column {column}", line, column)
        notes.append(f"{odd.reason}; read as U+FFFD there")
    if not text.strip():
        return Rejected("is empty: line 1 column 1", 1, 1)
    try:
        values = json.loads(text, object_pairs_hook=pairs)
        if "\\ud" in text.lower():
            # Only an escape can make a surrogate in text that was decoded.
            values = json.loads(_SURROGATE.sub("\ufffd", json.dumps(values, ensure_ascii=False)))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        return odd or Rejected(f"is not JSON: {error.msg}, {where}", error.lineno, error.colno)
    except RecursionError:
        return Rejected("is nested too deep")
    except ValueError:
        return Rejected("has a number of too many digits")
    if not isinstance(values, dict):
        return Rejected("is not a JSON object")
    notes[:0] = (f"has {name[:80]!r} twice: the last one counts" for name in repeated)
    nested = values.get("env", {})
    if not isinstance(nested, dict):
        notes.append("has an `env` that is not an object: left out")
        nested = {}
    return Document({**values, **nested}, tuple(notes))
