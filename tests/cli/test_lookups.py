"""`show`, `search`, `projects`: the same from the command line, over HTTP and without a daemon."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases.world import World, new_world
from tests.cli.running import ours
from tests.support.daemon import Daemon
from tests.support.stores import (
    GENERATIONS,
    Generation,
    add_observation,
    add_summary,
    make_store,
    run_sql,
)

FTS = (
    "CREATE VIRTUAL TABLE observations_fts USING fts5(title, subtitle, narrative, text, facts,"
    " concepts, content='observations', content_rowid='id')"
)


def index(store: str) -> None:
    """claude-mem's own full-text index, filled from the rows that are there."""
    if not run_sql(store, "SELECT 1 FROM sqlite_schema WHERE name = 'observations_fts'"):
        run_sql(store, FTS)
    run_sql(store, "INSERT INTO observations_fts(observations_fts) VALUES ('rebuild')")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A repository with rows in two stores; another repository's rows beside them."""
    with new_world(tmp_path_factory.mktemp("lookups")) as made:
        made.repository("app", "app-a")
        made.row("app", title="Locks are taken in order", narrative="first the table")
        made.row("app/app-a", title="Unlocking is lazy", facts=['say "100%" of it'])
        made.row("app/app-gone", title="of a removed worktree")
        made.row("other", title="Locks of another project")
        made.summary("app/app-gone", request="what was asked", learned="what was learned")
        second = make_store(made.root / "second" / "claude-mem.db")
        add_observation(second, project="app", title="Locks in the second store", id=1)
        add_summary(second, project="app", request="asked of the second", id=1)
        made.settings({"CLAUDE_MEM_DAEMON_STORES": {"*": [second]}})
        index(made.store)
        yield made


def get(world: World, route: str, **parameters: str) -> dict[str, Any]:
    answer = world.daemon.get(route, {"cwd": str(world.root / "app"), **parameters})
    assert answer.status == 200, answer.body
    shape: dict[str, Any] = answer.json()
    return shape


@contextlib.contextmanager
def set_to(world: World, **values: Any) -> Iterator[None]:
    before = world.settings_path.read_text()
    world.settings({**json.loads(before), **values})
    try:
        yield
    finally:
        world.settings(before)


def refs(shape: dict[str, Any]) -> list[str]:
    return [row["ref"] for row in (*shape["observations"], *shape.get("summaries", ()))]


def test_what_query_prints_can_be_shown(world: World) -> None:
    everything = world.query(world.root / "app")
    printed = refs(everything)
    assert sorted(printed) == ["1", "2", "3", "S1", "Sb1", "b1"]
    shown = get(world, "/v1/observations", ids=",".join(printed))
    assert (shown["missing"], shown["warnings"]) == ([], [])
    assert shown["observations"] == everything["observations"]
    assert shown["summaries"] == everything["summaries"]
    asked = ours(world, "show", *printed, "--json")
    assert json.loads(asked.stdout) == shown
    assert asked.returncode == 0


def test_context_and_query_print_those_ids(world: World) -> None:
    text = world.context(world.root / "app")
    table = ours(world, "query").stdout
    for ref in ("1", "2", "3", "b1"):
        assert f"\n{ref} " in text
        assert f"\n{ref} " in table
    assert "\nSb1 " in text


def test_a_row_is_shown_whole_and_inert(world: World) -> None:
    row = world.row(
        "app", title="\x1b[31mred", subtitle="s", narrative="long " * 400 + "end",
        files_read=["a/b.py"],
    )  # fmt: skip
    try:
        done = ours(world, "show", str(row), "Sb1")
    finally:
        run_sql(world.store, f"DELETE FROM observations WHERE id = {row}")
    assert "end" in done.stdout
    assert "a/b.py" in done.stdout
    assert "asked of the second" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("asked", ["4", "99", "b2", "c1", "S9"])
