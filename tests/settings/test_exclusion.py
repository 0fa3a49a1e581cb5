"""Globs of excluded projects, against a matcher that is slow and plain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.settings.exclusion import excluding


@pytest.mark.parametrize(
    ("path", "pattern", "hit"),
    [
        ("/h/secret/app", "/h/secret/**", True),
        ("/h/secret", "/h/secret/**", True),
        ("/h/secret", "/h/secret/**/", True),
        ("/h/secrets", "/h/secret/**", False),
        ("/h/secret", "/h/secret/", True),
        ("/w/foo-scratch", "*-scratch", True),
        ("/w/a-scratch-scratch", "*-scratch", True),
        ("/w/foo-scratch/src", "*-scratch", True),
        ("/w/foo-scratchy", "*-scratch", False),
        ("/w/a/b", "/w/*", True),
        ("/x/w/a", "/w/*", False),
        ("/x/w/a", "w/*", True),
        ("/x/ww/a", "w/*", False),
        ("/w/a.b", "/w/a?b", True),
        ("/w/axb", "/w/a.b", False),
        ("/w/a/b", "/w/a?b", False),
        ("/any/where/node", "/**/node", True),
        ("/node", "/**/node", True),
        ("/any/xnode", "/**/node", False),
        ("/any/xnode", "/**node", True),
        ("/a/b/c/d", "/a/**/d", True),
        ("/a/d", "/a/**/d", True),
        ("/w/[x]", "/w/[x]", True),
        ("/w/x", "/w/[x]", False),
        ("/w/new\nline", "new*", True),
        ("/w/app", "", False),
        ("/w/app", "/", True),
        ("/w/app", "**", True),
        ("app", "app", True),
        ("app/wt", "app", True),
    ],
)
def test_a_pattern_means_what_it_looks_like(path: str, pattern: str, hit: bool) -> None:
    """Case excluded-projects-still-injected."""
    assert (excluding(path, (pattern,)) is not None) is hit
    assert (excluding(path, ("/never/there", pattern)) is not None) is hit


def test_no_pattern_excludes_nothing() -> None:
    assert not excluding("/w/app", ())


def plainly(path: str, pattern: str) -> bool:
    """The same rules, one sign at a time: a set of places in the pattern that may be reached."""
    if not pattern:
        return False
    while pattern.rstrip("/").endswith("/**"):
        pattern = pattern.rstrip("/").removesuffix("/**") or "/"
    pattern = pattern.rstrip("/") if pattern.strip("/") else pattern[:0] + "/"
    anchored = pattern.startswith("/")
    body = "" if pattern == "/" else pattern
    starts = [0] if anchored else [0, *(i + 1 for i, sign in enumerate(path) if sign == "/")]
    return any(_from(path, start, body, 0, {}) for start in starts)


def _from(path: str, at: int, pattern: str, place: int, known: dict[tuple[int, int], bool]) -> bool:
    key = (at, place)
    if key not in known:
        known[key] = _step(path, at, pattern, place, known)
    return known[key]


def _step(path: str, at: int, pattern: str, place: int, known: dict[tuple[int, int], bool]) -> bool:
    if place == len(pattern):
        return at == len(path) or path[at] == "/"
    if pattern.startswith("**", place):
        after = place
        while after < len(pattern) and pattern[after] == "*":
            after += 1
        folders = after < len(pattern) and pattern[after] == "/"
        while after < len(pattern) and pattern[after] == "/":
            after += 1
        return any(
            _from(path, rest, pattern, after, known)
            for rest in range(at, len(path) + 1)
            if not folders or rest == 0 or path[rest - 1] == "/"
        )
    if pattern[place] == "*":
        end = path.find("/", at)
        last = len(path) if end < 0 else end
        return any(_from(path, rest, pattern, place + 1, known) for rest in range(at, last + 1))
    if at == len(path):
        return False
    fits = path[at] != "/" if pattern[place] == "?" else path[at] == pattern[place]
    return fits and _from(path, at + 1, pattern, place + 1, known)


@given(st.text("ab/", max_size=14), st.text("ab*?/", max_size=10))
def test_the_fast_matcher_agrees_with_the_plain_one(path: str, pattern: str) -> None:
    assert (excluding("/" + path, (pattern,)) is not None) is plainly("/" + path, pattern)


@given(st.text(max_size=30), st.lists(st.text(max_size=15), max_size=4))
def test_no_pattern_is_too_odd(path: str, patterns: list[str]) -> None:
    assert (excluding("/" + path, tuple(patterns)) is not None) in (True, False)


def test_twenty_stars_cost_no_more_than_a_walk() -> None:
    """Would run for years if each way of sharing the path out among the stars were tried."""
    path = "/" + "a" * 2000
    assert not excluding(path, ("*a" * 20 + "*b",))
    assert not excluding(path, ("/" + "**a" * 20 + "**b",))
    assert not excluding("/a" * 1000, ("**/a/" * 20 + "b",))
