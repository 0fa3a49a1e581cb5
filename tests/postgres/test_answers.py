"""A team's rows beside the local ones: the same keys, the same filters, one list."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from claudemem_daemon.database_url import CREATE_INDEX
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.postgres import reader
from claudemem_daemon.stores.sql import Wanted
from tests.postgres.conftest import Machine, make_machine
from tests.support.daemon import Daemon, clean_environ, eventually, run_to_end
from tests.support.postgres import SCHEMA, Cluster, add_row
from tests.support.stores import add_observation

Admin = psycopg.Connection[Any]


@contextmanager
def made(folder: str, url: str) -> Iterator[tuple[Machine, Daemon]]:
    machine = make_machine(Path(folder), url)
    with Daemon(folder) as daemon:
        yield machine, daemon


def titles(answer: Any) -> list[str]:
    return [row["title"] for row in answer["observations"]]


def test_rows_of_both_kinds_of_store_are_one_list(machine: Machine, admin: Admin) -> None:
    add_row(admin, "shop", "Older", at="2001-01-01T00:00:00Z")
    add_row(admin, "shop/shop-cart", "Newer", at="2100-01-01T00:00:00Z")
    add_row(admin, "shop/gone", "Removed", at="2002-01-01T00:00:00Z")
    add_row(admin, "other", "Of another repository")
    add_row(admin, "shop", "Filtered", kind="no-such-type")
    add_row(admin, None, None, kind="manual")
    with Daemon(machine.home) as daemon:
        answer = machine.query(daemon)
        assert titles(answer) == ["Newer", "Local row", "Removed", "Older"]
        assert titles(machine.query(daemon, limit=2)) == ["Newer", "Local row"]
        assert [store["ok"] for store in answer["stores"]] == [True, True]
        again = machine.query(daemon)
        assert again == answer
        add_row(admin, "shop", "Just now", at="2101-01-01T00:00:00Z")
        assert titles(machine.query(daemon))[0] == "Just now"
    assert "Newer" in machine.context()


def test_ids_are_text_by_which_rows_are_shown(machine: Machine, admin: Admin) -> None:
    identity = add_row(
        admin, "shop", "A row in full", at="2100-01-01T00:00:00Z", narrative="All of it.",
        facts=["one", '"two"'],
    )  # fmt: skip
    summary = add_row(
        admin, "shop", None, kind="summary", at="2100-01-01T00:00:00Z", request="Fix the cart"
    )
    with Daemon(machine.home) as daemon:
        row = machine.query(daemon)["observations"][0]
        assert (row["id"], row["ref"]) == (identity, f"b:{identity[:8]}")
        shown = daemon.get(
            "/v1/observations",
            {"ids": f"{row['ref']},Sb:{summary[:8]},b:ffffffff", "cwd": str(machine.shop)},
        ).json()
        assert [(one["narrative"], one["facts"]) for one in shown["observations"]] == [
            ("All of it.", ["one", '"two"'])
        ]
        assert [one["request"] for one in shown["summaries"]] == ["Fix the cart"]
        assert shown["missing"] == ["b:ffffffff"]
        found = daemon.get("/v1/search", {"q": "narrative full", "cwd": str(machine.shop)}).json()
        assert not found["observations"]
        for words in ("row full", '"two'):
            found = daemon.get("/v1/search", {"q": words, "cwd": str(machine.shop)}).json()
            assert titles(found) == ["A row in full"]
        why = daemon.post("/v1/explain", {"cwd": str(machine.shop), "observation": row["ref"]})
        (fate,) = why.json()["observation"]
        assert (fate["ref"], fate["disposition"]) == (row["ref"], "included"), fate
        listed = daemon.get("/v1/projects", {"cwd": str(machine.shop)}).json()["projects"]
        assert ("shop", 1) in [(one["key"], one["rows"]) for one in listed]


def test_the_same_row_here_and_on_the_server_is_shown_once(machine: Machine, admin: Admin) -> None:
    same: dict[str, Any] = {"narrative": "It.", "facts": ["a", "b"], "subtitle": "s"}
    local = {**same, "title": "Twin", "facts": json.dumps(same["facts"], separators=(",", ":"))}
    store = machine.home / ".claude-mem" / "claude-mem.db"
    add_observation(
        store, project="shop", type="bugfix", created_at_epoch=4_102_444_800_000, **local
    )
    add_row(admin, "shop", "Twin", at="2100-01-01T00:00:00Z", **same)
    with Daemon(machine.home) as daemon:
        assert titles(machine.query(daemon)).count("Twin") == 1


def test_a_row_without_a_time_is_no_row(machine: Machine, admin: Admin) -> None:
    """It costs no other row, whatever is asked."""
    add_row(admin, "shop", "Dated", files_read=["/tmp/elsewhere/a.py"])
    for number, time in enumerate(("infinity", "-infinity", "294276-01-01")):
        add_row(
            admin, "shop", "Undated", identity=f"undated{number}", at=time, files_read=["/a.py"]
        )
        add_row(admin, "shop", None, identity=f"sundated{number}", kind="summary", at=time)
    with Daemon(machine.home) as daemon:
        answer = machine.query(daemon)
        assert (titles(answer), answer["warnings"]) == (["Dated", "Local row"], [])
        asked = {"cwd": str(machine.shop)}
        found = daemon.get("/v1/search", {"q": "undated dated", **asked}).json()
        assert (titles(found), found["warnings"]) == ([], [])
        found = daemon.get("/v1/search", {"q": "dated", **asked}).json()
        assert (titles(found), found["warnings"]) == (["Dated"], [])
        shown = daemon.get("/v1/observations", {"ids": "b:undated0,Sb:sundated1", **asked}).json()
        assert (titles(shown), shown["summaries"], shown["warnings"]) == ([], [], [])
        why = daemon.post("/v1/explain", asked).json()
        assert why["warnings"] == []
        listed = daemon.get("/v1/projects", asked).json()
        assert listed["warnings"] == []


def test_colleagues_news_comes_with_the_next_prompt_and_once(
    machine: Machine, cluster: Cluster, database: str, admin: Admin
) -> None:
    """Two machines, one server, one repository."""
    with (
        tempfile.TemporaryDirectory(prefix="cm-") as folder,
        Daemon(machine.home) as here,
        made(folder, cluster.url(database)) as (colleague, there),
    ):
        for side, daemon in ((machine, here), (colleague, there)):
            assert "Local row" in side.hook(daemon, "SessionStart", "s")
        for number in range(3):
            add_row(admin, "shop/shop-cart", f"News {number}", session="writer")
            for side, daemon in ((machine, here), (colleague, there)):
                told = side.hook(daemon, "UserPromptSubmit", "s")
                assert f"News {number}" in told
                assert f"News {number - 1}" not in told
                assert side.hook(daemon, "UserPromptSubmit", "s") == ""
        own = add_row(admin, "shop", "My own", session="s")
        assert own
        assert machine.hook(here, "UserPromptSubmit", "s") == ""


def test_many_rows_of_one_transaction_are_told_once_each(machine: Machine, admin: Admin) -> None:
    with Daemon(machine.home) as daemon:
        machine.hook(daemon, "SessionStart", "s")
        with admin.transaction():
            for number in range(120):
                add_row(admin, "shop", f"Batch {number:03}")
        told = ""
        for _ in range(20):
            told += machine.hook(daemon, "UserPromptSubmit", "s")
        for number in range(120):
            assert told.count(f"Batch {number:03}") == 1, number


@pytest.mark.parametrize("by_checkout", [False, True])
def test_a_database_is_named_by_the_user_never_by_a_checkout(
    machine: Machine, cluster: Cluster, database: str, admin: Admin, by_checkout: bool
) -> None:
    """Assistants put the `env` of a checkout's own settings into the environment of a hook."""
    add_row(admin, "shop", "Of the server")
    settings = machine.home / ".claude-mem" / "settings.json"
    settings.write_text('{"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 5000}')
    stores = {"CLAUDE_MEM_DAEMON_STORES": json.dumps({"*": cluster.url(database)})}
    if by_checkout:
        (machine.shop / ".claude").mkdir()
        (machine.shop / ".claude" / "settings.json").write_text(json.dumps({"env": stores}))
    with Daemon(machine.home) as daemon:
        answer = machine.query(daemon, env=stores)
        assert ("Of the server" in titles(answer)) != by_checkout
        assert [one["code"] for one in answer["warnings"]] == ["setting_of_checkout"] * by_checkout
    assert ("Of the server" in machine.context(**stores)) != by_checkout


