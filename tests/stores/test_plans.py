"""Plans: which one a look chooses, and that SQLite runs it by the index that was meant."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.stores import names, plans, sql
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.reader import SqliteReader
from claudemem_daemon.stores.sql import Statement, Wanted
from tests.stores.reading import open_pool, rows
from tests.support.stores import (
    BASE_EPOCH,
    GENERATIONS,
    Generation,
    OtherProcess,
    add_observations,
    make_store,
    run_sql,
)

FILTERED = Wanted(
    projects=("rare",), types=("bugfix",), concepts=("gotcha", "pattern"), platform="claude"
)


@contextmanager
def reading(path: str) -> Iterator[SqliteReader]:
    with open_pool() as pool, pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
        assert isinstance(reader, SqliteReader)
        yield reader


def fill(path: str, *, rare: int = 20, huge: int = 3000, many: int = 0) -> None:
    projects = ["rare"] * rare + ["huge"] * huge + [f"tree/{n % 40}" for n in range(many)]
    with closing(sqlite3.connect(path)) as db:
        add_observations(path, [{"project": one} for one in projects], connection=db)


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Generation:
    chosen: Generation = request.param
    return chosen


@pytest.fixture(params=[False, True], ids=["no statistics", "statistics"])
def store(tmp_path: Path, generation: Generation, request: pytest.FixtureRequest) -> str:
    path = make_store(tmp_path / "s.db", generation)
    fill(path, many=900)
    if request.param:
        run_sql(path, "ANALYZE")
    return path


@pytest.mark.parametrize(
    ("projects", "limit", "expected"),
    [
        (("rare",), 50, "project"),
        (("huge",), 50, "walk"),
        (("rare", "huge"), 50, "walk"),
        (tuple(f"tree/{n}" for n in range(40)), 50, "both"),
        (tuple(f"tree/{n}" for n in range(40)), 20, "time"),
        ((), 50, "project"),
    ],
    ids=["few rows", "many rows", "two", "many projects", "a great share", "none"],
)
def test_the_plan_follows_the_number_of_rows(
    store: str, projects: tuple[str, ...], limit: int, expected: str
) -> None:
    with reading(store) as reader:
        assert reader.plan("observations", Wanted(projects=projects), limit) == expected


def test_a_few_new_rows_are_read_by_their_id(store: str) -> None:
    with reading(store) as reader:
        wanted = Wanted(projects=("huge",), above=reader.highest_id() - 5)
        assert reader.plan("observations", wanted, 50) == "project"
        assert "idx_observations_project (project=? AND rowid>?)" in " ".join(
            line for query in reader.queries(wanted, 50) for line in query.steps
        )


def details(reader: SqliteReader, statement: Statement) -> str:
    return "\n".join(reader.query_plan(statement))


def test_each_plan_runs_by_its_index(store: str, generation: Generation) -> None:
    """Case big-store-slow: no scan of the table, no sort of wide rows; with and without
    sqlite_stat1."""
    with reading(store) as reader:
        schema = reader.schema
        by_project = "observations USING INDEX idx_observations_project (project="
        (project,) = sql.all_rows(schema, "observations", FILTERED)
        assert by_project in details(reader, project)
        walk = sql.newest_by_id(schema, "observations", FILTERED, ("project", "rare"), 9)
        assert by_project in details(reader, walk)
        assert "ORDER BY" not in details(reader, walk)
        further = sql.newest_by_id(schema, "observations", FILTERED, ("project", "rare"), 9, 50)
        assert "idx_observations_project (project=? AND rowid<?)" in details(reader, further)
        assert "ORDER BY" not in details(reader, further)
        proof = sql.out_of_order(schema, "observations", BASE_EPOCH, 50, None, 9)
        for line in reader.query_plan(proof):
            if "observations" in line:
                assert "COVERING INDEX idx_observations_created" in line
        time = sql.newest_by_time(schema, "observations", FILTERED)
        assert "observations USING INDEX idx_observations_created (" in details(reader, time)
        assert "ORDER BY" not in details(reader, time)
        joined = sql.newest_by_both(schema, "observations", FILTERED)
        assert "observations USING INDEX idx_observations_created (" in details(reader, joined)
        assert "COVERING INDEX idx_observations_project (project=" in details(reader, joined)
        assert "ORDER BY" not in details(reader, joined)
        count = sql.how_many(schema, "observations", Wanted(("rare",)), 9)
        assert "COVERING INDEX idx_observations_project" in details(reader, count)
        assert "PRIMARY KEY" in details(reader, sql.wide(schema, "observations", [1, 2]))
        for one in (
            names.distinct(schema, "observations", "project", "tree/"),
            names.present(schema, "observations", ["project"], ["rare"], ["tree/"]),
        ):
            assert "COVERING INDEX idx_observations_project" in details(reader, one)
            assert "SCAN observations" not in details(reader, one)
        if generation == "13.25.3":
            merged = Wanted(projects=("rare",), merged=("rare",))
            both = sql.all_rows(schema, "observations", merged)
            assert "idx_observations_project" in details(reader, both[0])
            assert "idx_observations_merged_into" in details(reader, both[1])


def test_all_plans_give_the_same_rows(store: str) -> None:
    wanted = Wanted(projects=("rare", "huge"))
    with reading(store) as reader:
        ask = reader._flow
        own = plans.Reading(reader.schema, ask, {})
        search = partial(plans.Search, own, "observations", wanted, 50)
        expected = [one.id for one in search()._all(search().statements("project"))]
        assert len(expected) == 3020
        assert [one.id for one in search()._walk()] == expected
        for plan in ("time", "both"):
            assert [one.id for one in search()._by_time(plan)] == expected


@pytest.mark.parametrize("indexes", [True, False], ids=["indexes", "no indexes"])
def test_a_store_without_indexes_answers_too(tmp_path: Path, indexes: bool) -> None:
    path = make_store(tmp_path / "s.db", indexes=indexes)
    fill(path, rare=30, huge=900)
    run_sql(path, "UPDATE observations SET merged_into_project = 'rare' WHERE id = 500")
    with open_pool() as pool:
        wanted = Wanted(projects=("rare",), merged=("rare",))
        assert rows(pool, path, wanted=wanted) == [500, *range(30, 0, -1)]
        assert rows(pool, path, wanted=Wanted(projects=("huge",)))[:3] == [930, 929, 928]


@pytest.mark.parametrize("indexes", [True, False], ids=["indexes", "no indexes"])
def test_rows_are_counted_once_and_by_the_indexes(tmp_path: Path, indexes: bool) -> None:
    path = make_store(tmp_path / "s.db", indexes=indexes)
    fill(path, rare=30, huge=900)
    run_sql(path, "UPDATE observations SET merged_into_project = 'rare' WHERE id IN (1, 500, 501)")
    with reading(path) as reader:
        for projects, merged, expected in (
            (("rare",), (), 30),
            (("rare",), ("rare",), 32),
            (("rare", "huge"), ("rare",), 930),
            ((), ("rare",), 3),
            (("none",), ("none",), 0),
        ):
            assert reader.how_many(Wanted(projects=projects, merged=merged)) == expected
        if indexes:
            plan = details(
                reader, sql.how_many(reader.schema, "observations", Wanted(projects=("rare",)))
            )
            assert "COVERING INDEX idx_observations_project" in plan


@pytest.mark.parametrize(
    "index",
    [
        "CREATE INDEX i ON observations(project COLLATE NOCASE)",
        "CREATE INDEX i ON observations(project) WHERE id > 1",
        "CREATE INDEX i ON observations(lower(project))",
    ],
    ids=["collation", "partial", "expression"],
)
def test_only_a_whole_and_plain_index_is_used(tmp_path: Path, index: str) -> None:
    path = make_store(tmp_path / "s.db", indexes=False)
    add_observations(path, [{"project": name} for name in ("app", "APP", "app")])
    run_sql(path, index)
    with open_pool() as pool:
        assert rows(pool, path) == [3, 1]


def test_late_rows_with_early_ids_are_found_by_the_walk(tmp_path: Path) -> None:
    """Rows of another device come in with their own, older or newer, times."""
    path = make_store(tmp_path / "s.db")
    fill(path, rare=0, huge=2000)
    run_sql(
        path,
        "UPDATE observations SET created_at_epoch = created_at_epoch + 864000000 WHERE id IN (3, 9)",
    )
    huge = Wanted(projects=("huge",))
    with reading(path) as reader:
        assert reader.plan("observations", huge, 50) == "walk"
        found = [one.id for page in reader.candidates("observations", huge, 50) for one in page]
    assert found[:4] == [9, 3, 2000, 1999]
    assert sorted(found) == list(range(1, 2001))


@pytest.mark.parametrize(
    ("time", "both"), [(40, 600), (0, 600), (0, 0)], ids=["time", "both", "project"]
)
def test_a_store_all_in_disorder_is_read_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: int, both: int
) -> None:
    """With too many late rows the walk proves nothing; the next plan with a budget takes over."""
    monkeypatch.setattr(plans, "MAX_OUT_OF_ORDER", 5)
    monkeypatch.setattr(plans, "TIME_BUDGET", time)
    monkeypatch.setattr(plans, "BOTH_BUDGET", both)
    path = make_store(tmp_path / "s.db")
    fill(path, rare=0, huge=1000)
    run_sql(path, "UPDATE observations SET created_at_epoch = ? - id", (BASE_EPOCH,))
    with reading(path) as reader:
        flow = reader.flow("observations", Wanted(projects=("huge",)), 50)
        assert [one.id for one in flow] == list(range(1, 1001))


def test_a_plan_found_by_trying_is_taken_at_once_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "MAX_OUT_OF_ORDER", 5)
    monkeypatch.setattr(plans, "LEARNT_ROWS", 2000)
    monkeypatch.setattr(plans, "MAX_LEARNT", 2)
    path = make_store(tmp_path / "s.db")
    fill(path, rare=0, huge=1000)
    huge = Wanted(projects=("huge",))
    with open_pool() as pool, OtherProcess(path) as writer:

        def newest() -> list[int]:
            with (
                pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader,
                closing(reader.flow("observations", huge, 50)) as flow,
            ):
                return [one.id for one in islice(flow, 3)]

        def plan(wanted: Wanted = huge) -> str:
            with pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
                assert isinstance(reader, SqliteReader)
                return reader.plan("observations", wanted, 50)

        assert plan() == "walk"
        writer.run(f"UPDATE observations SET created_at_epoch = {BASE_EPOCH} - id")
        assert newest() == [1, 2, 3]
        assert plan(Wanted(projects=("huge", "other"))) == "walk"
        assert plan() == "time"
        # Which plan it is changes no row.
        writer.run(f"UPDATE observations SET created_at_epoch = {BASE_EPOCH} + id")
        assert newest() == [1000, 999, 998]
        assert plan() == "time"
        writer.run("UPDATE observations SET id = 2000 WHERE id = 1000")
        assert plan() == "walk"


@pytest.mark.parametrize(("limit", "plan"), [(20, "time"), (50, "both")])
def test_a_plan_is_given_up_once_times_are_of_two_units(
    tmp_path: Path, limit: int, plan: str
) -> None:
    """In seconds a time is the smallest of the index, whatever its date."""
    path = make_store(tmp_path / "s.db")
    fill(path, many=900)
    wanted = Wanted(projects=tuple(f"tree/{n}" for n in range(40)))
    with open_pool() as pool, OtherProcess(path) as writer:

        def newest() -> tuple[str, int]:
            with pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
                assert isinstance(reader, SqliteReader)
                chosen = reader.plan("observations", wanted, limit)
                with closing(reader.flow("observations", wanted, limit)) as flow:
                    return chosen, next(flow).id

        assert [newest(), newest()] == [(plan, 3920), (plan, 3920)]
        later = (BASE_EPOCH + 864_000_000) // 1000
        writer.run(f"UPDATE observations SET created_at_epoch = {later} WHERE id = 3100")
        assert newest() == ("project", 3100)


@pytest.mark.parametrize(("limit", "plan"), [(20, "time"), (50, "both")])
def test_projects_whose_rows_are_all_old_do_not_cost_the_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, plan: str
) -> None:
    """The plans down the time index have a budget; when it is spent the project plan takes over."""
    monkeypatch.setattr(plans, "TIME_BUDGET", 0)
    monkeypatch.setattr(plans, "BOTH_BUDGET", 0)
    path = make_store(tmp_path / "s.db")
    with closing(sqlite3.connect(path)) as db:
        old = [{"project": f"tree/{n % 40}"} for n in range(900)]
        add_observations(path, [*old, *({"project": "huge"} for _ in range(3000))], connection=db)
    with reading(path) as reader:
        wanted = Wanted(projects=tuple(f"tree/{n}" for n in range(40)))
        assert reader.plan("observations", wanted, limit) == plan
        flow = reader.flow("observations", wanted, limit)
        assert [one.id for one in flow] == list(range(900, 0, -1))
        assert reader.highest_id() == 3900


def test_a_great_many_names_do_not_use_up_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite makes a table of them before it reads the first row: of 10,000 worktrees there are
    20,000."""
    path = make_store(tmp_path / "s.db")
    fill(path, rare=0, many=900)
    monkeypatch.setattr(plans.Search, "_all", pytest.fail)
    with reading(path) as reader:
        wanted = Wanted(projects=tuple(f"tree/{n}" for n in range(20_000)))
        assert reader.plan("observations", wanted, 20) == "time"
        with closing(reader.flow("observations", wanted, 20)) as flow:
            assert [row.id for row in islice(flow, 3)] == [3900, 3899, 3898]


