"""What the text costs a model: no more tokens than claude-mem's own for the same rows."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claudemem_daemon.selection.model import Observation
from claudemem_daemon.settings.model import ModeItem
from claudemem_daemon.settings.modes import CODE
from tests.context.claude_mem_format import claude_mem_text
from tests.context.factory import NOON, context, row, selection, session

TITLES = (
    "Retry queue drops jobs when the worker restarts",
    "OAuth callback validated against the stored state",
    "Migration 14 adds an index on created_at",
    "Parser accepts trailing commas in settings files",
    "Payment webhook made idempotent by event id",
)
NARRATIVE = (
    "The worker acknowledged a job before its handler had finished, so a restart lost it. It now"
    " acknowledges afterwards, and the queue redelivers what was not acknowledged in a minute. A"
    " test kills the worker in the middle and counts what was handled."
)
DEFAULTS = {"mode": CODE, "show_savings_percent": True}


with warnings.catch_warnings():
    # Its wheel has the vocabulary, which tiktoken would fetch from the network; it reads it by a
    # function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from bpe_openai import get_encoding


def tokens(text: str) -> int:
    return len(get_encoding("o200k_base").encode(text))


def made(count: int, *, project: str = "app", minutes: float = 7) -> tuple[Observation, ...]:
    """Newest first; every second one of `project`."""
    return tuple(
        row(
            1200 + number,
            type=CODE.types[number % 6].id,
            title=TITLES[number % 5],
            subtitle="Second thoughts on the same",
            narrative=NARRATIVE,
            facts=("One fact", "Another"),
            files_modified=("/w/app/src/queue.py",),
            project=project if number % 2 else "app",
            discovery_tokens=4_000 + 37 * number,
            created_at_epoch=NOON + int(number * minutes * 60_000),
        )
        for number in range(count, 0, -1)
    )


@pytest.mark.parametrize("minutes", [0.2, 7, 900])
@pytest.mark.parametrize("full", [0, 5])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_rows_of_one_project_cost_no_more_than_claude_mems(
    count: int, full: int, minutes: float
) -> None:
    rows = made(count, minutes=minutes)
    ours = context(selection(rows), settings={**DEFAULTS, "full_count": full}).text
    theirs = claude_mem_text("app", rows, (), CODE.types, full_count=full)
    assert tokens(ours) <= tokens(theirs)
    assert all(str(one.id) in ours for one in rows)


@pytest.mark.parametrize("full", [0, 5])
def test_a_worktrees_name_on_rows_costs_a_tenth_at_most(full: int) -> None:
    rows = made(50, project="app/app-b")
    ours = context(selection(rows), settings={**DEFAULTS, "full_count": full}).text
    theirs = claude_mem_text("app", rows, (), CODE.types, full_count=full)
    assert ours.count("[app-b]") == 25
    assert tokens(ours) <= 1.1 * tokens(theirs)


def test_session_lines_and_the_last_session_cost_no_more() -> None:
    rows = made(20)
    sessions = [session(9, request="Finish the queue", created_at_epoch=NOON + 10**9)] + [
        session(number, request="Mend the queue", created_at_epoch=NOON + number * 600_000)
        for number in range(8, 0, -1)
    ]
    ours = context(selection(rows, sessions), settings=DEFAULTS).text
    theirs = claude_mem_text("app", rows, sessions, CODE.types, full_count=0)
    assert tokens(ours) <= tokens(theirs)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TITLES)
            | st.from_regex(r"[A-Z][a-z]{2,9}( [a-z]{2,12}){1,12}", fullmatch=True),
            st.sampled_from(CODE.types[:6]),
            st.integers(0, 10**8),
            st.integers(0, 10**5),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 6),
)
def test_any_rows_of_one_project_cost_no_more(
    cells: list[tuple[str, ModeItem, int, int]], full: int
) -> None:
    rows = [
        row(
            number + 1,
            title=title,
            type=item.id,
            narrative=NARRATIVE,
            created_at_epoch=NOON + gap,
            discovery_tokens=work,
        )
        for number, (title, item, gap, work) in enumerate(sorted(cells, key=lambda one: one[2]))
    ][::-1]
    ours = context(
        selection(rows), settings={**DEFAULTS, "full_count": full, "context_chars": 100_000}
    ).text
    theirs = claude_mem_text("app", rows, (), CODE.types, full_count=full)
    assert tokens(ours) <= tokens(theirs)


def test_rows_that_are_all_of_one_worktree_say_so_briefly() -> None:
    rows = tuple(replace(one, row=replace(one.row, project="app/app-b")) for one in made(50))
    ours = context(selection(rows), settings=DEFAULTS).text
    theirs = claude_mem_text("app", rows, (), CODE.types, full_count=0)
    assert ours.count("[app-b]") == 1
    assert ours.count('["]') == 50, "49 rows and the legend"
    assert tokens(ours) <= 1.1 * tokens(theirs)
