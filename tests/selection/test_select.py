"""The one limited list: what is in it, in which order, and what is said about the rest."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claudemem_daemon.pipeline import Answer
from claudemem_daemon.question import Question
from claudemem_daemon.selection import model
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.selection.sources import Sources
from claudemem_daemon.shapes import query_shape
from claudemem_daemon.stores import connection, reader
from claudemem_daemon.stores.connection import Guard
from claudemem_daemon.stores.failures import slow
from claudemem_daemon.stores.reader import SqliteReader
from claudemem_daemon.stores.rows import Row, text
from claudemem_daemon.stores.sql import Table
from claudemem_daemon.stores.sqlite_store import MAX_IDLE
from tests.selection.asking import (
    QUESTION,
    ask,
    exact,
    ids,
    located,
    make_keys,
    make_settings,
    open_pool,
    prefix,
    resolve,
)
from tests.stores.reading import settle
from tests.support.stores import (
    BASE_EPOCH,
    GENERATIONS,
    Generation,
    OtherProcess,
    add_observation,
    add_observations,
    add_session,
    add_summary,
    make_store,
    run_sql,
)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return make_store(tmp_path / "claude-mem.db")


def codes(selection: Selection) -> list[str]:
    return [one.code for one in selection.warnings]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_row_is_shown_as_it_was_written(tmp_path: Path, generation: Generation) -> None:
    """Case missing-merged-into-project-column: every generation of the schema."""
    path = make_store(tmp_path / "s.db", generation)
    add_session(path, "session-1")
    add_observation(
        path,
        type="bugfix",
        title="T",
        subtitle="S",
        narrative="N",
        facts=["one", "two"],
        concepts=["gotcha"],
        files_read=["a.py"],
        files_modified=["b.py"],
        discovery_tokens=7,
        created_at_epoch=BASE_EPOCH,
    )
    answer = ask(path)
    (row,) = answer.observations
    assert (row.id, row.project, row.store) == (1, "app", path)
    assert (row.type, row.title, row.subtitle, row.narrative) == ("bugfix", "T", "S", "N")
    assert row.facts == ("one", "two")
    assert (row.concepts, row.files_read, row.files_modified) == (("gotcha",), ("a.py",), ("b.py",))
    assert (row.created_at, row.created_at_epoch) == ("2026-01-01T00:00:00.000Z", BASE_EPOCH)
    assert (row.discovery_tokens, row.memory_session_id) == (7, "session-1")
    assert row.platform_source == "claude"
    (report,) = answer.stores
    assert (report.ok, report.schema_version) == (
        True,
        {"7.4.5": 16, "9.1.1": 21, "13.25.3": 52}[generation],
    )


def test_a_store_from_before_discovery_tokens_answers(tmp_path: Path) -> None:
    """Case missing-merged-into-project-column: release 6.0."""
    path = make_store(tmp_path / "s.db", "7.4.5")
    run_sql(path, "ALTER TABLE observations DROP COLUMN discovery_tokens")
    add_observations(path, [{}, {}, {}])
    assert ids(ask(path)) == [3, 2, 1]


def test_filters_are_by_type_and_concept_without_regard_to_case(store: str) -> None:
    add_observations(
        store,
        [
            {"type": "bugfix", "concepts": ["Gotcha"]},
            {"type": "BugFix", "concepts": ["pattern", "gotcha"]},
            {"type": "feature", "concepts": ["gotcha"]},
            {"type": "bugfix", "concepts": ["pattern"]},
        ],
    )
    assert ids(ask(store, types=("bugfix",), concepts=("GOTCHA",))) == [2, 1]
    assert ids(ask(store, types=("feature", "bugfix"))) == [4, 3, 2, 1]


@pytest.mark.parametrize("empty", ["types", "concepts"])
def test_an_empty_whitelist_lets_nothing_through(store: str, empty: str) -> None:
    add_observation(store)
    nothing: dict[str, Any] = {empty: ()}
    answer = ask(store, **nothing)
    assert ids(answer) == []
    assert answer.rows_exist


MALFORMED = ("", "gotcha", '["gotcha",]', None, "[]", "null", '{"k":"gotcha"}', '[["gotcha"]]')


@pytest.mark.parametrize("column", ["type", "concepts"])
def test_a_store_without_a_filtered_column_is_told(store: str, column: str) -> None:
    """Or its rows would vanish without a word, and no list of values could bring them back."""
    add_observations(store, [{}])
    run_sql(store, f"ALTER TABLE observations RENAME COLUMN {column} TO other")
    filters: dict[str, Any] = {"types": ("bugfix",)}
    if column == "concepts":
        filters = {"concepts": ("gotcha",)}
    selection = ask(store, **filters)
    assert ids(selection) == []
    (warning,) = selection.warnings
    assert (warning.code, warning.path) == ("store_columns", store)
    assert f"no column {column!r}" in warning.message
    assert warning.key is not None
    assert warning.key in warning.message
    free = ask(store)
    assert (ids(free), free.warnings) == ([1], ())
    assert ask(store, keys=make_keys("elsewhere"), **filters).warnings == ()


def test_malformed_concepts_are_none_and_stop_nothing(store: str) -> None:
    """Case malformed-concepts-json-aborts-query."""
    add_observations(store, [{"concepts": ["gotcha"]} for _ in range(10)])
    add_observations(store, [{"concepts": one} for one in (*MALFORMED, b"\x00\xff", '"gotcha"')])
    answer = ask(store, concepts=("gotcha",))
    assert ids(answer) == [20, 17, *range(10, 0, -1)]
    assert answer.warnings == ()
    assert ids(ask(store)) == list(range(20, 0, -1))


def test_one_limit_for_all_projects_and_stores(tmp_path: Path) -> None:
    one, two = make_store(tmp_path / "1.db"), make_store(tmp_path / "2.db")
    add_observations(one, [{"created_at_epoch": BASE_EPOCH + n} for n in (1, 4, 5)])
    add_observations(
        two, [{"project": "app/x", "created_at_epoch": BASE_EPOCH + n} for n in (2, 3, 6)]
    )
    answer = ask(one, two, keys=make_keys("app", "app/x"), limit=4)
    assert [(row.created_at_epoch or 0) - BASE_EPOCH for row in answer.observations] == [6, 5, 4, 3]
    assert {(one.key, one.observations) for one in answer.projects} == {("app", 2), ("app/x", 2)}
    assert answer.high_water == {one: 3, two: 3}


def test_equal_times_go_by_project_then_id_both_descending(store: str) -> None:
    add_observations(
        store,
        [
            {"project": name, "created_at_epoch": BASE_EPOCH}
            for name in ("app", "app/b", "app/a", "app", "app/b")
        ],
    )
    keys = make_keys("app", prefix("app/"))
    assert ids(ask(store, keys=keys)) == [5, 2, 3, 4, 1]
    assert ids(ask(store, keys=keys, limit=2)) == [5, 2]


def test_copies_are_dropped_before_the_limit(tmp_path: Path) -> None:
    """Case duplicate-rows-flood."""
    one, two = make_store(tmp_path / "1.db"), make_store(tmp_path / "2.db")
    flood = [
        {"title": "again", "narrative": "the same", "created_at_epoch": BASE_EPOCH + 9_000_000}
        for _ in range(10)
    ]
    for path in (one, two):
        add_observations(path, flood)
        add_observations(path, [{} for _ in range(5)])
    answer = ask(one, two, limit=6)
    assert ids(answer) == [10, 15, 14, 13, 12, 11]
    assert {row.store for row in answer.observations} == {one}


def test_different_rows_of_one_id_are_both_kept(tmp_path: Path) -> None:
    """Case duplicate-rows-flood: never by id alone."""
    one, two = make_store(tmp_path / "1.db"), make_store(tmp_path / "2.db")
    add_observation(one, title="this")
    add_observation(two, title="that")
    assert len(ask(one, two).observations) == 2


def test_a_synced_row_comes_once_however_it_was_edited(tmp_path: Path) -> None:
    one, two = make_store(tmp_path / "1.db"), make_store(tmp_path / "2.db")
    for path, title in ((one, "first"), (two, "edited")):
        add_observation(path, title=title, origin_device_id="d", origin_local_id="9")
        add_observation(path, title=f"other {path}", origin_device_id="d", origin_local_id=path)
    assert len(ask(one, two).observations) == 3


def test_times_of_any_unit_fall_into_one_order(tmp_path: Path) -> None:
    """Case epoch-seconds-vs-milliseconds."""
    path = make_store(tmp_path / "s.db", indexes=True)
    times = [
        1_767_225_600_000,
        1_767_312_000,
        1_767_398_400_000_000,
        "1767225600001",
        "soon",
        0,
        -1,
    ]
    texts = ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-01", "", "", ""]
    add_observations(
        path,
        [{"created_at_epoch": t, "created_at": c} for t, c in zip(times, texts, strict=True)],
    )
    answer = ask(path, limit=10)
    assert [(row.id, row.created_at_epoch) for row in answer.observations] == [
        (3, 1_767_398_400_000),
        (2, 1_767_312_000_000),
        (4, 1_767_225_600_001),
        (1, 1_767_225_600_000),
        (7, None),
        (6, None),
        (5, None),
    ]


def test_rows_merged_into_a_key_count_as_its_rows(store: str) -> None:
    add_observation(store, project="gone", merged_into_project="app")
    add_observation(store, project="gone", merged_into_project="elsewhere")
    add_observation(store, project="app", merged_into_project="elsewhere")
    answer = ask(store)
    assert [(row.id, row.project) for row in answer.observations] == [(3, "app"), (1, "gone")]
    assert [(project.key, project.observations) for project in answer.projects] == [("app", 2)]


def test_a_prefix_finds_removed_worktrees_and_nothing_like_them(store: str) -> None:
    names = ["app/a", "app/b/c", "app", "app0", "app-x/a", "APP/a", "appx", "ap%", "app/"]
    add_observations(store, [{"project": name} for name in names])
    answer = ask(store, keys=make_keys(prefix("app/")))
    assert {row.project for row in answer.observations} == {"app/a", "app/b/c", "app/"}
    assert {(one.key, one.role) for one in answer.projects} == {
        ("app/a", "removed"),
        ("app/b/c", "removed"),
        ("app/", "removed"),
    }


@pytest.mark.parametrize("name", ["a%", "a_", "ä", "a\u0308", "A"])
def test_no_character_of_a_key_widens_it(store: str, name: str) -> None:
    add_observations(
        store, [{"project": one} for one in ("a%", "a_", "ab", "ä", "a\u0308", "A", "a")]
    )
    answer = ask(store, keys=make_keys(name))
    assert [row.project for row in answer.observations] == [name]


def test_excluded_projects_do_not_come_in_by_any_door(store: str) -> None:
    add_observation(store, project="app/secret")
    add_observation(store, project="app/secret", merged_into_project="app")
    add_observation(store, project="app/open")
    add_summary(store, project="app/secret", merged_into_project="app")
    keys = make_keys("app", prefix("app/"), excluded=["app/secret"])
    answer = ask(store, keys=keys)
    assert ids(answer) == [3]
    assert answer.summaries == ()


def test_a_bare_name_is_used_while_no_one_else_has_it(store: str) -> None:
    """Case generic-worktree-leaf-collides."""
    add_observations(store, [{"project": one} for one in ("develop", "one/develop")])
    keys = make_keys("one", exact("one/develop"), exact("develop", bare=True), prefix("one/"))
    assert ids(ask(store, keys=keys)) == [2, 1]
    add_observation(store, project="two/develop")
    answer = ask(store, keys=keys)
    assert ids(answer) == [2]
    rules = {one.key: one.rule for one in answer.projects}
    assert rules["develop"].startswith("left out: two")


def test_a_bare_name_that_is_a_repository_of_its_own_is_left_out(store: str) -> None:
    add_observations(store, [{"project": one} for one in ("api", "api/feat", "one/api")])
    keys = make_keys("one", exact("one/api"), exact("api", bare=True))
    assert ids(ask(store, keys=keys)) == [3]


def test_a_repository_of_the_same_name_keeps_its_rows(store: str, tmp_path: Path) -> None:
    """Case same-basename-repos-mixed."""
    ours, theirs = tmp_path / "one" / "api", tmp_path / "two" / "api"
    for folder in (ours, theirs):
        folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=30)
    add_observation(store, project="api", files_read=[str(ours / "x.py")])
    add_observation(store, project="api", files_read=[str(theirs / "x.py")])
    add_observation(store, project="api", files_read=["src/x.py"])
    add_observation(store, project="api", files_read=[str(tmp_path / "gone" / "api" / "x.py")])
    add_observation(
        store, project="api", files_read=[str(theirs / "y.py")], files_modified=[str(ours / "y.py")]
    )
    keys = make_keys("api", checkouts=[str(ours)])
    answer = ask(store, keys=keys, limit=4)
    assert ids(answer) == [5, 4, 3, 1]
    (warning,) = answer.warnings
    assert (warning.code, warning.key, warning.path) == ("ambiguous_key", "api", str(theirs))


def test_no_memory_is_told_from_all_filtered_out(store: str) -> None:
    """Case misleading-no-memory-message: A filtered out, D none at all."""
    assert not ask(store).rows_exist
    add_observations(store, [{"type": "feature"} for _ in range(50)])
    answer = ask(store, types=("bugfix",))
    assert (ids(answer), answer.rows_exist) == ([], True)


def test_rows_of_every_assistant_are_shown_unless_one_is_asked_for(store: str) -> None:
    """Case misleading-no-memory-message: B."""
    add_session(store, "c", platform_source="codex")
    add_session(store, "session-1", platform_source="claude")
    add_observation(store, session="c")
    add_observation(store)
    add_observation(store, session="nobody knows")
    assert ids(ask(store)) == [3, 2, 1]
    named = {
        name: ids(ask(store, question=Question(None, ("app",), platform_source=name)))
        for name in ("codex", "claude", "claude-code", "Codex", "cursor")
    }
    assert named == {
        "codex": [1],
        "claude": [3, 2],
        "claude-code": [3, 2],
        "Codex": [1],
        "cursor": [],
    }


def test_before_there_were_platforms_all_was_claudes(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db", "9.1.1")
    add_observation(path)
    for name, expected in (("claude", [1]), ("codex", [])):
        question = Question(None, ("app",), platform_source=name)
        assert ids(ask(path, question=question)) == expected


def test_one_bad_store_is_a_warning_and_the_others_answer(store: str, tmp_path: Path) -> None:
    """Case one-corrupt-store-others-fine; misleading-no-memory-message: C."""
    add_observation(store)
    empty, words = tmp_path / "empty.db", tmp_path / "words.db"
    empty.write_bytes(b"")
    words.write_text("no database " * 100)
    gone = str(tmp_path / "gone.db")
    answer = ask(str(empty), str(words), store, gone)
    assert ids(answer) == [1]
    assert {one.path: one.reason for one in answer.stores if not one.ok} == {
        str(empty): "foreign",
        str(words): "foreign",
        gone: "missing",
    }
    assert sorted(codes(answer)) == ["store_foreign", "store_foreign", "store_missing"]
    assert not answer.complete


def test_damage_met_in_the_middle_is_told_too(tmp_path: Path) -> None:
    """Case one-corrupt-store-others-fine: the rows' own pages."""
    bad = make_store(tmp_path / "bad.db", journal="delete")
    add_observations(bad, [{"narrative": "needle" + "x" * 9000} for _ in range(40)])
    run_sql(bad, "VACUUM")
    whole = Path(bad).read_bytes()
    at = whole.index(b"needle") // 4096 * 4096
    Path(bad).write_bytes(whole[:at] + b"\xa5" * 40_960 + whole[at + 40_960 :])
    with open_pool() as pool:
        answer = ask(bad, pool=pool)
        assert codes(answer) == ["store_corrupt"]
        assert [one.ok for one in answer.stores] == [False]
        assert [one.ok for one in pool.describe()] == [False]
        assert not answer.complete


