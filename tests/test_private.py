"""What was marked as private is in no answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.private import without_private


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>secret</private> b", "a  b"),
        ("<PRIVATE>\nsecret\n</Private>", ""),
        ("a < private >secret</private >b", "a b"),
        ("a <private>secret", "a "),
        ("<private>s<private>s</private>s</private>b", "b"),
        ("a</private>b", "ab"),
        ("a <privateer> b", "a <privateer> b"),
    ],
)
def test_a_private_span_is_left_out(text: str, left: str) -> None:
    assert without_private(text) == left


@given(st.lists(st.sampled_from(["<private>", "</private>", "x", "<", "secret"])))
def test_nothing_inside_a_span_is_left(parts: list[str]) -> None:
    depth, expected = 0, ""
    for part in parts:
        depth += (part == "<private>") - (part == "</private>" and depth > 0)
        if depth == 0 and "private" not in part:
            expected += part
    assert without_private("".join(parts)) == expected