def test_databases_that_services_name_are_all_asked(machine: Machine, cluster: Cluster) -> None:
    """Their URLs differ in nothing but the name of the service."""
    services, urls = "", []
    for name in ("one", "two"):
        database = f"of_service_{name}"
        cluster.create(database)
        with cluster.admin(database) as admin:
            admin.execute(SCHEMA)
            add_row(admin, "shop", f"Of {name}")
        place = f"host={cluster.socket_folder}\ndbname={database}\nuser=postgres"
        services += f"[{name}]\n{place}\n"
        urls.append(f"postgresql://?service={name}")
    (machine.home / ".pg_service.conf").write_text(services)
    stores = {"CLAUDE_MEM_DAEMON_STORES": json.dumps({"*": urls})}
    text = machine.context(**stores)
    assert "Of one" in text
    assert "Of two" in text
    assert "postgresql:///?service=two" in text


@pytest.mark.parametrize("indexed", [False, True])
def test_the_index_is_used_where_it_is(machine: Machine, admin: Admin, indexed: bool) -> None:
    if indexed:
        admin.execute(CREATE_INDEX)
    add_row(admin, "shop", "Row", at="2100-01-01T00:00:00Z")
    with Daemon(machine.home) as daemon:
        assert titles(machine.query(daemon))[0] == "Row"
        plan = daemon.post("/v1/explain", {"cwd": str(machine.shop)}).text
        assert ("Index Scan using observations_expr" in plan) == indexed