def test_a_locked_store_costs_the_others_nothing(store: str, tmp_path: Path) -> None:
    """Case store-locked-busy: answers from the others inside the deadline."""
    locked = make_store(tmp_path / "locked.db", journal="delete")
    add_observation(locked, title="locked")
    add_observation(store, title="free")
    with open_pool() as pool, OtherProcess(locked) as writer:
        writer.run("BEGIN EXCLUSIVE")
        answer = ask(locked, store, pool=pool, within=0.6)
        assert [row.title for row in answer.observations] == ["free"]
        assert codes(answer) == ["store_busy"]
        writer.run("ROLLBACK")
        assert len(ask(locked, store, pool=pool).observations) == 2


class Impatient(Guard):
    """Stops the first long statement, as a deadline in its middle does."""

    __slots__ = ("looks",)

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.looks == 400


def test_what_was_found_before_the_deadline_is_shown(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(store)) as db:
        add_observations(store, [{} for _ in range(5000)], connection=db)
    monkeypatch.setattr(connection, "Guard", Impatient)
    monkeypatch.setattr(connection, "STEPS", 50)
    answer = ask(store, limit=5000, concepts=("how-it-works",))
    assert 0 < len(answer.observations) < 5000
    assert ids(answer) == sorted(ids(answer), reverse=True)
    assert codes(answer) == ["store_slow"]
    assert not answer.complete


