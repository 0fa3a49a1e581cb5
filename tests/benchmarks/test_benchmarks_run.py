"""The benchmark itself is kept alive: it runs, and every answer it times is right."""

from __future__ import annotations

import os

import pytest

from tests.benchmarks.answers import named
from tests.benchmarks.floors import PLANS, BareSqlite
from tests.benchmarks.measure import Effort, interleave
from tests.benchmarks.report import markdown, table
from tests.benchmarks.run import SECTIONS, run
from tests.benchmarks.site import BY_SIZE, Ground, Site, keys_of, prepare_ground
from tests.benchmarks.store import GROVES, build_store, grove
from tests.benchmarks.worst import WRONG
from tests.support.stores import run_sql


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where stores and repositories are built once for all tests here."""
    return os.fspath(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def ground(folder: str) -> Ground:
    return prepare_ground(folder, Effort.quick())


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_runs_and_its_answers_are_right(folder: str, section: str) -> None:
    """Case big-store-slow, at the size that a test can afford.

    Before each it compares the daemon's rows with those of a query by hand for every project, and
    an answer after a write fails the run where the row written last is not in it.
    """
    figures = [f for f in run(folder, (10_000,), Effort.quick(), [section]) if f.section == section]
    assert figures
    assert all(figure.ours > 0 for figure in figures if figure.unit in ("ms", "MB"))
    assert [figure.note for figure in figures if figure.note.startswith(WRONG)] == []
    if section not in ("worst cases", "idle"):
        assert [figure.what for figure in figures if not figure.floor] == []
    if section in ("warm", "after a write"):
        names = {*BY_SIZE, *(named(grove(worktrees)) for worktrees in GROVES)}
        assert names <= {figure.what for figure in figures}
    for text in (table(figures), markdown(figures)):
        assert all(figure.what in text for figure in figures)


@pytest.mark.parametrize("project", [*BY_SIZE, *(grove(n) for n in GROVES)])
def test_every_plan_by_hand_finds_the_same_rows(ground: Ground, project: str) -> None:
    """A floor that answers another question would be no floor."""
    with Site(ground, 10_000) as site:
        found = {plan: site.bare.rows(plan, keys_of(project)) for plan in PLANS}
        assert len(found["project index"]) >= 30
        assert found["time index"] == found["project index"] == found["both indexes"]


def test_a_store_used_again_is_as_it_was_built(ground: Ground) -> None:
    with Site(ground, 10_000) as site:
        site.write("rare")
        assert run_sql(site.store, "SELECT count(*) FROM observations") == [(10_001,)]
    assert run_sql(site.store, "SELECT count(*) FROM observations") == [(10_000,)]


def test_the_store_has_forty_projects_and_all_of_claude_mems_indexes(
    tmp_path: os.PathLike[str],
) -> None:
    path = build_store(os.path.join(os.fspath(tmp_path), "s.db"), 10_000)
    keys = run_sql(path, "SELECT DISTINCT project FROM observations WHERE project NOT LIKE '%/%'")
    assert len([key for (key,) in keys if not key.startswith("g1")]) >= 35
    shares = dict(run_sql(path, "SELECT project, count(*) FROM observations GROUP BY 1"))
    assert (shares["huge"], shares["rare"]) == (7000, 100)
    indexes = run_sql(path, "SELECT count(*) FROM sqlite_master WHERE sql LIKE 'CREATE%INDEX%'")
    assert indexes[0][0] >= 24
    with BareSqlite(path) as db:
        assert db.rows("time index", keys_of("huge"))


def test_turns_are_taken_in_turn() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return 0.5

    taken = interleave({"a": lambda: turn("a"), "b": lambda: turn("b")}, 2)
    assert order == ["a", "b"] * 3
    assert taken == {"a": [500.0, 500.0], "b": [500.0, 500.0]}
