"""A row that cannot be written costs that row, wherever in the writing it fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.context import sanitize
from claudemem_daemon.question import Question
from claudemem_daemon.selection import model
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.shapes import as_json, row_shape
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.rows import (
    OBSERVATION_CELLS,
    SUMMARY_CELLS,
    Cell,
    Row,
    epoch_ms,
    text,
)
from claudemem_daemon.transcript import PriorMessage
from tests.context.factory import NOON, STORE, context, row, selection, session

BAD = "a text that cannot be written"
SESSION = {"investigated": "", "learned": "", "completed": "", "next_steps": ""}
SETTINGS = {"full_count": 9, "full_field": "narrative", "context_chars": 100_000}


class BadNumber(int):
    """A number that cannot be worked with, as none of a store is."""

    def __abs__(self) -> int:
        raise LookupError


def text_badly(cell: Cell) -> str:
    """Of a cell, as of none of a store."""
    if cell == BAD:
        raise LookupError(cell)
    return text(cell)


@pytest.fixture(autouse=True)
def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that the sanitizer fails on, as no text is known to do."""
    one_line = sanitize.one_line

    def failing(raw: str, max_chars: int | None = None) -> str:
        if BAD in raw:
            raise LookupError(raw)
        return one_line(raw, max_chars)

    monkeypatch.setattr(sanitize, "one_line", failing)


@pytest.mark.parametrize("human", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"title": BAD},
        {"title": "", "subtitle": BAD},
        {"narrative": BAD},
        {"facts": (BAD,)},
        {"type": BAD},
        {"project": BAD},
        {"discovery_tokens": BadNumber()},
    ],
    ids=str,
)
def test_such_a_row_is_left_out_and_the_others_are_there(
    fields: dict[str, Any], human: bool
) -> None:
    shown = [row(3), row(2, **fields), row(1)]
    question = Question(cwd="/w/app", human=human)
    made = context(selection(shown, [session(4)]), settings=SETTINGS, question=question)
    assert "title 3" in made.text
    assert "title 2" not in made.text
    assert "title 1" in made.text
    assert "request 4" in made.text
    assert (made.observations, made.left_out) == (2, 0)
    (warning,) = made.warnings
    assert (warning.code, warning.path) == ("store_rows", STORE)
    assert warning.message in made.text


@pytest.mark.parametrize("field", ["request", "learned", "notes", "project"])
def test_such_a_session_is_left_out_of_section_and_timeline(field: str) -> None:
    last = session(9, **{field: BAD})
    made = context(selection([row(1)], [last, session(0)]), settings=SETTINGS)
    assert "title 1" in made.text
    assert "request 0" in made.text
    assert "Last session" not in made.text
    assert [warning.code for warning in made.warnings] == ["store_rows"]
    line = session(9, **{**SESSION, "request": BAD})
    made = context(selection([row(1)], [line, session(0)]), settings=SETTINGS)
    assert "title 1" in made.text
    assert "request 0" in made.text
    assert [warning.code for warning in made.warnings] == ["store_rows"]


@pytest.mark.parametrize("field", ["request", "investigated", "next_steps"])
def test_such_a_session_is_left_out_where_its_words_cannot_even_be_read(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """They are read when they are asked for, first by whoever judges whether they are a last word."""
    monkeypatch.setattr(model, "text", text_badly)
    last = session(9, **{**SESSION, "learned": "a lot", field: BAD})
    made = context(selection([row(1)], [last, session(0)]), settings=SETTINGS)
    assert "title 1" in made.text
    assert "request 0" in made.text
    assert "Last session" not in made.text
    assert [warning.code for warning in made.warnings] == ["store_rows"]


def test_a_row_below_such_a_row_tells_what_that_one_would_have_told() -> None:
    """Time and origin are left out where they are those of the row above."""
    at = {"created_at_epoch": NOON, "project": "app/app-b"}
    shown = [row(3), row(2, title=BAD, **at), row(1, **at), row(0, **at)]
    lines = context(selection(shown)).text.splitlines()
    (below,) = (line for line in lines if "title 1" in line)
    assert "12:00" in below
    assert "[app-b]" in below
    (after,) = (line for line in lines if "title 0" in line)
    assert "12:00" not in after
    assert "[app-b]" not in after


def test_a_header_alone_says_what_is_missing_and_news_say_nothing() -> None:
    made = context(selection([row(1, title=BAD)]))
    assert "1 row has" in made.text
    assert (made.observations, made.left_out) == (0, 0)
    news = Question(cwd="/w/app", since={STORE: 0})
    made = context(selection([row(1, title=BAD)]), question=news)
    assert made.text == ""
    assert [warning.code for warning in made.warnings] == ["store_rows"]


def test_such_a_prior_message_is_left_out() -> None:
    made = context(selection([row(1)]), prior_message=PriorMessage(BAD, ()))
    assert "title 1" in made.text
    assert [warning.code for warning in made.warnings] == ["prior_message"]


CELL = st.one_of(
    st.none(),
    st.text(st.characters(codec=None), max_size=30),
    st.binary(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from(['["a", 1, null, {}]', '{"a": "b"}', "[" * 3000, '"x', "\\ud800", "1e999"]),
)
TEXT = st.text(st.characters(codec=None), max_size=20)


def rows_of(cells: int) -> st.SearchStrategy[Row]:
    return st.builds(
        Row,
        id=st.integers(-(2**63), 2**63 - 1),
        project=TEXT,
        merged=st.one_of(st.none(), TEXT),
        epoch=st.builds(epoch_ms, CELL, CELL),
        session=TEXT,
        platform=st.one_of(st.none(), TEXT),
        origin=st.none(),
        cells=st.lists(CELL, min_size=cells, max_size=cells).map(tuple),
        name=TEXT,
    )


@given(
    st.lists(rows_of(len(OBSERVATION_CELLS)), max_size=3),
    st.lists(rows_of(len(SUMMARY_CELLS)), max_size=2),
    st.booleans(),
    st.sampled_from(["narrative", "facts"]),
)
def test_no_value_of_a_store_is_such_a_row(
    observed: list[Row], sessions: list[Row], human: bool, field: str
) -> None:
    ref = StoreRef(STORE, "told")
    observations: list[Observation] = [Observation(one, ref) for one in observed]
    summaries: list[Summary] = [Summary(one, ref) for one in sessions]
    made = context(
        selection(observations, summaries),
        question=Question(cwd="/w/app", human=human),
        settings={
            **SETTINGS,
            "full_field": field,
            "show_read_tokens": True,
            "show_work_tokens": True,
        },
    )
    assert made.warnings == ()
    assert made.observations == len(observations)
    assert made.text.encode()
    every: list[Observation | Summary] = [*observations, *summaries]
    for one in every:
        assert json.loads(as_json(row_shape(one)))["project"] == one.project