def test_an_id_of_nobody_here_is_missing(world: World, asked: str) -> None:
    """Also the other repository's row."""
    shape = get(world, "/v1/observations", ids=f"{asked},1")
    assert (refs(shape), shape["missing"]) == (["1"], [asked])
    done = ours(world, "show", asked)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"`claudemem-daemon explain {asked}` says why" in done.stderr
    by_name = ours(world, "show", asked, "--projects", "app,a b")
    assert f"`claudemem-daemon explain --projects 'app,a b' {asked}` says why" in by_name.stderr


@pytest.mark.parametrize("asked", ["", "x", "1,-2", "s", "S", "12b", "1" * 40, "é1"])
def test_what_is_no_id_is_refused(world: World, asked: str) -> None:
    answer = world.daemon.get("/v1/observations", {"cwd": "/", "ids": asked})
    assert (answer.status, answer.error) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("words", "found", "how"),
    [
        ("locks", ["b1", "1"], "fts5, like"),
        ("lock", ["b1", "1"], "fts5, like"),
        ("locks order", ["1"], "fts5, like"),
        ("table first", ["1"], "fts5, like"),
        ("100%", ["2"], "fts5, like"),
        ("nowhere", [], "fts5, like"),
        ("locking", ["2"], "like"),
    ],
)
def test_search_finds_rows_with_every_word(
    world: World, words: str, found: list[str], how: str
) -> None:
    shape = get(world, "/v1/search", q=words)
    assert (refs(shape), shape["how"], shape["warnings"]) == (found, how, [])
    asked = ours(world, "search", *words.split(), "--json")
    assert json.loads(asked.stdout) == shape
    assert ours(world, "search", words).returncode == 0


def test_search_says_where_its_limit_may_hide_rows(world: World) -> None:
    for limit, told in (("1", "the newest 1 row that holds"), ("9", "2 rows hold")):
        assert told in ours(world, "search", "locks", "--limit", limit).stderr


def test_search_has_a_limit_a_scope_and_a_time(world: World) -> None:
    assert refs(get(world, "/v1/search", q="o", limit="2")) == ["3", "2"]
    assert refs(get(world, "/v1/search", q="a removed", scope="self")) == []
    new = world.row("app", title="Locks now", created_at_epoch=int(time.time() * 1000) - 60_000)
    index(world.store)
    try:
        for since in ("2d", "1h", "2026-03-01"):
            assert refs(get(world, "/v1/search", q="locks", since=since)) == [str(new)]
        assert refs(get(world, "/v1/search", q="locks", since="5s")) == []
    finally:
        run_sql(world.store, f"DELETE FROM observations WHERE id = {new}")
        index(world.store)
    answer = world.daemon.get("/v1/search", {"cwd": "/", "q": "x", "since": "soon"})
    assert (answer.status, answer.error) == (400, "invalid_request")
    assert "2d" in answer.json()["error"]["message"]


