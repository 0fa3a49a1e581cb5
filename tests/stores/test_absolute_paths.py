"""Path evidence: what is told of a cell without parsing it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.stores.rows import Cell, may_be_absolute, text_list

pieces = st.lists(
    st.sampled_from(["/", "\\", "/a", "a", '"', " ", "[", "]", ",", "\\u002f", "\\/", "\0"]),
    max_size=8,
).map("".join)
cells = st.one_of(
    st.none(),
    st.integers(),
    pieces,
    pieces.map(str.encode),
    st.lists(st.one_of(pieces, st.integers(), st.none(), st.lists(pieces, max_size=2))).map(
        json.dumps
    ),
)


@given(cells)
def test_a_cell_that_is_skipped_holds_no_absolute_path(cell: Cell) -> None:
    if not may_be_absolute(cell):
        assert not any(path.startswith("/") for path in text_list(cell))


@pytest.mark.parametrize(
    "cell", ['["/a"]', r'["a", "\/b"]', r'["\u002fa"]', '"/a"', "/a", b'["/a"]'], ids=str
)
def test_an_absolute_path_is_seen_however_it_is_written(cell: Cell) -> None:
    assert any(path.startswith("/") for path in text_list(cell))
    assert may_be_absolute(cell)


@pytest.mark.parametrize("cell", [None, "[]", '["a/b", "c"]', "a/b", ""], ids=str)
def test_relative_paths_alone_are_not_parsed(cell: Cell) -> None:
    assert not may_be_absolute(cell)