def test_more_rows_than_time_allows_are_cut_off_and_no_store_is_blamed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(sources: Sources) -> bool:
        sources.unfinished = True
        return True

    add_observations(store, [{"title": f"Row {n}"} for n in range(1300)])
    with open_pool() as pool:
        monkeypatch.setattr(Sources, "_late", late)
        answer = ask(store, pool=pool, limit=1300)
        assert ids(answer) == list(range(1300, 800, -1))
        (warning,) = answer.warnings
        assert (warning.code, warning.key) == ("deadline", "CLAUDE_MEM_DAEMON_TIMEOUT_MS")
        assert "cut off after the newest 500 rows" in warning.message
        assert not answer.complete
        assert [one.ok for one in answer.stores] == [True]
        assert [one.ok for one in pool.describe()] == [True]
        monkeypatch.undo()
        whole = ask(store, pool=pool, limit=1300)
        assert len(whole.observations) == 1300
        assert whole.complete


def test_rows_too_large_for_the_time_are_cut_off_between_two_of_them(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of SQLite's steps a huge row takes few: the guard alone would not stop."""
    add_observations(store, [{"narrative": "x" * 100_000} for _ in range(20)])
    looks = iter([False] * 7)

    def check_time(_: SqliteReader) -> None:
        if next(looks, True):
            raise slow(store)

    monkeypatch.setattr(SqliteReader, "_check_time", check_time)
    with open_pool() as pool:
        answer = ask(store, pool=pool, limit=20)
        assert len(answer.observations) == 8
        assert codes(answer) == ["deadline"]
        assert not answer.complete
        assert [one.ok for one in pool.describe()] == [True]


def test_the_limit_0_asks_nothing(store: str) -> None:
    add_observation(store)
    with open_pool() as pool:
        answer = ask(store, pool=pool, limit=0, session_count=0, show_last_summary=False)
        assert pool.describe() == ()
    assert not answer.observations
    assert not answer.summaries
    assert answer.complete


def test_summaries_are_the_newest_of_all_keys(store: str) -> None:
    add_session(store, "session-1")
    for number in range(6):
        add_summary(store, project="app/x" if number % 2 else "app")
    add_summary(store, project="other")
    add_summary(store, project="gone", merged_into_project="app")
    answer = ask(store, keys=make_keys("app", "app/x"), session_count=4)
    assert [one.id for one in answer.summaries] == [8, 6, 5, 4]
    assert answer.summaries[1].request == "Request 6"
    assert ask(store, session_count=0, show_last_summary=False).summaries == ()
    assert [one.id for one in ask(store, session_count=0).summaries] == [8]


def test_news_is_what_others_wrote_since(store: str) -> None:
    add_session(store, "mine", content_session="me")
    add_session(store, "theirs", content_session="them")
    add_observations(store, [{"session": "theirs"}, {"session": "mine"}])
    mark = ask(store).high_water
    assert mark == {store: 2}
    add_observations(store, [{"session": "mine"}, {"session": "theirs"}, {"session": "unknown"}])
    question = Question(None, ("app",), since=mark, session_id="me")
    answer = ask(store, question=question)
    assert ids(answer) == [5, 4]
    assert answer.summaries == ()
    again = Question(None, ("app",), since=answer.high_water, session_id="me")
    assert ids(ask(store, question=again)) == []


def test_an_answer_stands_until_one_of_its_stores_changes(store: str, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other.db")
    with open_pool() as pool:
        for path in (store, other):
            settle(path)
        answer = ask(store, other, pool=pool)
        assert answer.complete
        assert all(one.holds() for one in answer.versions)
        add_observation(other)
        assert [one.holds() for one in answer.versions] == [True, False]


def test_a_thousand_worktrees_and_their_keys_are_asked_at_once(store: str) -> None:
    with closing(sqlite3.connect(store)) as db:
        add_observations(
            store, [{"project": f"app/w{n % 1000}"} for n in range(3000)], connection=db
        )
    trees = [key for n in range(1000) for key in (exact(f"app/w{n}"), exact(f"w{n}", bare=True))]
    answer = ask(store, keys=make_keys("app", *trees, prefix("app/")))
    assert ids(answer) == list(range(3000, 2950, -1))


def test_big_texts_are_read_for_winners_alone(store: str) -> None:
    """Case big-store-slow."""
    add_observations(store, [{"narrative": f"{n}" + "x" * 1_000_000} for n in range(6)])
    answer = ask(store, limit=2)
    assert [len(row.narrative) for row in answer.observations] == [1_000_001, 1_000_001]


def test_no_connection_is_left_reading_after_an_answer(store: str) -> None:
    add_observations(store, [{} for _ in range(300)])
    with open_pool() as pool, OtherProcess(store) as writer:
        ask(store, pool=pool, limit=3)
        writer.run("UPDATE observations SET title = 'new'")
        ((busy, _, _),) = writer.run("PRAGMA wal_checkpoint(TRUNCATE)")
        assert busy == 0
        assert os.path.getsize(store + "-wal") == 0
        assert pool.describe()[0].connections <= MAX_IDLE


steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            [
                (
                    "INSERT INTO observations (memory_session_id, project, type, title, created_at,"
                    " created_at_epoch) SELECT 's', project, type, 'new', '', created_at_epoch + 1"
                    " FROM observations ORDER BY id DESC LIMIT 1"
                ),
                "UPDATE observations SET title = title || '!' WHERE id % 2",
                "UPDATE observations SET project = 'other' WHERE id = 2",
                "UPDATE observations SET project = 'app' WHERE id = 2",
                "UPDATE observations SET merged_into_project = 'app' WHERE id = 3",
                "UPDATE observations SET created_at_epoch = 2000000000000 WHERE id = 1",
                "DELETE FROM observations WHERE id = (SELECT max(id) FROM observations)",
                (
                    "INSERT INTO observations (memory_session_id, project, type, created_at,"
                    " created_at_epoch) VALUES ('s', 'x/one', 'bugfix', '', 5)"
                ),
                "UPDATE session_summaries SET request = request || '?'",
            ]
        ),
        st.sampled_from([2, 5, 50]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_what_a_pool_remembers_never_shows(changes: list[tuple[int, str, int]]) -> None:
    """Of stores that did not change, what was found before is taken again."""
    keys = make_keys("app", exact("one", bare=True))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [make_store(Path(folder) / f"{n}.db") for n in range(3)]
        for number, path in enumerate(paths):
            add_session(path, "session-1")
            add_observations(path, [{"title": f"{number}-{n}"} for n in range(4)])
            add_observation(path, project="one", title=f"one of {number}")
            add_summary(path, request=f"of {number}")
        writers = [stack.enter_context(OtherProcess(path)) for path in paths]
        pool = stack.enter_context(open_pool())
        for at, change, limit in [(0, "SELECT 1", 50), *changes]:
            writers[at].run(change)
            known = ask(*paths, keys=keys, pool=pool, limit=limit)
            with open_pool() as fresh:
                anew = ask(*paths, keys=keys, pool=fresh, limit=limit)
            assert known._replace(versions=()) == anew._replace(versions=())


def test_more_rows_are_found_where_the_first_ones_are_no_use(store: str, tmp_path: Path) -> None:
    """The copies of another store's rows make room, also when nothing changed but that store."""
    other = make_store(tmp_path / "other.db")
    for path in (store, other):
        add_observations(path, [{"title": f"Row {n}"} for n in range(8)])
    with open_pool() as pool, OtherProcess(other) as writer:
        for _ in range(2):
            answer = ask(store, other, pool=pool, limit=8)
            assert sorted(row.title for row in answer.observations) == [
                f"Row {n}" for n in range(8)
            ]
            writer.run("UPDATE observations SET subtitle = NULL")


@pytest.mark.parametrize("odd", [["1", "1"], ["1", "2"]])
def test_a_fault_of_ours_in_a_row_costs_that_row_and_says_so(
    store: str, monkeypatch: pytest.MonkeyPatch, odd: list[str]
) -> None:
    """Some cannot be read and some cannot be shown, as many or not."""
    titles = ("one", "odder", "two", *["odd"] * int(odd[1]))
    add_observations(store, [{"title": title} for title in titles])
    row_well = reader._row

    def text_badly(cell: Any) -> str:
        if cell == "odd":
            raise RuntimeError("a stranger's text")
        return text(cell)

    def row_badly(table: Table, cells: tuple[Any, ...], epoch: int | None) -> Row:
        if "odder" in cells:
            raise RuntimeError("a stranger's text")
        return row_well(table, cells, epoch)

    monkeypatch.setattr(reader, "_row", row_badly)
    monkeypatch.setattr(model, "text", text_badly)
    settings, keys, stores = make_settings(), make_keys("app"), located(store)
    shape = query_shape(Answer(resolve(QUESTION, settings, keys, stores), ask(store)))
    assert [row["title"] for row in shape["observations"]] == ["two", "one"]
    assert [(one["code"], one["path"]) for one in shape["warnings"]] == [("store_rows", store)] * 2
    assert [one["message"].split()[1] for one in shape["warnings"]] == odd


@pytest.mark.parametrize("method", ["present", "flow", "rows", "_flow", "highest_id"])
def test_a_fault_of_ours_in_a_store_costs_that_store_and_says_so(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    other = make_store(tmp_path / "other.db")
    add_observations(store, [{"title": "here"}])
    add_observations(other, [{"title": "there"}])
    well = getattr(SqliteReader, method)

    def badly(self: SqliteReader, *rest: Any, **more: Any) -> Any:
        if self.version.path == other:
            raise RuntimeError("a stranger's text")
        return well(self, *rest, **more)

    monkeypatch.setattr(SqliteReader, method, badly)
    selection = ask(other, store)
    assert "here" in [row.title for row in selection.observations]
    (warning,) = selection.warnings
    assert (warning.code, warning.path) == ("store_unreadable", other)
    assert "stranger" not in warning.message
    assert [one.path for one in selection.stores if not one.ok] == [other]
