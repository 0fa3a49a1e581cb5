"""Which projects belong: the same by looking for each and by listing all, and never out of date."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection import admission as module
from claudemem_daemon.selection.admission import Admitted, match_keys
from claudemem_daemon.stores import reader as reader_module
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool
from tests.selection.asking import ask, exact, make_keys, open_pool, prefix
from tests.support.stores import OtherProcess, add_observations, add_summary, make_store

NAMES = (
    *("app", "app/one", "app/two", "app/\0", "\0", "app%", "one", "two", "x/one", "one/y", "é"),
    *("x", "x0", "x0/two", "x/y/one", "y\0/one", "y/two", "/one", "z/", "z//é"),
)
names = st.sampled_from(NAMES)
stored = st.lists(st.tuples(names, st.one_of(st.none(), names)), max_size=12)
bare_keys = st.lists(st.sampled_from(("one", "two", "\0", "é")), max_size=4)


def said(pool: StorePool, path: str, keys: ProjectKeys) -> Admitted:
    with pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
        return match_keys(reader, keys)[0]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=stored, bare=bare_keys, prefixed=st.booleans(), excluded=st.lists(names, max_size=1))
def test_listing_all_says_what_looking_for_each_says(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str | None]],
    bare: list[str],
    prefixed: bool,
    excluded: list[str],
) -> None:
    """The order too: explain shows it."""
    keys = make_keys(
        "app",
        "app/two",
        *(exact(name, bare=True) for name in bare),
        *([prefix("app/")] if prefixed else []),
        excluded=excluded,
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = make_store(Path(folder) / "s.db")
        add_observations(
            path, [{"project": one, "merged_into_project": other} for one, other in rows]
        )
        for most, joined in ((-1, 0), (1000, 0), (1000, 1000)):
            monkeypatch.setattr(module, "MAX_PROBES", most)
            monkeypatch.setattr(reader_module, "MAX_JOINED", joined)
            with open_pool() as pool:
                one = said(pool, path, keys)
                assert said(pool, path, keys) == one
            found.append((list(one.projects.items()), list(one.merged.items()), one.left_out))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("most", [-1, 1000], ids=["all listed", "each looked for"])
def test_what_is_remembered_of_a_store_is_what_it_holds_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A worktree's bare name is dropped in the very answer after another repository wrote its
    own, and is back when that row is gone."""
    monkeypatch.setattr(module, "MAX_PROBES", most)
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": "app"}, {"project": "one"}])
    keys = make_keys("app", exact("one", bare=True))
    with open_pool() as pool, OtherProcess(path) as writer:
        assert [row.id for row in ask(path, keys=keys, pool=pool).observations] == [2, 1]
        writer.run(
            "INSERT INTO observations (id, memory_session_id, project, type, created_at,"
            " created_at_epoch) VALUES (3, 's', 'other/one', 'discovery', '', 1800000000000)"
        )
        assert [row.id for row in ask(path, keys=keys, pool=pool).observations] == [1]
        writer.run("DELETE FROM observations WHERE id = 3")
        assert [row.id for row in ask(path, keys=keys, pool=pool).observations] == [2, 1]


def test_other_keys_are_answered_for_themselves(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": "app"}, {"project": "one"}])
    with open_pool() as pool:
        for _ in range(2):
            assert list(said(pool, path, make_keys("app")).projects) == ["app"]
            assert list(said(pool, path, make_keys("one")).projects) == ["one"]


def test_a_name_that_holds_nul_stays_one_name(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": name} for name in ("a\0b", "c", "")])
    with (
        open_pool() as pool,
        pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader,
    ):
        assert reader.projects() == ("", "a\ufffdb", "c")


def test_the_same_names_are_listed_as_the_same_object(tmp_path: Path) -> None:
    """What is made of them is found again by it."""
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": "app"}])
    seen = []
    with open_pool() as pool, OtherProcess(path) as writer:
        for _ in range(2):
            with pool.reading(StoreRef(path, "told"), Deadline.after(20)) as reader:
                seen.append(reader.projects())
            writer.run("UPDATE observations SET title = 'another'")
    assert seen[0] is seen[1]


def test_the_account_of_the_keys_counts_this_answer(tmp_path: Path) -> None:
    """What is remembered of it is all but the counts, for one set of stores each."""
    first, second = (make_store(tmp_path / name) for name in ("1.db", "2.db"))
    add_observations(first, [{"project": "app"}, {"project": "app/one"}])
    add_observations(second, [{"project": "app", "title": "not a copy"}])
    keys = make_keys("app", "none", prefix("app/"))
    with open_pool() as pool, OtherProcess(first) as writer:

        def account(*paths: str) -> list[tuple[str, tuple[str, ...], int]]:
            projects = ask(*paths, keys=keys, pool=pool).projects
            return [(one.key, one.stores, one.observations) for one in projects]

        only = [("app", (first,), 1), ("none", (), 0), ("app/one", (first,), 1)]
        assert account(first) == account(first) == only
        assert account(first, second)[0] == ("app", (first, second), 2)
        writer.run("UPDATE observations SET project = 'app/one'")
        assert account(first) == [("app", (), 0), ("none", (), 0), ("app/one", (first,), 2)]


@pytest.mark.parametrize("table", ["observations", "session_summaries"])
@pytest.mark.parametrize("other", ["x/one", "one/y"])
@pytest.mark.parametrize("listed", [False, True])
def test_a_name_of_another_repository_counts_in_whichever_table_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, other: str, listed: bool
) -> None:
    """Sessions without observations have summaries, and news of before sessions had them none."""
    if listed:
        monkeypatch.setattr(module, "MAX_PROBES", -1)
    path = make_store(tmp_path / "s.db")
    add_observations(path, [{"project": name} for name in ("x/a", "app", "one")])
    add_summary(path, project="one")
    keys = make_keys("app", exact("one", bare=True))
    with open_pool() as pool:
        before = ask(path, keys=keys, pool=pool)
        assert [row.project for row in (*before.observations, *before.summaries)] == [
            *("one", "app"),
            "one",
        ]
        if table == "observations":
            add_observations(path, [{"project": other}])
        else:
            add_summary(path, project=other)
        after = ask(path, keys=keys, pool=pool)
        assert [row.project for row in (*after.observations, *after.summaries)] == ["app"]
