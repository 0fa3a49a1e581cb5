"""What clients may ask, checked by pydantic: bodies and query strings become a `Question`.

Unknown fields are ignored, so that a newer client can talk to an older daemon. Texts are accepted
in `os.fsdecode` form: a path may hold bytes that are no UTF-8, which pydantic's own text type
refuses.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question, Scope, contradiction
from claudemem_daemon.selection.by_id import Ref, parse_ref
from claudemem_daemon.server.headers import Headers, environment_of, platform_of

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


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in names if (name := each.strip())))


def _digits(value: object) -> object:
    """A count may also be a text of digits, also of more than Python reads."""
    if not isinstance(value, str) or not (value.isascii() and value.strip().isdigit()):
        return value
    digits = value.strip().lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_ROWS)) else MAX_ROWS


def _flag(value: object) -> object:
    """A parameter without a value, and null, say no."""
    return False if value in ("", None) else value


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


Text = Annotated[InstanceOf[str], AfterValidator(_encodable), WithJsonSchema({"type": "string"})]
AbsolutePath = Annotated[
    Text, AfterValidator(_path), WithJsonSchema({"type": "string", "pattern": "^/"})
]
Names = Annotated[
    tuple[Text, ...],
    Field(max_length=MAX_NAMES),
    BeforeValidator(_split),
    AfterValidator(_distinct),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Count = Annotated[
    int,
    Field(ge=0, strict=True),
    BeforeValidator(_digits),
    AfterValidator(lambda count: min(count, MAX_ROWS)),
]
Flag = Annotated[bool, BeforeValidator(_flag)]
Variable = Annotated[Text, BeforeValidator(_variable)]
RowId = Annotated[
    Ref,
    PlainValidator(_row),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]


class Body(BaseModel):
    """`POST /v1/query` and `/v1/explain`, and the query string of the inject route."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    cwd: AbsolutePath | None = None
    projects: Names | None = None
    scope: Scope | None = None
    limit: Count | None = None
    types: Names | None = None
    concepts: Names | None = None
    platform_source: Text | None = None
    env: dict[Text, Variable] | None = None
    full: Flag = False
    colors: Flag = False
    observation: RowId | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> Body:
        wrong = contradiction(self.cwd, self.projects)
        if wrong is None and self.cwd is None and self.projects is None:
            wrong = "give cwd (an absolute path) or projects (at least one key)"
        if wrong is not None:
            raise ValueError(wrong)
        return self

    def question(self, headers: Headers) -> Question:
        """The question; what the body says wins over the headers."""
        headers = tuple(headers)
        return Question(
            cwd=self.cwd,
            projects=self.projects or (),
            env={**environment_of(headers), **(self.env or {})},
            scope=self.scope,
            limit=self.limit,
            types=self.types,
            concepts=self.concepts,
            platform_source=self.platform_source or platform_of(headers),
            full=self.full,
            human=self.colors,
        )


def parse_body(data: bytes) -> Body:
    """A body of the query and explain routes; bytes that are no UTF-8 become surrogates, as in a
    path. Raises `InvalidRequest`."""
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
    return _checked(value)


INJECT_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in Body.model_fields if name not in ("env", "observation")},
    # claude-mem's own worker takes these.
    "project": "projects",
    "platformSource": "platform_source",
}


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
        if field in ("projects", "types", "concepts"):
            values.setdefault(field, []).extend(_decoded(value).split(","))
        elif field in values:
            raise InvalidRequest(f"{_decoded(name)} is given twice")
        else:
            values[field] = _decoded(value)
    return _checked(values)


def _checked(values: Mapping[str, Any]) -> Body:
    try:
        return Body.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part)[:80] for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"{field}: {words}" if field else words) from None


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