@pytest.mark.parametrize(
    "name", ["a%", "a_b", "A", "a/", "a\u0301", "\U0010ffff", "a\U0010ffff", "\ud7ff"]
)
def test_a_prefix_is_exactly_its_bytes(tmp_path: Path, name: str) -> None:
    path = make_store(tmp_path / "s.db")
    around = ["a", "ab", "aXb", "a%x", "A1", "\u00e1", "a0", "a/x", "b", name, name + "x"]
    add_observations(path, [{"project": one} for one in around])
    with reading(path) as reader:
        found, _ = reader.present("observations", [], [name])
    assert sorted(found) == sorted({one for one in around if one.startswith(name)})


def test_blobs_and_numbers_for_names_do_no_harm(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": name} for name in ("app", b"app", 5, "", "zz")])
    with reading(path) as reader:
        assert set(reader.projects()) >= {"app", "zz"}
        assert reader.present("observations", ["app", "5"], [])[0] == ("app", "5")
    with open_pool() as pool:
        assert rows(pool, path) == [1]


def test_reading_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db", journal="delete")
    fill(path)
    before = (Path(path).read_bytes(), sorted(os.listdir(tmp_path)))
    with reading(path) as reader:
        list(reader.flow("observations", Wanted(projects=("huge",)), 50))
    assert (Path(path).read_bytes(), sorted(os.listdir(tmp_path))) == before
