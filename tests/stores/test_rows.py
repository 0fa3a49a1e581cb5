"""Cells of any type, for SQLite keeps whatever it is given."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.stores.letters import lower, lowered
from claudemem_daemon.stores.rows import (
    OBSERVATION_CELLS,
    Cell,
    Row,
    concept_list,
    content_key,
    epoch_ms,
    iso_ms,
    row_id,
    text,
    text_list,
    whole_number,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
cells = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=40),
    st.text(st.characters(codec=None), max_size=40),
    json_values.map(json.dumps),
    st.integers(1, 4000).map(lambda depth: "[" * depth),
)


@given(cells, cells)
def test_no_cell_makes_the_reader_fail(cell: Cell, other: Cell) -> None:
    shown = [text(cell), *text_list(cell), *concept_list(cell)]
    for one in shown:
        one.encode("utf-8")
        assert "\0" not in one
    assert whole_number(cell) == int(whole_number(cell))
    epoch = epoch_ms(cell, other)
    assert epoch is None or epoch > 0


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)))
def test_a_list_of_texts_comes_back_as_it_was_written(items: list[str]) -> None:
    kept = tuple(item for item in items if item.strip())
    assert text_list(json.dumps(items)) == kept
    assert concept_list(json.dumps(items)) == tuple(items)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, ()),
        ("", ()),
        ("  ", ()),
        ("[]", ()),
        ("null", ()),
        ("a bare string", ("a bare string",)),
        ('"quoted"', ("quoted",)),
        ('["a", 1, null, true, ["b"], {"c": 1}]', ("a", "1", "true", '["b"]', '{"c": 1}')),
        ('["cut off', ('["cut off',)),
        ("42", ("42",)),
        (42, ("42",)),
        (b"bytes \xff", ("bytes \ufffd",)),
        ('["\\ud800"]', ("\ufffd",)),
        ('["a\\u0000b"]', ("a\ufffdb",)),
    ],
)
def test_lists_are_read_however_they_were_written(cell: Cell, expected: tuple[str, ...]) -> None:
    """Case facts-files-bare-string."""
    assert text_list(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('["gotcha"]', ("gotcha",)),
        ('"gotcha"', ("gotcha",)),
        ("gotcha", ()),
        ('["gotcha",]', ()),
        ('{"k":"gotcha"}', ("gotcha",)),
        ('{"k":"a","k":"b","n":[1]}', ("a", "b")),
        ('[["gotcha"]]', ()),
        ("null", ()),
        (None, ()),
        (b"\x00\xff", ()),
    ],
)
def test_concepts_are_the_texts_of_valid_json(cell: Cell, expected: tuple[str, ...]) -> None:
    """Case malformed-concepts-json-aborts-query."""
    assert concept_list(cell) == expected


@pytest.mark.parametrize(
    ("cell", "created_at", "expected"),
    [
        (1_767_225_600_000, "2026-01-01T00:00:00.000Z", 1_767_225_600_000),
        (1_767_312_000, "2026-01-02T00:00:00.000Z", 1_767_312_000_000),
        (1_767_398_400_000_000, "2026-01-03T00:00:00.000Z", 1_767_398_400_000),
        ("1767225600001", None, 1_767_225_600_001),
        (1_767_225_600_000.5, None, 1_767_225_600_000),
        (5_000_000_000, "1970-02-27T20:53:20Z", 5_000_000_000),
        (None, "2026-01-01T00:00:00Z", None),
        (0, "2026-01-01T00:00:00Z", None),
        (-1, "2026-01-01T00:00:00Z", None),
        ("yesterday", "2026-01-01T00:00:00Z", None),
        (float("inf"), None, None),
        (b"1767225600000", None, None),
    ],
)
def test_a_time_is_told_by_its_magnitude_and_never_invented(
    cell: Cell, created_at: Cell, expected: int | None
) -> None:
    """Case epoch-seconds-vs-milliseconds."""
    assert epoch_ms(cell, created_at) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2026-01-01T00:00:00.000Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        ("soon", None),
        (17, None),
    ],
)
def test_iso_text_is_utc_unless_it_says_otherwise(cell: Cell, expected: int | None) -> None:
    assert iso_ms(cell) == expected


def row(epoch: int | None, **given_cells: Cell) -> Row:
    values = tuple(given_cells.get(name) for name in OBSERVATION_CELLS)
    return Row(1, "app", None, epoch, "s", None, None, values)


def test_a_row_without_content_is_nobodys_copy() -> None:
    assert content_key(row(5, type="bugfix")) is None


def test_rows_without_a_time_are_told_by_their_created_at() -> None:
    first, second = (row(None, title="t", created_at=f"day {n}") for n in (1, 2))
    assert content_key(first) != content_key(second)
    assert content_key(first) == content_key(row(None, title="t", created_at="day 1"))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (7, 7),
        (-7, -7),
        (7.0, 7),
        ("7", 7),
        (7.5, None),
        ("seven", None),
        (b"7", None),
        (None, None),
        (float("inf"), None),
        (1e19, None),
        ("9" * 30, None),
    ],
)
def test_an_id_is_a_whole_number_that_sqlite_can_hold(cell: Cell, expected: int | None) -> None:
    assert row_id(cell) == expected


@given(st.text(st.characters(categories=["L", "M"]), max_size=4))
def test_a_stored_name_matches_whatever_its_letter_case(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        for spelled in {name, name.upper(), name.lower(), name.title()}:
            wanted = lower(spelled)
            statement = f"SELECT {lowered('?', [wanted])} = ?"
            assert db.execute(statement, (spelled, wanted)).fetchone() == (1,)
