"""One memo, and one look at each path in a request."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.api import build_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import (
    INCOMPLETE,
    RACY_NS,
    Dependency,
    each_path_once,
    file_state,
    forget_paths,
    real_path,
)
from claudemem_daemon.local_zone import SYSTEM_ZONE
from claudemem_daemon.memo import BASE_WEIGHT, Memo
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from tests.repository.layouts import git, write_repository
from tests.support.daemon import eventually
from tests.support.stores import add_observation, make_store


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    dependencies: tuple[Dependency, ...] = ()


def test_a_value_lasts_as_long_as_all_it_depends_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    os.utime(path, (1, 1))
    memo = Memo()
    made: list[str] = []

    def make() -> Value:
        state = file_state(str(path))
        made.append(path.read_text())
        return Value(made[-1], (state,))

    def settled() -> bool:
        before = len(made)
        return memo.value("key", make).text == "a" and len(made) == before

    eventually(settled, "the value holds")
    path.write_text("b")
    assert memo.get("key") is None
    assert memo.last("key").text == "a"
    assert memo.value("key", make).text == "b"


DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize("mtime", [0, 2**32], ids=["1970", "2106"])
@pytest.mark.parametrize("wrong", [-DAY_NS, DAY_NS], ids=["behind", "ahead"])
def test_neither_a_wrong_clock_nor_a_wrong_time_hides_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mtime: int, wrong: int
) -> None:
    """States are compared, not ordered: size and mtime of this file never change."""
    path = tmp_path / "file"

    def write(text: str) -> None:
        path.write_text(text)
        os.utime(path, (mtime, mtime))

    write("a")
    eventually(lambda: not file_state(str(path)).racy, "the file is older than a clock tick")
    before = file_state(str(path))
    assert before.holds()
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + wrong)
    assert before.holds(), "the clock alone is no change"
    write("b")
    assert not before.holds()
    monkeypatch.undo()
    assert not before.holds()


@pytest.mark.parametrize("ahead", [-RACY_NS // 2, RACY_NS // 2])
def test_a_change_within_the_tick_of_a_clock_that_steps_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    path = tmp_path / "file"
    path.touch()
    changed = path.stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + ahead)
    assert file_state(str(path)).racy
    assert not file_state(str(path)).holds()


def test_what_was_cut_short_is_made_again() -> None:
    memo = Memo()
    memo.put("key", Value("half", (INCOMPLETE,)))
    assert memo.get("key") is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5000)), max_size=60))
def test_the_memo_is_bounded_by_count_and_weight(puts: list[tuple[int, int]]) -> None:
    memo = Memo(max_count=8, max_weight=20_000)
    for key, weight in puts:
        memo.put(key, Value("x"), weight)
        assert len(memo) <= 8
        assert memo.weight <= 20_000
        assert (memo.get(key) is None) == (weight + BASE_WEIGHT > 20_000 // 4)


def test_questions_are_their_own_keys() -> None:
    def question(**values: Any) -> Question:
        return Question(cwd="/a", **{"env": {"B": "1", "A": "2"}, "since": {"s": 1}, **values})

    assert {question(): 1}[question(env={"A": "2", "B": "1"})] == 1
    for other in (question(env={}), question(since={"s": 2}), question(limit=1)):
        assert other not in {question(): 1}


def test_in_a_request_a_path_is_what_was_seen_first(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with each_path_once():
        assert file_state(str(path)).state is None
        path.write_text("now")
        assert file_state(str(path)).state is None
        forget_paths()
        assert file_state(str(path)).state is not None
    path.unlink()
    assert file_state(str(path)).state is None


NAMES = st.sampled_from(["a", "b", "link", "up", "loop", "..", ".", "", "gone"])


@given(parts=st.lists(NAMES, max_size=8))
def test_links_are_followed_as_the_system_does(
    parts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "links"
    if not root.exists():
        (root / "a" / "b" / "a").mkdir(parents=True)
        (root / "a" / "link").symlink_to("b")
        (root / "link").symlink_to(root / "a" / "b")
        (root / "a" / "b" / "up").symlink_to("../..")
        (root / "loop").symlink_to("loop")
    path = "/".join([str(root), *parts])
    with each_path_once():
        assert real_path(path) == os.path.realpath(path)


class Looks:
    """Counts what a request asks the file system for by path, the store's own reading left out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
        self.paths: Counter[str] = Counter()
        self._store = store
        for name in ("stat", "lstat", "readlink", "listdir", "scandir", "open"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if isinstance(path, str | bytes) and "watchdog" not in caller:
                name = os.fsdecode(path)
                if not name.startswith(self._store):
                    self.paths[name] += 1
            return function(path, *rest, **named)

        return call


READ = {
    "settings": (".claude-mem/settings.json",),
    "worktree": ("app/.git/worktrees", "app/.git/worktrees/app-d/gitdir", "app-d/.git"),
}
"""What a change makes a request read, after it looked at it."""


@pytest.mark.parametrize(
    ("change", "most"), [("nothing", 17), ("row", 17), ("settings", 18), ("worktree", 22)]
)
def test_a_request_looks_at_few_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch, change: str, most: int
) -> None:
    main = home / "app"
    main.mkdir()
    (main / "README").touch()
    git("init", "-q", cwd=bytes(main))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(main))
    for name in ("a", "b", "c"):
        git("worktree", "add", "-q", f"../app-{name}", "-b", name, cwd=bytes(main))
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observation(store, project="app", title="first")
    settings = home / ".claude-mem" / "settings.json"
    settings.write_text("{}")
    question = Question(cwd=str(home / "app-a"))
    pipeline = build_pipeline(os.environ)
    try:
        _settle(pipeline, question)
        if change == "row":
            add_observation(store, project="app", title="second")
        elif change == "settings":
            settings.write_text('{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 7}')
        elif change == "worktree":
            git("worktree", "add", "-q", "../app-d", "-b", "d", cwd=bytes(main))
        changed = (settings, main / ".git" / "worktrees", home / "app-d" / ".git")
        eventually(
            lambda: not any(file_state(str(path)).racy for path in changed), "no change is racy"
        )
        looks = Looks(monkeypatch, store)
        pipeline.context(question, Deadline.after(20))
        assert len(looks.paths) <= most, looks.paths
        repeated = {path for path, n in looks.paths.items() if n > 1}
        # What changed is looked at and read; of a link, and of what it leads to, there is a stat each.
        links = {path for path in (SYSTEM_ZONE,) if os.path.islink(path)}
        assert repeated == {str(home / path) for path in READ.get(change, ())} | links
    finally:
        pipeline.close()