def test_a_time_that_only_created_at_has_is_the_same_in_all_that_is_shown(
    world: World, tmp_path: Path
) -> None:
    """And its zone is named."""
    store = make_store(tmp_path / "times" / "claude-mem.db")
    timeless = {"project": "dateless", "created_at": "2026-02-03T04:05:06Z", "created_at_epoch": 0}
    add_observation(store, title="dateless row", **timeless)
    add_summary(store, learned="dateless session", **timeless)
    with set_to(world, CLAUDE_MEM_DAEMON_STORES={"*": [store]}):
        here = ["--projects", "dateless"]
        context = ours(world, "context", *here).stdout
        assert "times in UTC;" in context
        assert "## Last session, 2026-02-03 04:05" in context
        assert "## 2026-02-03\n" in context
        for command in (["query"], ["search", "dateless"], ["show", "b1"], ["show", "Sb1"],
                        ["explain", "b1"]):  # fmt: skip
            assert "2026-02-03 04:05" in ours(world, *command, *here).stdout, command
        days = ours(world, "explain", *here).stdout.partition("by day")[2]
        assert "2026-02-03" in days
        assert "undated" not in days


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no "),
        (["--since", "1h"], "with --since 1h, no "),
        (["--limit", "0"], "with --limit 0, no "),
        (["--since", "1h", "--limit", "0"], "with --since 1h --limit 0, no "),
        (["--projects", "of nobody", "--limit", "5"], "with --projects 'of nobody', no "),
    ],
)
def test_what_finds_nothing_says_what_was_left_out(
    world: World, options: list[str], said: str
) -> None:
    """Case misleading-no-memory-message: there are rows, but older ones."""
    word = "nowhere" if not options else "locks"
    done = ours(world, "search", word, *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{said}row of this repository holds {word!r}\n"
    if "--projects" in options or not options:
        return  # all keys of the stores are listed
    told = ours(world, "projects", *options).stdout
    assert told == f"{said}project key in the stores here\n"


TOKYO = "Asia/Tokyo"


def test_times_are_in_the_zone_of_who_asks_with_a_daemon_and_without(
    world: World, tmp_path: Path
) -> None:
    """A shell's TZ is often another than the service's, which knows the system's alone."""
    store = make_store(tmp_path / "zones" / "claude-mem.db")
    early = int(datetime(2026, 3, 2, 18, tzinfo=UTC).timestamp() * 1000)  # 3 March, 03:00 in Tokyo
    add_observation(store, project="zoned", title="early row", created_at_epoch=early)
    here = ["--projects", "zoned"]
    with set_to(world, CLAUDE_MEM_DAEMON_STORES={"*": [store]}):
        for socket in ("", str(tmp_path / "none.sock")):
            asked = partial(ours, world, CLAUDEMEM_DAEMON_SOCKET=socket)
            context = asked("context", *here, TZ=TOKYO).stdout
            assert "times in Asia/Tokyo (UTC+09:00)" in context
            assert "## 2026-03-03\nb1 03:00 " in context
            days = asked("explain", *here, TZ=TOKYO).stdout.partition("by day")[2]
            assert "2026-03-03" in days
            for since, zone, found in (
                ("2026-03-03", TOKYO, ["b1"]),
                ("2026-03-03T03:00:01", TOKYO, []),
                ("2026-03-03T03:00:00Z", TOKYO, []),
                ("2026-03-03", "", []),
                ("2026-03-03", "/etc/hostname", []),
                ("2026-03-02T18:00", "UTC", ["b1"]),
            ):
                search = ["search", "early", "--since", since, "--json", *here]
                assert refs(json.loads(asked(*search, TZ=zone).stdout)) == found
                projects = ["projects", "--since", since, "--json", *here]
                shape = json.loads(asked(*projects, TZ=zone).stdout)
                assert ("zoned" in {one["key"] for one in shape["projects"]}) is bool(found)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.text(st.sampled_from("ab\"'*():^-+{}%_\\\0 \n.NEARORé漢😀\ud800"), min_size=1, max_size=30)
)
def test_no_words_are_syntax(world: World, words: str) -> None:
    answer = world.daemon.get(
        "/v1/search", {"cwd": str(world.root / "app"), "q": words.encode("utf-8", "surrogatepass")}
    )
    assert answer.status == (200 if words.replace("\0", " ").strip() else answer.status)
    assert answer.status in (200, 400)
    if answer.status == 200:
        assert answer.json()["warnings"] == []


def test_a_word_is_found_in_a_list_that_has_it_escaped(world: World, tmp_path: Path) -> None:
    store = make_store(tmp_path / "lists" / "claude-mem.db")
    add_observation(store, project="app", facts=json.dumps(["it is in C:\\app, 'or' \"not\""]))
    with set_to(world, CLAUDE_MEM_DAEMON_STORES={"*": [store]}):
        for word in ('"not"', "c:\\APP"):
            assert refs(get(world, "/v1/search", q=word)) == ["b1"]


