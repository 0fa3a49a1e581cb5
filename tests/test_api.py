"""The Python interface, called as a program of the user's would."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from claudemem_daemon import generate_context, query_observations
from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import InvalidRequest
from claudemem_daemon.question import Question
from tests.support.stores import add_observation, add_observations, make_store


@pytest.fixture
def store(home: Path) -> str:
    path = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observation(path, project="app", title="of app", type="bugfix")
    return path


def test_it_answers_without_a_daemon(store: str, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert "of app" in generate_context(cwd=tmp_path / "app")
    (row,) = query_observations(projects=["app"], types=["bugfix"])
    assert (row.title, row.store) == ("of app", store)
    assert query_observations(projects=["app"], limit=0) == ()


def test_its_own_environment_is_no_daemons(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no daemon in whose environment one could look for the filter."""
    monkeypatch.setenv("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", "feature")
    text = generate_context(projects=["app"])
    assert "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES in the caller's environment" in text
    assert "daemon's environment" not in text


def test_a_question_without_sense_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        generate_context(cwd="/", projects=["app"])
    for name in ("projects", "types", "concepts"):
        with pytest.raises(InvalidRequest, match=f"{name} is a list of texts, not one text"):
            query_observations(**{name: "app"})  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(InvalidRequest, match=f"{name} is a list of texts alone"):
            query_observations(**{name: ["app", 5]})  # type: ignore[arg-type]  # wrong on purpose
    asking: tuple[Callable[..., object], ...] = (generate_context, query_observations)
    for ask in asking:
        for limit in (-1, 1.5, "5", True):
            with pytest.raises(InvalidRequest, match=f"limit is a whole number .*{limit!r}"):
                ask(limit=limit)
        for scope in ("Self", "", "every", ["all"]):
            with pytest.raises(InvalidRequest, match="scope is one of all, parent, self"):
                ask(scope=scope)


def test_an_explanation_tells_rows_beyond_the_size_from_those_beyond_the_limit(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_observations(store, [{"project": "app", "title": f"{n} " + "x" * 200} for n in range(9)])
    monkeypatch.setenv("CLAUDE_MEM_DAEMON_CONTEXT_CHARS", "1000")
    monkeypatch.setenv("CLAUDE_MEM_CONTEXT_OBSERVATIONS", "7")
    question = Question(None, ("app",))
    with open_pipeline(os.environ) as pipeline:
        deadline = Deadline.after(20)
        shown = pipeline.context(question, deadline).context.observations
        _, explanation = pipeline.explain(question, deadline)
    (count,) = explanation.counts
    assert 0 < shown < 7
    assert count["reasons"] == {"included": shown, "over_size": 7 - shown, "over_limit": 3}
    rows = [sum(day[kind] for day in explanation.as_json()["days"]) for kind in ("shown", "beyond")]
    assert rows == [shown, 10 - shown]