@pytest.mark.parametrize(
    ("key", "concepts"), [("shop", "gotcha"), ("shop", "*"), ("wh$1 '\"\\ {y}", "it's \\{$2}")]
)
def test_explain_shows_a_command_that_finds_the_row(
    machine: Machine, admin: Admin, key: str, concepts: str
) -> None:
    identity = add_row(admin, key, "Row", concepts=[concepts], at="2100-01-01T00:00:00Z")
    checkout = machine.shop.parent / key
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    name = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
    environ = clean_environ(machine.home, **{name: concepts})
    told = run_to_end(environ, "explain", "--verbose", cwd=checkout)
    assert told.returncode == 0, told.stderr
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("  psql ")]
    _, url, _, statement = shlex.split(line)
    with psycopg.connect(url) as connection:
        assert connection.execute(statement.encode()).fetchall()[0][0] == identity


def test_worktrees_of_other_machines_are_elsewhere(machine: Machine, admin: Admin) -> None:
    add_row(admin, "shop/theirs", "Of a colleague")
    add_row(admin, "shop/both", "Of both")
    add_observation(
        machine.home / ".claude-mem" / "claude-mem.db", project="shop/both", title="Old"
    )
    text = machine.context()
    assert "[theirs, elsewhere] Of a colleague" in text
    assert "[both, removed]" in text


def test_doctor_names_the_index_that_is_missing_where_rows_are_many(
    machine: Machine, admin: Admin
) -> None:
    def doctor() -> str:
        told = run_to_end(clean_environ(machine.home), "doctor", "--cwd", str(machine.shop))
        return " ".join(told.stdout.split())

    add_row(admin, "shop", "Row")
    assert "CREATE INDEX" not in doctor()
    admin.execute(
        "INSERT INTO observations (id, content) SELECT n, 'x' FROM generate_series(1, 20000) AS n"
    )
    admin.execute("ANALYZE observations")
    with Daemon(machine.home):
        assert CREATE_INDEX in doctor()
        admin.execute(CREATE_INDEX)
        assert "CREATE INDEX" not in doctor()


def test_the_grants_of_the_docs_are_enough(machine: Machine, admin: Admin) -> None:
    """The page's own statements, run as they stand."""
    page = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text(encoding="utf-8")
    statements = page.split("```sql\n")[1].split("```")[0].replace("reader", "reader_of_docs")
    for statement in filter(None, map(str.strip, statements.split(";"))):
        admin.execute(statement.encode())
    add_row(admin, "shop", "Row", at="2100-01-01T00:00:00Z")
    settings = machine.home / ".claude-mem" / "settings.json"
    settings.write_text(settings.read_text().replace("postgres@", "reader_of_docs@"))
    with Daemon(machine.home) as daemon:
        assert titles(machine.query(daemon))[0] == "Row"


def test_a_standby_is_asked_like_its_primary(home: Path) -> None:
    with Cluster() as primary:
        primary.create("team")
        with primary.admin("team") as admin:
            admin.execute(SCHEMA)
            add_row(admin, "shop", "First", at="2100-01-01T00:00:00Z")
            with Cluster(primary) as standby:
                machine = make_machine(home, standby.url("team"))
                with Daemon(home) as daemon:
                    assert titles(machine.query(daemon))[0] == "First"
                    add_row(admin, "shop", "Second", at="2101-01-01T00:00:00Z")
                    eventually(
                        lambda: titles(machine.query(daemon))[0] == "Second", "it is replayed"
                    )
                    assert machine.query(daemon)["warnings"] == []


def test_no_row_is_lost_where_more_are_found_than_ids_are_remembered(
    cluster: Cluster, database: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_IDS", 30)
    for number in range(80):
        add_row(admin, "shop", f"Row {number}", at=f"2100-01-01T00:00:{number % 60:02}Z")
    path, deadline = "postgresql://team", Deadline.after(5)
    ref = StoreRef(path, "the user's", url=cluster.url(database))
    with closing(StorePool()) as pool:
        for number in range(2):
            with pool.reading(ref, deadline) as reading:
                wanted = Wanted(("shop",), types=("bugfix", str(number)))
                with closing(reading.flow("observations", wanted, 80)) as flow:
                    found = list(flow)
                assert len(found) == 80
                rows = reading.rows("observations", found)
                assert {row.id for row in rows} == {row.id for row in found}
