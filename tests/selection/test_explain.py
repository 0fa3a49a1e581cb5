"""Why these rows, and what became of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.question import Question
from claudemem_daemon.selection import model
from claudemem_daemon.stores.rows import Cell, text
from tests.selection.asking import ask_why, exact, make_keys
from tests.support.stores import add_observation, add_session, make_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = make_store(tmp_path / "claude-mem.db")
    add_session(path, "x", platform_source="codex")
    add_observation(path, id=1, title="too old")
    add_observation(path, id=2, project="other")
    add_observation(path, id=3, type="feature")
    add_observation(path, id=4, concepts=["pattern"])
    add_observation(path, id=5, concepts="gotcha")
    add_observation(path, id=6, session="x")
    add_observation(path, id=7, title="twin", narrative="n", created_at_epoch=1_767_300_000_000)
    add_observation(path, id=8, title="twin", narrative="n", created_at_epoch=1_767_300_000_000)
    add_observation(path, id=9, project="leaf")
    add_observation(path, id=10, project="two/leaf")
    return path


ASKED: dict[str, Any] = {
    "types": ("discovery",),
    "concepts": ("how-it-works",),
    "limit": 1,
    "question": Question(None, ("app",), platform_source="claude"),
    "keys": make_keys("app", exact("leaf", bare=True)),
}


@pytest.mark.parametrize(
    ("number", "disposition", "word"),
    [
        (1, "over_limit", "1 newer"),
        (2, "other_project", "'other'"),
        (3, "type_filtered", "'feature'"),
        (4, "concept_filtered", "how-it-works"),
        (5, "malformed_concepts", "not a JSON list"),
        (6, "platform_filtered", "codex"),
        (7, "duplicate_of", "observation 8"),
        (8, "included", "answer"),
        (9, "other_project", "two"),
        (99, "not_found", "99"),
    ],
)
def test_a_row_ends_at_the_first_filter_that_drops_it(
    store: str, number: int, disposition: str, word: str
) -> None:
    (fate,) = ask_why(store, observation=number, **ASKED).fates
    assert (fate.id, fate.disposition) == (number, disposition)
    assert word in fate.detail


def test_each_filter_is_counted(store: str) -> None:
    explanation = ask_why(store, **ASKED)
    (count,) = explanation.counts
    assert (count["project"], count["key"]) == ("app", "app")
    left = [count[name] for name in ("rows", "after_types", "after_concepts", "included")]
    assert left == [7, 6, 4, 1]


def test_the_sql_comes_with_its_parameters_and_its_plan(store: str) -> None:
    (query,) = ask_why(store, **ASKED).queries
    assert query["plan"] == "project"
    assert query["sql"].count("?") == len(query["parameters"])
    assert any("idx_observations_project" in line for line in query["query_plan"])
    assert "leaf" in query["left_out"]


def test_a_store_that_cannot_be_read_may_hold_the_row(store: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.db"
    bad.write_text("no database " * 100)
    explanation = ask_why(store, str(bad), observation=8, **ASKED)
    assert [one.disposition for one in explanation.fates] == ["included", "store_unreadable"]


def test_the_explanation_is_plain_json(store: str) -> None:
    shape = json.loads(json.dumps(ask_why(store, observation=8, **ASKED).as_json()))
    assert shape["observation"][0]["disposition"] == "included"
    assert shape["queries"][0]["sql"].startswith("SELECT")


def test_a_row_whose_words_cannot_be_read_leaves_the_explanation(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text_badly(cell: Cell) -> str:
        if cell == "too old":
            raise LookupError
        return text(cell)

    monkeypatch.setattr(model, "text", text_badly)
    explanation = ask_why(store, observation=1, **ASKED)
    (fate,) = explanation.fates
    assert (fate.disposition, fate.store) == ("store_unreadable", store)
    assert explanation.counts
