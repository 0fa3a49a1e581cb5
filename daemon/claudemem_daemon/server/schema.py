"""What clients may ask: bodies and query strings become a `Question`, field by field.

Unknown fields are ignored, so that a newer client can talk to an older daemon. Texts are accepted
in `os.fsdecode` form: a path may hold bytes that are no UTF-8.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args
from urllib.parse import unquote_to_bytes

from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question, Scope, contradiction
from claudemem_daemon.selection.by_id import Ref, parse_ref
from claudemem_daemon.server.headers import Headers, environment_of, platform_of

MAX_PATH: Final = 4096
"""Bytes, PATH_MAX on Linux; longer is no path at all."""
MAX_ROWS: Final = 100_000
MAX_NAMES: Final = 4096
YES: Final = frozenset(("1", "true", "t", "yes", "y", "on"))
NO: Final = frozenset(("0", "false", "f", "no", "n", "off", ""))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is wanted")
    try:
        # Surrogates that stand for a byte pass, others are no text at all.
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("it holds half a character") from None
    return value


def _path(value: object) -> str:
    text = _text(value)
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL")
    if len(os.fsencode(text)) > MAX_PATH:
        raise ValueError(f"a path has at most {MAX_PATH} bytes")
    if not text.startswith("/"):
        raise ValueError("an absolute path is wanted: the daemon has another current folder")
    return text


def _names(value: object) -> tuple[str, ...]:
    """A list of texts, or one text with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise ValueError("a list of texts is wanted")
    if len(listed) > MAX_NAMES:
        raise ValueError(f"at most {MAX_NAMES} are taken")
    return tuple(dict.fromkeys(name for each in listed if (name := _text(each).strip())))


def _scope(value: object) -> Any:
    scopes = get_args(Scope)
    if value not in scopes:
        raise ValueError(f"one of {', '.join(scopes)} is wanted")
    return value


def _count(value: object) -> int:
    """A whole number, or its digits as a text, also of more than Python reads."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit():
        digits = value.strip().lstrip("0") or "0"
        value = int(digits) if len(digits) <= len(str(MAX_ROWS)) else MAX_ROWS
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number from 0 on is wanted")
    return min(value, MAX_ROWS)


def _flag(value: object) -> bool:
    word = str(value).lower()
    if isinstance(value, bool | int | str) and word in YES | NO:
        return word in YES
    raise ValueError("true or false is wanted")


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("an object of texts is wanted")
    return {_text(name): _variable(each) for name, each in value.items()}


def _variable(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _text(value)


def _row(value: object) -> Ref:
    ref = None
    if isinstance(value, str | int) and not isinstance(value, bool):
        ref = parse_ref(str(value))
    if ref is None:
        raise ValueError("the id of a row is wanted, such as 12, b7 or S3")
    return ref


FIELDS: Final[Mapping[str, Callable[[object], Any]]] = {
    "cwd": _path,
    "projects": _names,
    "scope": _scope,
    "limit": _count,
    "types": _names,
    "concepts": _names,
    "platform_source": _text,
    "env": _environment,
    "full": _flag,
    "colors": _flag,
    "observation": _row,
}
"""What makes the value of each, and raises ValueError in words for the client. null is no value."""


QUERY_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in FIELDS if name not in ("env", "observation")},
    # claude-mem's own worker takes these.
    "project": "projects",
    "platformSource": "platform_source",
}


def parse_body(data: bytes, headers: Headers) -> tuple[Question, Ref | None]:
    """Of the query and explain routes: the question, and the observation that it asks about. Bytes
    that are no UTF-8 become surrogates, as in a path. Raises `InvalidRequest`."""
    try:
        value = json.loads(
            data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"),
            object_pairs_hook=_distinct_keys,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise InvalidRequest("the body is nested too deep") from None
    except ValueError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be one JSON object")
    known = _checked(value)
    return _question(known, headers), known.get("observation")


def parse_query(query: bytes, headers: Headers) -> Question:
    """The query string of the inject route and the look-ups; a parameter without a value counts as
    not given. Raises `InvalidRequest`."""
    values: dict[str, Any] = {}
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        field = QUERY_NAMES.get(_decoded(name))
        if field is None or not value:
            continue
        if field in ("projects", "types", "concepts"):
            values.setdefault(field, []).extend(_decoded(value).split(","))
        elif field in values:
            raise InvalidRequest(f"{_decoded(name)} is given twice")
        else:
            values[field] = _decoded(value)
    return _question(_checked(values), headers)


def _checked(values: Mapping[str, object]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, value_of in FIELDS.items():
        value = values.get(name)
        try:
            if value is not None:
                known[name] = value_of(value)
        except ValueError as error:
            raise InvalidRequest(f"{name}: {error}") from None
    cwd, projects = known.get("cwd"), known.get("projects")
    wrong = contradiction(cwd, projects)
    if wrong is None and cwd is None and projects is None:
        wrong = "give cwd (an absolute path) or projects (at least one key)"
    if wrong is not None:
        raise InvalidRequest(wrong)
    return known


def _question(known: Mapping[str, Any], headers: Headers) -> Question:
    """What the fields say wins over the headers."""
    return Question(
        cwd=known.get("cwd"),
        projects=known.get("projects", ()),
        env={**environment_of(headers), **known.get("env", {})},
        scope=known.get("scope"),
        limit=known.get("limit"),
        types=known.get("types"),
        concepts=known.get("concepts"),
        platform_source=known.get("platform_source") or platform_of(headers),
        full=known.get("full", False),
        human=known.get("colors", False),
    )


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name[:80]!r} is given twice in one object")
    return value


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _decoded(data: bytes) -> str:
    return os.fsdecode(unquote_to_bytes(data.replace(b"+", b" ")))
