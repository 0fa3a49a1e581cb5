"""The selection against plain SQL and a few lines of Python over the same files."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claudemem_daemon.stores import plans
from claudemem_daemon.stores.plans import Search
from claudemem_daemon.stores.sql import Plan
from tests.selection.asking import ask, exact, make_keys, open_pool, prefix
from tests.stores.reading import settle
from tests.support.stores import GENERATIONS, Generation, OtherProcess, add_observations, make_store

PROJECTS = ("app", "app/one", "app/two", "app0", "app%", "APP", "other", "other/one", "one")
CONCEPTS = ("gotcha", "pattern", "how-it-works")
TYPES = ("bugfix", "discovery", "feature")

concept_cells = st.one_of(
    st.lists(st.sampled_from(CONCEPTS), max_size=2).map(json.dumps),
    st.sampled_from(["", "gotcha", '["gotcha",]', None, "null", '"gotcha"', '{"k":"gotcha"}']),
    st.sampled_from(['[["gotcha"]]', '["GOTCHA"]', "[1, null]", b"\x00\xff"]),
)
rows = st.fixed_dictionaries(
    {
        "project": st.one_of(st.just("app"), st.sampled_from(PROJECTS)),
        "merged_into_project": st.one_of(st.none(), st.sampled_from(PROJECTS)),
        "type": st.sampled_from(TYPES),
        "concepts": concept_cells,
        "title": st.sampled_from(["a", "b", "c"]),
        "narrative": st.sampled_from(["x", "y", None]),
        "created_at_epoch": st.one_of(
            st.integers(1_700_000_000_000, 1_700_000_000_012),
            st.sampled_from([1_700_000_000, 1_700_000_000_000_000, 0, -5]),
        ),
    }
)
some_rows = st.one_of(st.lists(rows, max_size=6), st.lists(rows, min_size=8, max_size=24))
stores = st.lists(st.tuples(st.sampled_from(GENERATIONS), some_rows), max_size=3)
questions = st.fixed_dictionaries(
    {
        "limit": st.one_of(st.integers(1, 4), st.integers(1, 40)),
        "types": st.one_of(st.none(), st.lists(st.sampled_from(TYPES), unique=True)),
        "concepts": st.one_of(st.none(), st.lists(st.sampled_from(CONCEPTS), unique=True)),
    }
)


def milliseconds(epoch: int) -> int | None:
    if epoch <= 0:
        return None
    if epoch < 10**11:
        return epoch * 1000
    return epoch if epoch < 10**14 else epoch // 1000


def concepts_of(cell: Any) -> set[str]:
    try:
        parsed = json.loads(cell) if isinstance(cell, str) else None
    except ValueError:
        return set()
    members = [parsed] if isinstance(parsed, str) else parsed
    if isinstance(members, dict):
        members = list(members.values())
    if not isinstance(members, list):
        return set()
    return {one.lower() for one in members if isinstance(one, str)}


def naive(paths: list[str], question: dict[str, Any]) -> list[tuple[str, int]]:
    """Everything read, filtered, sorted, told apart and cut, in the plainest way."""
    found = []
    for path in paths:
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            for row in db.execute("SELECT * FROM observations"):
                merged = row["merged_into_project"] if "merged_into_project" in row.keys() else None  # noqa: SIM118 - a Row is no mapping
                ours = [
                    name
                    for name in (row["project"], merged)
                    if name is not None and (name == "app" or name.startswith("app/"))
                ]
                if (
                    ours
                    and (question["types"] is None or row["type"] in question["types"])
                    and (
                        question["concepts"] is None
                        or concepts_of(row["concepts"]) & set(question["concepts"])
                    )
                ):
                    epoch = milliseconds(row["created_at_epoch"])
                    content = (
                        epoch or row["created_at"],
                        row["type"],
                        row["title"],
                        row["narrative"],
                    )
                    rank = (-1 if epoch is None else epoch, row["project"], row["id"])
                    found.append((rank, path, content))
    # Equal ranks in two stores: the store that is listed first wins.
    found.sort(key=lambda one: one[0], reverse=True)
    kept: list[tuple[Any, str, Any]] = []
    for rank, path, content in found:
        copy = any(
            other == content and (where != path or which[1] == rank[1])
            for which, where, other in kept
        )
        if not copy:
            kept.append((rank, path, content))
    return [(path, rank[2]) for rank, path, _ in kept[: question["limit"]]]


def build(folder: str, described: list[tuple[Generation, list[dict[str, Any]]]]) -> list[str]:
    paths = []
    for number, (generation, given_rows) in enumerate(described):
        path = make_store(os.path.join(folder, f"{number}.db"), generation)
        if generation != "13.25.3":
            given_rows = [
                {k: v for k, v in row.items() if k != "merged_into_project"} for row in given_rows
            ]
        add_observations(path, [{"created_at": "unknown", **row} for row in given_rows])
        paths.append(path)
    return paths


def asked(paths: list[str], question: dict[str, Any]) -> list[tuple[str, int]]:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in question.items()
        if value is not None
    }
    keys = make_keys(exact("app"), exact("app/one"), prefix("app/"))
    answer = ask(*paths, keys=keys, **values)
    assert answer.complete
    return [(one.store, one.id) for one in answer.observations]


def force(monkeypatch: pytest.MonkeyPatch, plan: Literal["walk", "both", "time"]) -> None:
    """Small stores never need these plans by themselves; nor do they need a second step."""

    def chosen(self: Search) -> Plan:
        fits = self._wanted.branches and (plan == "walk" or self._uniform())
        return plan if fits else "project"

    monkeypatch.setattr(Search, "plan", chosen)
    monkeypatch.setattr(plans, "MIN_STEP", 1)


@pytest.mark.parametrize("plan", ["as it comes", "walk", "both", "time"])
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(described=stores, question=questions)
def test_the_selection_is_what_plain_sql_says(
    plan: Any,
    monkeypatch: pytest.MonkeyPatch,
    described: list[tuple[Generation, list[dict[str, Any]]]],
    question: dict[str, Any],
) -> None:
    """Projects, filters, limits, several stores, equal times, mixed units, malformed concepts."""
    if plan != "as it comes":
        force(monkeypatch, plan)
    with tempfile.TemporaryDirectory() as folder:
        paths = build(folder, described)
        assert asked(paths, question) == naive(paths, question)


def test_a_store_that_is_written_all_the_time_is_answered_as_it_is(tmp_path: Path) -> None:
    """Every answer beside a writer is a state the store had; the last one is its last state."""
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": "app"} for _ in range(20)])
    question = {"limit": 10, "types": None, "concepts": None}
    settle(path)
    with open_pool() as pool, OtherProcess(path) as writer:
        seen: list[list[int]] = []
        for step in range(30):
            number = 21 + step
            writer.run(
                "INSERT INTO observations (id, memory_session_id, project, type, title, created_at,"
                " created_at_epoch) VALUES (?, 's', 'app', 'discovery', ?, '', ?)",
                (number, f"t{number}", 1_800_000_000_000 + number),
            )
            if step % 3 == 1:
                writer.run("DELETE FROM observations WHERE id = ?", (number,))
            answer = ask(path, pool=pool, limit=10)
            expected = naive([path], question)
            assert [(one.store, one.id) for one in answer.observations] == expected
            assert all(one.holds() for one in answer.versions)
            seen.append([one.id for one in answer.observations])
        assert len({tuple(one) for one in seen}) > 10
