"""The text never passes its budget, whatever is in it, and says what that cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claudemem_daemon.context.budget import Unit, largest, size
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.stores.model import StoreReport
from claudemem_daemon.warning import AnswerWarning
from tests.context.factory import KEYS, NOON, STORE, context, row, rows, selection, session

WORDS = st.text("ab #|<`\n漢😀é", max_size=60)
EPOCHS = st.one_of(
    st.none(), st.integers(NOON - 10**10, NOON), st.sampled_from([10**18, -(10**18)])
)
PROJECTS = st.sampled_from(["app", "app/app-a", "app-a", "app/gone", "other", "a\nb"])


@st.composite
def observations(draw: st.DrawFn) -> tuple[Observation, ...]:
    count = draw(st.integers(0, 12))
    return tuple(
        row(
            1000 - number,
            title=draw(WORDS),
            subtitle=draw(WORDS),
            narrative=draw(WORDS) * draw(st.integers(0, 20)),
            facts=tuple(draw(st.lists(WORDS, max_size=3))),
            files_read=tuple(draw(st.lists(WORDS, max_size=2))),
            type=draw(st.sampled_from(["bugfix", "discovery", "odd", ""])),
            project=draw(PROJECTS),
            store=draw(st.sampled_from([STORE, "/other.db"])),
            created_at_epoch=draw(EPOCHS),
            discovery_tokens=draw(st.integers(0, 10**6)),
        )
        for number in range(count)
    )


@st.composite
def summaries(draw: st.DrawFn) -> tuple[Summary, ...]:
    return tuple(
        session(
            number, request=draw(WORDS), learned=draw(WORDS) * 10, created_at_epoch=draw(EPOCHS)
        )
        for number in range(draw(st.integers(0, 4)), 0, -1)
    )


def ids(text: str) -> list[int]:
    """Ids of the rows, in order."""
    return [int(found) for found in re.findall(r"^b?(\d+) ", text, re.MULTILINE)]


def test_no_text_is_one_character_over() -> None:
    """And none is cut that fits exactly."""
    lengths = set()
    for padding in range(1, 120):
        chosen = (row(9, title="x" * padding), *rows(8))
        lengths.add(size(context(selection(chosen), cap=500).text))
    assert max(lengths) == 500


@settings(deadline=None)
@given(
    observations(),
    summaries(),
    st.one_of(st.integers(0, 400), st.integers(0, 4000)),
    st.sampled_from(["utf16", "bytes"]),
    st.fixed_dictionaries(
        {
            "full_count": st.integers(0, 5),
            "full_field": st.sampled_from(["narrative", "facts"]),
            "session_count": st.integers(0, 4),
            "show_read_tokens": st.booleans(),
            "show_work_tokens": st.booleans(),
            "show_savings_percent": st.booleans(),
        }
    ),
    st.booleans(),
    st.sampled_from([None, {STORE: 3}]),
)
def test_no_text_is_longer_than_its_budget_and_every_row_is_accounted_for(
    chosen: tuple[Observation, ...],
    sessions: tuple[Summary, ...],
    budget: int,
    unit: Unit,
    values: dict[str, Any],
    human: bool,
    since: dict[str, int] | None,
) -> None:
    """Case context-over-10k-chars."""
    question = Question(cwd="/w/app", human=human, since=since)
    warnings = (AnswerWarning("store_busy", "/w/a\nb.db: busy"),)
    made = context(
        selection(chosen, sessions),
        question=question,
        warnings=warnings,
        cap=budget,
        unit=unit,
        settings=values,
    )
    assert size(made.text, unit) <= budget
    assert made.observations + made.left_out == len(chosen)
    assert made.trimmed <= made.observations
    if not human:
        assert ids(made.text) == [one.id for one in chosen[: made.observations]]
    if made.left_out and made.text:
        assert str(made.left_out) in made.text.splitlines()[-1]
    if made.observations:
        assert "not instructions" in made.text


@pytest.mark.parametrize("budget", [0, 1, 10, 60, 200, 500])
def test_a_tiny_budget_gives_one_honest_line_or_nothing(budget: int) -> None:
    made = context(selection(rows(20, title="t" * 400)), settings={"context_chars": budget})
    assert (made.observations, made.left_out) == (0, 20)
    assert len(made.text) <= budget
    assert made.text == "" or "20 observations left out" in made.text
    assert (made.text == "") == (budget < 40)


@pytest.mark.parametrize("budget", [400, 300, 250, 180, 130])
def test_that_something_is_missing_is_the_last_thing_to_go(budget: int) -> None:
    warning = AnswerWarning("store_busy", f"/{'s' * 300}.db: locked by another process", "/s.db")
    found = context(selection(rows(20), warnings=(warning,)), cap=budget)
    assert "Warning: rows may be missing: `claudemem-daemon status`" in found.text
    assert size(found.text) <= budget
    assert found.left_out == 20 - found.observations


def test_without_rows_the_title_says_that_memory_could_not_be_read() -> None:
    broken = StoreReport(STORE, False, "damaged", None, "shared store", "corrupt")
    warning = AnswerWarning("store_corrupt", f"{STORE}: damaged", STORE)
    found = context(selection((), stores=(broken,), warnings=(warning,)), cap=60)
    assert found.text == "# [app] recent context: memory could not be read"


def test_what_gives_all_its_room_away_is_said_to_be_left_out() -> None:
    sessions = [session(2, learned="l" * 400, created_at_epoch=NOON + 10**9), session(1)]
    chosen = rows(3, title="t" * 400)
    made = context(selection(chosen, sessions), settings={"context_chars": 300})
    assert (
        "all 3 observations left out, 1 session line left out, last session left out." in made.text
    )
    for budget in (60, 200):
        made = context(selection(chosen[:1]), settings={"context_chars": budget})
        assert "1 observation left out" in made.text
    made = context(selection((), sessions[:1]), settings={"context_chars": 300})
    assert "## Last session" not in made.text
    assert "last session left out" in made.text.splitlines()[-1]


def test_the_default_budget_holds_fifty_long_rows() -> None:
    """Case context-over-10k-chars."""
    chosen = [
        row(
            number,
            title=("漢字😀 title " * 40)[:400],
            narrative="n" * 2000,
        )
        for number in range(50, 0, -1)
    ]
    made = context(selection(chosen), settings={"full_count": 50})
    lines = made.text.splitlines()
    assert 9_000 < size(made.text) <= 10_000
    assert made.left_out > 0
    assert f"{made.left_out} older observations left out" in lines[-1]
    assert "claudemem-daemon query" in lines[-1]
    whole = {line.split("🔴 ")[1] for line in lines if re.match("[0-9]+ ", line)}
    assert whole == {chosen[0].title.strip()}, "no line is cut in its middle"


def test_detail_goes_before_any_row() -> None:
    chosen = [row(number, narrative="story " * 100, subtitle="sub") for number in range(20, 0, -1)]
    whole = context(selection(chosen), settings={"full_count": 20, "context_chars": 100_000})
    assert (whole.observations, whole.trimmed, whole.left_out) == (20, 0, 0)
    some = context(selection(chosen), settings={"full_count": 20, "context_chars": 6_000})
    assert some.left_out == 0
    assert 0 < some.trimmed < 20
    assert f"{some.trimmed} observations without all detail" in some.text.splitlines()[-1]
    kept = [number for number in range(20, 0, -1) if f"\n{number} " in some.text]
    assert kept == list(range(20, 0, -1))
    assert some.text.index("story story") < some.text.index("19 "), "the newest keeps its detail"


def test_sessions_and_figures_go_before_any_row() -> None:
    chosen = selection(rows(30, discovery_tokens=9_000), [session(n) for n in range(10, 0, -1)])
    made = context(
        chosen,
        settings={"show_work_tokens": True, "show_last_summary": False, "context_chars": 1_250},
    )
    assert made.left_out == 0
    assert "token figures left out" in made.text.splitlines()[-1]
    assert "session line" in made.text.splitlines()[-1]
    assert "9,000t" not in made.text


def test_more_room_never_shows_fewer_rows() -> None:
    chosen = selection(rows(20, discovery_tokens=9))
    counts = [
        context(chosen, cap=cap, settings={"show_work_tokens": True}).observations
        for cap in range(200, 2_000, 10)
    ]
    assert counts == sorted(counts)
    assert set(counts) >= {0, 1, 20}


def test_no_session_takes_the_room_of_all_rows() -> None:
    last = session(2, learned="l" * 400, completed="c" * 400, created_at_epoch=NOON + 10**9)
    shown = [
        context(selection(rows(2, title="t" * 300), [last]), cap=cap).observations > 0
        for cap in range(700, 4_000, 50)
    ]
    assert shown == sorted(shown)


def test_what_fits_is_whole_and_says_nothing_of_limits() -> None:
    text = context(selection(rows(3), [session(9)])).text
    assert "left out" not in text
    assert "Cut to fit" not in text


def test_a_full_question_has_no_limit_but_the_assistants_own() -> None:
    chosen = selection(rows(200, narrative="tale " * 50))
    question = Question(cwd="/w/app", full=True)
    made = context(chosen, question=question, settings={"full_count": 100})
    assert (made.observations, made.trimmed, made.left_out) == (200, 0, 0)
    assert made.text.count("tale") == 100 * 50
    assert size(context(chosen, question=question, cap=5_000).text) <= 5_000


def test_the_smaller_of_setting_and_cap_counts() -> None:
    chosen = selection(rows(100))
    by_cap = context(chosen, cap=1_500)
    by_setting = context(chosen, cap=9_000, settings={"context_chars": 1_500})
    assert 1_400 < size(by_cap.text) <= 1_500
    assert 1_400 < size(by_setting.text) <= 1_500
    assert "CLAUDE_MEM_DAEMON_CONTEXT_CHARS" not in by_cap.text
    assert "CLAUDE_MEM_DAEMON_CONTEXT_CHARS" in by_setting.text


def test_bytes_are_counted_as_bytes() -> None:
    chosen = selection(rows(60, title="漢字" * 40))
    made = context(chosen, cap=4_000, unit="bytes")
    assert 3_000 < len(made.text.encode()) <= 4_000
    assert "4,000 bytes" in made.text


def test_a_title_of_a_megabyte_pushes_no_other_row_out() -> None:
    made = context(selection([row(2, title="x" * 1_000_000), row(1)]))
    assert (made.observations, made.trimmed) == (2, 1)
    assert "xxx…" in made.text
    assert "title 1" in made.text


def test_a_narrative_of_a_megabyte_costs_only_itself() -> None:
    made = context(
        selection([row(2, narrative="x " * 500_000), row(1, narrative="short")]),
        settings={"full_count": 2},
    )
    assert (made.observations, made.trimmed) == (2, 2)
    assert "x x" not in made.text


@given(st.text())
def test_sizes_are_those_of_javascript_and_of_utf8(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert size(text) == sum(2 if sign > "\uffff" else 1 for sign in text)
    assert size(text, "bytes") == len(text.encode())


@given(st.integers(0, 60), st.integers(-1, 60))
def test_most_finds_the_largest_that_fits(upper: int, limit: int) -> None:
    assert largest(upper, lambda count: count <= limit) == max(0, min(upper, limit))


def test_long_names_and_many_warnings_cannot_fill_the_budget() -> None:
    keys = KEYS._replace(name="n" * 5_000)
    warnings = tuple(AnswerWarning("store_corrupt", f"{n} " + "w" * 5_000) for n in range(20))
    made = context(selection(rows(20)), keys=keys, warnings=warnings)
    assert made.observations == 20
    assert made.text.count("Warning: ") == 4
    assert "17 more: `claudemem-daemon status`" in made.text


def test_rows_that_cannot_be_written_in_time_are_counted() -> None:
    whole = context(selection(rows(40)), question=Question(cwd="/w/app", full=True))
    assert (whole.observations, whole.complete, whole.warnings) == (40, True, ())
    late = context(
        selection(rows(40)), question=Question(cwd="/w/app", full=True), deadline=Deadline(0)
    )
    assert (late.observations, late.left_out, late.complete) == (1, 39, False)
    assert ids(late.text) == ids(whole.text)[:1]
    assert "Cut off, time was over: 39 older observations left out." in late.text
    assert [one.code for one in late.warnings] == ["deadline"]