@pytest.mark.parametrize("words", ['"', "[", ",", '",', '["', "table ["])
def test_signs_are_found_where_a_person_sees_them(world: World, tmp_path: Path, words: str) -> None:
    """Not in the JSON of every list; with an index of the store and without one."""
    store = make_store(tmp_path / "signs" / "claude-mem.db")
    add_observation(store, project="app", title=f"a table with {words} in it")
    add_observation(store, project="app", title="none table", facts=json.dumps(["a", "b"]))
    with set_to(world, CLAUDE_MEM_DAEMON_STORES={"*": [store]}):
        for _ in range(2):
            shape = get(world, "/v1/search", q=words)
            assert ("b1" in refs(shape), "b2" in refs(shape)) == (True, False)
            index(store)


@pytest.mark.parametrize(("missing", "how"), [(1, "fts5"), (3_000, "like")])
def test_rows_that_an_index_lacks_are_found(tmp_path: Path, missing: int, how: str) -> None:
    """Written by an import, or before the index had triggers."""
    with new_world(tmp_path) as world:
        world.repository("app")
        indexed = world.row("app", title="a lock in the index")
        index(world.store)
        run_sql(
            world.store,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            f" WHERE i < {missing}) INSERT INTO observations (memory_session_id, project, type,"
            " title, created_at, created_at_epoch)"
            " SELECT 's', 'app', 'change', CASE i WHEN 1 THEN 'a lock beside it' ELSE 'hay' END,"
            " '', 1867225600000 - i FROM n",
        )
        shape = get(world, "/v1/search", q="lock")
        assert refs(shape) == [str(indexed + 1), str(indexed)]
        assert (shape["how"], shape["warnings"]) == (how, [])


@pytest.mark.parametrize("damage", ["strange", "broken"])
def test_an_index_that_cannot_be_read_is_done_without(tmp_path: Path, damage: str) -> None:
    with new_world(tmp_path) as world:
        world.repository("app")
        world.row("app", title="words to find")
        if damage == "strange":
            run_sql(world.store, "CREATE TABLE observations_fts (rowid INTEGER, x)")
        else:
            index(world.store)
            run_sql(world.store, "UPDATE observations_fts_data SET block = x'00'")
        shape = get(world, "/v1/search", q="find")
        assert (refs(shape), shape["how"]) == (["1"], "like")


def test_an_excluded_project_gives_nothing(world: World) -> None:
    with set_to(world, CLAUDE_MEM_EXCLUDED_PROJECTS="app"):
        assert get(world, "/v1/search", q="locks")["observations"] == []
        assert get(world, "/v1/observations", ids="1,b1")["missing"] == ["1", "b1"]
        assert get(world, "/v1/projects")["projects"] == []
    with set_to(world, CLAUDE_MEM_EXCLUDED_PROJECTS="app-a,other"):
        assert get(world, "/v1/observations", ids="2")["missing"] == ["2"]
        assert get(world, "/v1/search", q="unlocking")["observations"] == []
        keys = [one["key"] for one in get(world, "/v1/projects")["projects"]]
        assert "app" in keys
        assert not {"other", "app/app-a"} & set(keys)


def test_an_untrusted_store_gives_nothing(world: World) -> None:
    own = make_store(world.root / "app" / ".claude-mem" / "claude-mem.db")
    add_observation(own, project="app", title="Locks planted")
    try:
        for route in ("/v1/search", "/v1/projects", "/v1/observations"):
            shape = get(world, route, q="planted", ids="b1")
            assert "store_untrusted" in [one["code"] for one in shape["warnings"]]
            assert "planted" not in json.dumps(shape.get("observations"))
            assert own not in json.dumps(shape.get("projects"))
    finally:
        Path(own).unlink()