def test_thousands_of_worktrees_make_a_request_look_at_no_more_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the memo's bound of values nor that of their weight makes their keys be found anew."""
    write_repository(home / "app", 2200)
    question = Question(cwd=str(home / "app"))
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observation(store, project="app", title="first")
    pipeline = build_pipeline(os.environ)
    try:
        _settle(pipeline, question)
        keys = pipeline.resolved(question).keys
        add_observation(store, project="app", title="second")
        looks = Looks(monkeypatch, store)
        answer = pipeline.context(question, Deadline.after(20)).answer
        assert answer.resolved.keys is keys
        assert len(looks.paths) <= 17, looks.paths
    finally:
        pipeline.close()


@pytest.mark.parametrize("removed", ["before it is located", "before it is opened"])
def test_a_store_that_is_removed_is_located_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    """By an answer that knew where it was, and whose other dependencies all hold."""
    (home / "app-a").mkdir()
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observation(store, project="app-a", title="first")
    pipeline = build_pipeline(os.environ)
    question = Question(cwd=str(home / "app-a"))
    reading = pipeline.pool.reading

    def without_store(*rest: Any, **named: Any) -> Any:
        Path(store).unlink(missing_ok=True)
        return reading(*rest, **named)

    try:
        _settle(pipeline, question)
        if removed == "before it is located":
            Path(store).unlink()
        else:
            add_observation(store, project="app-a", title="second")
            monkeypatch.setattr(pipeline.pool, "reading", without_store)
        for _ in range(2):
            answer = pipeline.ask(question, Deadline.after(20))
            assert not os.path.exists(store)
            assert (answer.selection.observations, answer.warnings) == ((), ())
            assert pipeline.explain(question, Deadline.after(20))[1].selection.stores == ()
        monkeypatch.undo()
        make_store(store)
        add_observation(store, project="app-a", title="third")
        answer = pipeline.ask(question, Deadline.after(20))
        assert [row.title for row in answer.selection.observations] == ["third"]
    finally:
        pipeline.close()


def _settle(pipeline: Pipeline, question: Question) -> None:
    """Ask until the answer holds: files that changed a moment ago prove nothing yet."""

    def same() -> bool:
        first = pipeline.context(question, Deadline.after(20))
        return pipeline.context(question, Deadline.after(20)) is first

    eventually(same, "the answer holds")
