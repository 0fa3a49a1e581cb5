"""What clients may ask, checked by pydantic's validator: bodies and query strings become a `Question`.

Unknown fields are ignored, so that a newer client can talk to an older daemon. Texts are accepted
in `os.fsdecode` form: a path may hold bytes that are no UTF-8, which the validator's own text type
refuses.

The fields are described to `pydantic_core` itself, and not by a model that pydantic translates for
it: importing the translator takes 50 ms and 5 MB, a quarter of the start.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, get_args
from urllib.parse import unquote_to_bytes

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as core

from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question, Scope, contradiction
from claudemem_daemon.selection.by_id import Ref, parse_ref
from claudemem_daemon.server.headers import Headers, environment_of, platform_of
from claudemem_daemon.settings.parsers import ids

MAX_PATH: Final = 4096
"""Bytes, PATH_MAX on Linux; longer is no path at all."""
MAX_ROWS: Final = 100_000
MAX_NAMES: Final = 4096


def _encodable(text: str) -> str:
    """Surrogates that stand for a byte pass, others are no text at all."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError("it holds half a character") from None
    return text


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL")
    if len(os.fsencode(text)) > MAX_PATH:
        raise ValueError(f"a path has at most {MAX_PATH} bytes")
    if not text.startswith("/"):
        raise ValueError("an absolute path is wanted: the daemon has another current folder")
    return text


def _split(value: object) -> object:
    """A list may also be one text with commas."""
    return value.split(",") if isinstance(value, str) else value


def _ids(value: object) -> object:
    """A list of types or concepts, in every form that settings have; None for an empty text."""
    return ids(value, "").value


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in names if (name := each.strip())))


def _digits(value: object) -> object:
    """A count may also be a text of digits, also of more than Python reads."""
    if not isinstance(value, str) or not (value.isascii() and value.strip().isdigit()):
        return value
    digits = value.strip().lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_ROWS)) else MAX_ROWS


def _at_most(count: int) -> int:
    return min(count, MAX_ROWS)


def _variable(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _row(value: object) -> Ref:
    ref = None
    if isinstance(value, str | int) and not isinstance(value, bool):
        ref = parse_ref(str(value))
    if ref is None:
        raise ValueError("the id of a row is wanted, such as 12, b7 or S3")
    return ref


_after = core.no_info_after_validator_function
_before = core.no_info_before_validator_function

TEXT: Final = _after(_encodable, core.is_instance_schema(str))
NAMES: Final = _after(
    _distinct, _before(_split, core.tuple_variable_schema(TEXT, max_length=MAX_NAMES))
)
IDS: Final = _before(
    _ids, core.nullable_schema(core.tuple_variable_schema(TEXT, max_length=MAX_NAMES))
)
FLAG: Final = core.bool_schema()
FIELDS: Final[Mapping[str, core.CoreSchema]] = {
    "cwd": _after(_path, TEXT),
    "projects": NAMES,
    "scope": core.literal_schema(list(get_args(Scope))),
    "limit": _after(_at_most, _before(_digits, core.int_schema(ge=0, strict=True))),
    "types": IDS,
    "concepts": IDS,
    "platform_source": TEXT,
    "env": core.dict_schema(TEXT, _before(_variable, TEXT)),
    "full": FLAG,
    "colors": FLAG,
    "observation": core.no_info_plain_validator_function(_row),
}
"""Of `POST /v1/query` and `/v1/explain`, and of query strings. null is no value."""

BODY: Final = core.typed_dict_schema(
    {
        name: core.typed_dict_field(core.nullable_schema(field), required=False)
        for name, field in FIELDS.items()
    },
    extra_behavior="ignore",
)
_VALIDATOR: Final = SchemaValidator(BODY)


def parse_body(data: bytes, headers: Headers) -> tuple[Question, Ref | None]:
    """Of the query and explain routes: the question, and the observation that is asked about. Bytes
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
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be one JSON object")
    known = _checked(value)
    return _question(known, headers), known.get("observation")


INJECT_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in FIELDS if name not in ("env", "observation")},
    # claude-mem's own worker takes these.
    "project": "projects",
    "platformSource": "platform_source",
}


def parse_query(query: bytes, headers: Headers) -> Question:
    """The question of a query string; a parameter without a value counts as not given.

    Raises `InvalidRequest`.
    """
    values: dict[str, Any] = {}
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        field = INJECT_NAMES.get(_decoded(name))
        if field is None or not value:
            continue
        if field in ("projects", "types", "concepts"):
            values[field] = ",".join(filter(None, (values.get(field), _decoded(value))))
        elif field in values:
            raise InvalidRequest(f"{_decoded(name)} is given twice")
        else:
            values[field] = _decoded(value)
    return _question(_checked(values), headers)


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that we know and that are given."""
    try:
        known: dict[str, Any] = _VALIDATOR.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part)[:80] for part in first["loc"])
        raise InvalidRequest(f"{field}: {first['msg'].removeprefix('Value error, ')}") from None
    return {name: value for name, value in known.items() if value is not None}


def _question(known: Mapping[str, Any], headers: Headers) -> Question:
    """What the body or query string says wins over the headers."""
    cwd, projects = known.get("cwd"), known.get("projects")
    wrong = contradiction(cwd, projects)
    if wrong is None and cwd is None and projects is None:
        wrong = "give cwd (an absolute path) or projects (at least one key)"
    if wrong is not None:
        raise InvalidRequest(wrong)
    return Question(
        cwd=cwd,
        projects=projects or (),
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
    raise ValueError(f"{word} is not a JSON number")


def _decoded(data: bytes) -> str:
    return os.fsdecode(unquote_to_bytes(data.replace(b"+", b" ")))