def test_projects_are_ours_or_look_like_it_or_are_others(world: World) -> None:
    (world.root / "app" / "src").mkdir()
    (world.root / "app" / "src" / "a.py").write_text("")
    before = world.root / "before" / "src" / "a.py"
    rows = [
        world.row("before", files_read=[str(before)]),
        world.row("before/tree", files_read=["src/a.py"]),
        world.row("APP/x", files_read=[]),
        world.row("elsewhere", files_read=["README.md", "/w/x/y.py"]),
    ]
    try:
        shape = get(world, "/v1/projects")
        asked = ours(world, "projects", "--json")
        told = ours(world, "projects")
        assert world.query(world.root / "app")["observations"][0]["id"] != rows[0]
        found = {(one["key"], Path(one["store"]).parent.name): one for one in shape["projects"]}
        ours_now = {key for (key, _), one in found.items() if one["ours"]}
        alike = {key: one["resembles"] for (key, _), one in found.items() if one["resembles"]}
        assert ours_now == {"app", "app/app-a", "app/app-gone"}
        assert alike == {"before": "app", "before/tree": "app", "APP/x": "app"}
        assert (found["app", "second"]["rows"], found["other", ".claude-mem"]["rows"]) == (1, 1)
        assert json.loads(asked.stdout) == shape
        assert '"CLAUDE_MEM_DAEMON_ALIASES": {"app": ["before"]}' in told.stdout
        # The advice works as it is written.
        for line in {one["alias"] for one in shape["projects"] if one["alias"]}:
            with set_to(world, **json.loads("{" + line + "}")):
                now = get(world, "/v1/projects")["projects"]
                older = json.loads("{" + line + "}")["CLAUDE_MEM_DAEMON_ALIASES"]["app"][0]
                assert all(p["ours"] for p in now if p["key"].partition("/")[0] == older)
    finally:
        run_sql(world.store, f"DELETE FROM observations WHERE id >= {rows[0]}")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_store_of_any_release_answers_every_command(
    tmp_path: Path, generation: Generation
) -> None:
    home = tmp_path / "home"
    store = make_store(home / ".claude-mem" / "claude-mem.db", generation)
    add_observation(store, project="app", title="Of ours", type="bugfix")
    other = add_observation(store, project="other", title="Of another", type="bugfix")
    with Daemon(home) as daemon:
        made = World(home, tmp_path, daemon)
        made.repository("app")
        shape = get(made, "/v1/projects")
        assert [(one["key"], one["rows"]) for one in shape["projects"]] == [
            ("app", 1),
            ("other", 1),
        ]
        told = ours(made, "explain", str(other)).stdout
        assert "other_project" in told
        assert "2026-01-01" in told, "the date of a row that is not ours too"
        for command in (["context"], ["query"], ["explain"], ["show", "1"], ["search", "ours"],
                        ["projects"], ["worktrees"], ["status"]):  # fmt: skip
            done = ours(made, *command)
            assert (done.returncode, "cannot" in done.stdout + done.stderr) == (0, False), command


def test_without_a_daemon_the_answers_are_the_same(world: World) -> None:
    asked = (["show", "1", "b1", "S1", "--json"], ["search", "locks", "--json"],
             ["projects", "--json"], ["projects"], ["show", "b1"])  # fmt: skip
    within = [ours(world, *one).stdout for one in asked]
    without = [
        ours(world, *one, CLAUDEMEM_DAEMON_HOME=str(world.root / "no-daemon")) for one in asked
    ]
    assert [one.stdout for one in without] == within
    assert [one.stderr for one in without] == [""] * len(asked)


def test_a_big_store_is_searched_inside_the_deadline(world: World, tmp_path: Path) -> None:
    """What is found in time is the newest, and the rest is said to be missing."""
    store = make_store(tmp_path / "big" / "claude-mem.db")
    with contextlib.closing(sqlite3.connect(store)) as db:
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)"
            " INSERT INTO observations (id, memory_session_id, project, type, title, narrative,"
            " created_at, created_at_epoch)"
            " SELECT i, 's', 'app', 'change', CASE i % 10000 WHEN 0 THEN 'needle' ELSE 'hay' END,"
            " hex(zeroblob(2000)), '', 1767225600000 + i FROM n"
        )
        db.commit()
    with set_to(world, CLAUDE_MEM_DAEMON_STORES={"*": [store]}, CLAUDE_MEM_DAEMON_TIMEOUT_MS=300):
        shape = get(world, "/v1/search", q="needle")
        found = [row["id"] for row in shape["observations"]]
        assert found == [30000, 20000, 10000][: len(found)]
        assert len(found) == 3 or [one["code"] for one in shape["warnings"]] == ["deadline"]
