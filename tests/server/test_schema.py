"""Whatever bytes come, they become a question or one clear refusal."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.cli.options import make_question
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question
from claudemem_daemon.server.headers import Headers, environment_of
from claudemem_daemon.server.schema import (
    FIELDS,
    MAX_PATH,
    MAX_ROWS,
    parse_body,
    parse_query,
)
from claudemem_daemon.settings.parsers import ids
from claudemem_daemon.shapes import as_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
PATHS = st.binary(max_size=60).map(lambda tail: b"/" + tail.replace(b"\0", b""))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_body_or_a_refusal(data: bytes) -> None:
    refused_or(data, asked)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES))
def test_any_values_are_a_body_or_a_refusal(values: dict[str, Any]) -> None:
    refused_or(json.dumps(values).encode(), asked)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_query_string_or_a_refusal(data: bytes) -> None:
    refused_or(data, asked_by_query)


def asked(data: bytes, headers: Headers = ()) -> Question:
    """The question of a body."""
    return parse_body(data, headers)[0]


def asked_by_query(query: bytes) -> Question:
    return parse_query(query, ())


def refused_or(data: bytes, parse: Any) -> None:
    refusal: str | None = None
    try:
        question = parse(data)
    except InvalidRequest as error:
        refusal = error.message
    else:
        assert (question.cwd is None) != (not question.projects)
        assert question.cwd is None or question.cwd.startswith("/")
        assert question.limit is None or 0 <= question.limit <= MAX_ROWS
        as_json([question.cwd, question.projects]).decode("ascii")
    if refusal is not None:
        assert 0 < len(refusal) < 500
        assert "\n" not in refusal


@given(PATHS)
def test_every_path_arrives_as_it_is(path: bytes) -> None:
    text = os.fsdecode(path)
    assert asked_by_query(b"cwd=" + quote(path).encode()).cwd == text
    assert asked(json.dumps({"cwd": text}).encode()).cwd == text
    raw = b'{"cwd": %s}' % os.fsencode(json.dumps(text, ensure_ascii=False))
    assert asked(raw).cwd == text


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,20}", fullmatch=True), st.binary(max_size=40)))
def test_the_callers_environment_arrives_as_it_is(environ: dict[str, bytes]) -> None:
    headers = [
        (b"claudemem-env", name.encode() + b"=" + quote(value, safe="").encode())
        for name, value in environ.items()
    ]
    other = [(b"host", b"localhost")]
    assert environment_of([*other, *headers]) == {
        name: os.fsdecode(value) for name, value in environ.items()
    }


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        (b"projects=a,b,a", "projects", ("a", "b")),
        (b"projects=a&projects=b%2Cc", "projects", ("a", "b", "c")),
        (b"project=a", "projects", ("a",)),
        (b"cwd=/a+b", "cwd", "/a b"),
        (b"cwd=/a%2Bb", "cwd", "/a+b"),
        (b"cwd=/a&full=true", "full", True),
        (b"cwd=/a&full=false", "full", False),
        (b"cwd=/a&full=", "full", False),
        (b"cwd=/a&colors=1", "human", True),
        (b"cwd=/a&limit=7", "limit", 7),
        (b"cwd=/a&limit=0", "limit", 0),
        (b"cwd=/a&limit=999999999", "limit", MAX_ROWS),
        (b"cwd=/a&limit=" + b"9" * 30, "limit", MAX_ROWS),
        (b"cwd=/a&limit=" + b"9" * 5000, "limit", MAX_ROWS),
        (b"cwd=/a&limit=" + b"0" * 5000 + b"7", "limit", 7),
        (b"cwd=/a&types=bugfix,%20decision", "types", ("bugfix", "decision")),
        (b"cwd=/a&concepts=", "concepts", None),
        (b"cwd=/a&platformSource=cursor", "platform_source", "cursor"),
        (b"cwd=/a&scope=self", "scope", "self"),
        (b"cwd=/a&unknown=1&&=", "cwd", "/a"),
    ],
)
def test_a_query_string_means(query: bytes, field: str, value: object) -> None:
    assert getattr(asked_by_query(query), field) == value


@pytest.mark.parametrize("limit", [10**30, "9" * 30, f" {10**30} "])
def test_more_rows_than_the_most_are_the_most_in_every_form(limit: object) -> None:
    assert asked(json.dumps({"cwd": "/a", "limit": limit}).encode()).limit == MAX_ROWS


@pytest.mark.parametrize("limit", ["-1", "1.0", "1e3", "٣", "x", "", "+1", "1_0"])
def test_what_is_no_count_is_refused(limit: str) -> None:
    with pytest.raises(InvalidRequest, match="limit: Input should be"):
        asked(json.dumps({"cwd": "/a", "limit": limit}).encode())


def test_the_longest_path_is_taken_and_no_longer() -> None:
    longest = "/" + "ü" * ((MAX_PATH - 1) // 2)
    assert asked(json.dumps({"cwd": longest}).encode()).cwd == longest
    with pytest.raises(InvalidRequest, match="at most"):
        asked(json.dumps({"cwd": longest + "ü"}).encode())


@pytest.mark.parametrize(
    "text", ["bugfix, decision", '["bugfix", "decision"]', ' [ "bugfix",\n"Decision"]', "", " "]
)
@pytest.mark.parametrize("field", ["types", "concepts"])
def test_a_list_of_ids_is_read_as_that_of_a_setting(text: str, field: str) -> None:
    """The words are those of a settings.json, which people copy."""
    meant = ids(text, "").value
    body = json.dumps({"cwd": "/a", field: text}).encode()
    assert getattr(asked(body), field) == meant
    query = f"cwd=/a&{field}={quote(text)}"
    assert getattr(asked_by_query(query.encode()), field) == meant
    assert getattr(make_question(cwd="/a", **{field: text}), field) == meant  # type: ignore[arg-type]  # text is what is tried


@pytest.mark.parametrize("text", ["[bugfix]", "['bugfix']", '["bugfix",]', "[1]"])
def test_what_looks_like_a_list_and_is_none_is_refused(text: str) -> None:
    """It was an id of which no row has the like: the answer was empty without a word."""
    refused = partial(pytest.raises, InvalidRequest, match=r"types: .* list of texts is wanted")
    with refused():
        asked(json.dumps({"cwd": "/a", "types": text}).encode())
    with refused():
        asked_by_query(b"cwd=/a&types=" + quote(text).encode())
    with refused():
        make_question(cwd="/a", types=text)


def test_an_explicit_empty_list_is_not_the_same_as_none() -> None:
    assert asked(b'{"cwd": "/a", "types": []}').types == ()
    assert asked(b'{"cwd": "/a", "types": null}').types is None


def test_the_bodys_environment_stands_above_the_headers() -> None:
    headers = [(b"claudemem-env", b"A=header"), (b"claudemem-env", b"B=header")]
    body = b'{"cwd": "/a", "env": {"A": "body", "C": true}}'
    assert asked(body, headers).env == {
        "A": "body",
        "B": "header",
        "C": "true",
    }
