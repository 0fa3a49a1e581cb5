"""What clients may ask, checked: bodies and query strings become a `Question`.

Unknown fields are ignored, so that a newer client can talk to an older daemon. Texts are accepted
in `os.fsdecode` form: a path may hold bytes that are no UTF-8, which pydantic's own text type
refuses, so texts have a type of their own here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, cast, get_args
from urllib.parse import unquote_to_bytes

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question, Scope, contradiction
from claudemem_daemon.selection.lookup import Ref, parse_ref

MOST_PATH: Final = 4096
"""Bytes, PATH_MAX on Linux; longer is no path at all."""
MOST_ROWS: Final = 100_000
MOST_PROJECTS: Final = 4096


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("a text is wanted")
    return value if value is None else _encodable(value)


def _encodable(text: str) -> str:
    """Surrogates that stand for a byte pass, others are no text at all."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError("it holds half a character") from None
    return text


def _path(value: object) -> str | None:
    text = _text(value)
    if text is None:
        return None
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL")
    if len(os.fsencode(text)) > MOST_PATH:
        raise ValueError(f"a path has at most {MOST_PATH} bytes")
    if not text.startswith("/"):
        raise ValueError("an absolute path is wanted: the daemon has another current folder")
    return text


def _names(value: object) -> tuple[str, ...] | None:
    """A list of texts, or one text with commas."""
    if value is None:
        return None
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list of texts is wanted, or one text with commas")
    if len(value) > MOST_PROJECTS:
        raise ValueError(f"at most {MOST_PROJECTS} are taken")
    return tuple(dict.fromkeys(_encodable(one) for each in value if (one := each.strip())))


def _count(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("a whole number is wanted")
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("a whole number is wanted, 0 or more")
        # Python reads 4,300 digits at most, and more than a few are too many rows anyway.
        digits = digits.lstrip("0") or "0"
        value = int(digits) if len(digits) <= len(str(MOST_ROWS)) else MOST_ROWS
    number = int(value)
    if number < 0:
        raise ValueError("0 or more is wanted")
    return min(number, MOST_ROWS)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "1", "yes", "on"):
        return True
    if value is None or (
        isinstance(value, str) and value.lower() in ("false", "0", "no", "off", "")
    ):
        return False
    raise ValueError("true or false is wanted")


def _environment(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("an object of names and texts is wanted")
    taken: dict[str, str] = {}
    for name, one in value.items():
        if isinstance(one, bool):
            one = "true" if one else "false"
        if not isinstance(one, (str, int, float)):
            raise ValueError(f"{name[:80]} is no text")
        taken[name] = str(one)
    return taken


def _scope(value: object) -> str | None:
    if value is not None and value not in get_args(Scope):
        raise ValueError(f"one of {', '.join(get_args(Scope))} is wanted")
    return cast(str | None, value)


def _row(value: object) -> Ref | None:
    if value is None:
        return None
    ref = parse_ref(str(value)) if isinstance(value, str | int) else None
    if ref is None or isinstance(value, bool):
        raise ValueError("the id of a row is wanted, such as 12, b7 or S3")
    return ref


_NAMES: Final = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
_VARIABLES: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ROW: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}]}

Text = Annotated[Any, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
AbsolutePath = Annotated[
    Any, BeforeValidator(_path), WithJsonSchema({"type": "string", "pattern": "^/"})
]
Names = Annotated[Any, BeforeValidator(_names), WithJsonSchema(_NAMES)]
Count = Annotated[Any, BeforeValidator(_count), WithJsonSchema({"type": "integer", "minimum": 0})]
Flag = Annotated[Any, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
Environment = Annotated[Any, BeforeValidator(_environment), WithJsonSchema(_VARIABLES)]
ScopeName = Annotated[Any, BeforeValidator(_scope), WithJsonSchema({"enum": [*get_args(Scope)]})]
RowId = Annotated[Any, BeforeValidator(_row), WithJsonSchema(_ROW)]


class Body(BaseModel):
    """`POST /v1/query` and `/v1/explain`, and the query string of the inject route."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    cwd: AbsolutePath = None
    projects: Names = None
    scope: ScopeName = None
    limit: Count = None
    types: Names = None
    concepts: Names = None
    platform_source: Text = None
    env: Environment = {}
    full: Flag = False
    colors: Flag = False
    observation: RowId = None

    @model_validator(mode="after")
    def _one_subject(self) -> Body:
        wrong = contradiction(self.cwd, self.projects)
        if wrong is None and self.cwd is None and self.projects is None:
            wrong = "give cwd (an absolute path) or projects (at least one key)"
        if wrong is not None:
            raise ValueError(wrong)
        return self

    def question(self, headers: Iterable[tuple[bytes, bytes]]) -> Question:
        """The question; what the body says wins over the headers."""
        headers = tuple(headers)
        platform = next((value for name, value in headers if name == PLATFORM_HEADER), b"")
        return Question(
            cwd=self.cwd,
            projects=self.projects or (),
            env={**header_environment(headers), **self.env},
            scope=self.scope,
            limit=self.limit,
            types=self.types,
            concepts=self.concepts,
            platform_source=self.platform_source or platform.decode("utf-8", "replace") or None,
            full=self.full,
            human=self.colors,
        )


def parse_json(data: bytes) -> Any:
    """The value in `data`; bytes that are no UTF-8 become surrogates, as in a path.

    Raises `InvalidRequest`: for what is no JSON, is nested too deep, or names a key twice.
    """
    try:
        return json.loads(
            data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"),
            object_pairs_hook=_once,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise InvalidRequest("the body is nested too deep") from None
    except ValueError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None


def parse_body(data: bytes) -> Body:
    """A body of the query and explain routes. Raises `InvalidRequest`."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be one JSON object")
    return _checked(value)


PLATFORM_HEADER: Final = b"x-platform-source"
QUESTION_HEADERS: Final = (b"claudemem-env", PLATFORM_HEADER)
"""What besides the query string decides what is asked."""

INJECT_NAMES: Final[Mapping[str, str]] = {
    "cwd": "cwd",
    "projects": "projects",
    # claude-mem's own worker takes one project by this name as well.
    "project": "projects",
    "full": "full",
    "colors": "colors",
    "platformSource": "platform_source",
    "platform_source": "platform_source",
    "limit": "limit",
    "types": "types",
    "concepts": "concepts",
    "scope": "scope",
}
_LISTS: Final = ("projects", "types", "concepts")


def parse_query(query: bytes) -> Body:
    """The query string of the inject route; a parameter without a value counts as not given.

    Raises `InvalidRequest`.
    """
    values: dict[str, Any] = {}
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        field = INJECT_NAMES.get(_decoded(name))
        if field is None or not value:
            continue
        text = _decoded(value)
        if field in _LISTS:
            values.setdefault(field, []).extend(text.split(","))
        elif field in values:
            raise InvalidRequest(f"{_decoded(name)} is given twice")
        else:
            values[field] = text
    return _checked(values)


def header_environment(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The caller's environment from `Claudemem-Env: NAME=percent-encoded value` headers."""
    environ: dict[str, str] = {}
    for name, value in headers:
        if name == b"claudemem-env":
            key, _, encoded = value.partition(b"=")
            environ[os.fsdecode(key.strip())] = os.fsdecode(unquote_to_bytes(encoded))
    return environ


def _checked(values: Mapping[str, Any]) -> Body:
    try:
        return Body.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{field}: {message}" if field else message) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice[:80]!r} stands twice in one object")
    return value


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _decoded(data: bytes) -> str:
    return os.fsdecode(unquote_to_bytes(data.replace(b"+", b" ")))
