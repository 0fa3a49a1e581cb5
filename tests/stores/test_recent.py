"""Rows read a moment ago: the same object for the same cells, and never an old row for new ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.stores import reader as reader_module
from claudemem_daemon.stores import recent as module
from claudemem_daemon.stores.recent import RecentRows
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, Row
from claudemem_daemon.stores.sql import Table

_row = partial(reader_module._row, "observations")

cell = st.one_of(
    st.none(),
    st.sampled_from(["", "a", "1", b"a", b"", 1, 0, 1.0, 0.0, -0.0, float("nan"), float("inf")]),
)
places = st.tuples(
    st.sampled_from(["/a.db", "/b.db"]),
    st.sampled_from(["observations", "session_summaries"]),
    st.integers(1, 3),
)


def cells_of(number: int, title: Any) -> tuple[Any, ...]:
    rest = (title if name == "title" else None for name in OBSERVATION_CELLS)
    return (number, "app", None, "s", None, None, None, None, *rest)


@pytest.mark.parametrize(
    "titles", [(1.0, 1), (1, 1.0), (0.0, -0.0), ("1", 1), (b"a", "a"), (float("nan"), 1)]
)
def test_equal_is_not_the_same(titles: tuple[Any, Any]) -> None:
    recent = RecentRows()
    for title in titles:
        row = recent.row(("/a.db", "observations", 1), cells_of(1, title), 1, _row)
        assert repr(row) == repr(_row(cells_of(1, title), 1))


@given(st.lists(st.tuples(places, cell, st.one_of(st.none(), st.integers(1, 2))), max_size=30))
def test_a_row_is_what_its_cells_say_whatever_was_read_before(reads: list[Any]) -> None:
    """1 and 1.0 are equal, and read otherwise."""
    recent = RecentRows()
    for place, title, epoch in reads:
        cells = cells_of(place[2], title)
        row = recent.row(place, cells, epoch, _row)
        assert repr(row) == repr(_row(cells, epoch))


def test_the_same_cells_give_the_same_object() -> None:
    recent = RecentRows()
    place: tuple[str, Table, int] = ("/a.db", "observations", 1)
    title = "a title of its own"
    first = recent.row(place, cells_of(1, title), 5, _row)
    assert recent.row(place, cells_of(1, "".join(title)), 5, _row) is first
    assert recent.row(place, cells_of(1, title), 6, _row) is not first


def test_a_row_counts_unread_for_the_state_alone_that_it_was_read_in() -> None:
    recent = RecentRows()
    place: tuple[str, Table, int] = ("/a.db", "observations", 1)
    row = recent.row(place, cells_of(1, "a"), 5, _row, 7)
    assert recent.at(place, 7, 5) is row
    assert recent.at(place, 8, 5) is None
    assert recent.at(place, 7, 6) is None
    recent.row(place, cells_of(1, "a"), 5, _row, 8)
    assert recent.at(place, 8, 5) is row
    assert recent.at(place, 7, 5) is None


@given(st.lists(st.integers(0, 30), max_size=40))
def test_its_memory_is_bounded(lengths: list[int]) -> None:
    limits = {"MAX_ROWS": 5, "MAX_TEXT": 60, "LARGE_ROW": 25}
    before = {name: getattr(module, name) for name in limits}
    try:
        for name, value in limits.items():
            setattr(module, name, value)
        recent = RecentRows()
        for number, length in enumerate(lengths):
            place: tuple[str, Table, int] = ("/a.db", "observations", number)
            recent.row(place, cells_of(number, "x" * length), 1, _row)
            kept = [known.row for known in recent._rows.values()]
            assert len(recent) == len(kept) <= 5
            assert recent.text == sum(map(text_of, kept)) <= 60
            assert all(text_of(row) <= 25 for row in kept)
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def text_of(row: Row) -> int:
    return len(str(row.cells[1]))
