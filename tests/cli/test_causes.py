"""A cause planted, named by the first command that a person would run, and its fix pasted."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.settings.observer import FILE
from tests.cases.world import World
from tests.cli.running import ours
from tests.support.daemon import clean_environ, command
from tests.support.stores import OtherProcess, add_observation, make_store, run_sql

TYPES = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"
CONCEPTS = "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS"
LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"


@pytest.fixture
def world(world: World) -> World:
    world.repository("app", "app-a")
    return world


def said(world: World, *words: str) -> str:
    done = ours(world, *words)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def plant_typo(world: World) -> str:
    for number in range(3):
        world.row("app", type="bugfix", title=f"fix {number}")
    world.settings({TYPES: "bugfx,feature"})
    return r"'bugfix' \(3 rows\): did you mean bugfix\? the list has bugfx"


def plant_colon(world: World) -> str:
    world.row("app", concepts=["gotcha: locks"])
    return r"'gotcha: locks' \(1 row\): did you mean gotcha\? .* suffix after the colon"


def plant_case(world: World) -> str:
    world.row("app", concepts=["how it works"])
    return r"'how it works' \(1 row\): did you mean how-it-works"


def mode(world: World) -> None:
    folder = world.data_dir / "modes"
    folder.mkdir(parents=True)
    shape = {"name": "Mail", "observation_types": [{"id": "entity"}, {"id": "evidence"}],
             "observation_concepts": [{"id": "how-it-works"}]}  # fmt: skip
    (folder / "mail.json").write_text(json.dumps(shape))


def plant_rows_of_another_mode(world: World) -> str:
    mode(world)
    world.row("app", type="entity")
    return r"'entity' \(1 row\): in the mode mail, but not in the list"


def plant_list_of_another_mode(world: World) -> str:
    mode(world)
    world.row("app", type="bugfix")
    world.settings({TYPES: "entity,evidence"})
    return r"'bugfix' .* in the mode code, .*; the list has entity, evidence of the mode mail"


def plant_filter(world: World) -> str:
    world.row("app", type="lunch")
    return rf"excludes all 1 row: {TYPES} leaves out types 'lunch' 1"


def plant_rename(world: World) -> str:
    (world.root / "app" / "src").mkdir()
    (world.root / "app" / "src" / "a.py").write_text("")
    old = world.root / "before"
    world.row("before", files_read=[str(old / "src" / "a.py")])
    world.row("before/tree", files_modified=["src/a.py"])
    return r"2 rows under the keys 'before', 'before/tree' look like this repository's"


def plant_rename_without_worktrees(world: World) -> str:
    """Half of the rows name no file."""
    world.git("worktree", "remove", world.root / "app-a", cwd=world.root / "app")
    (world.root / "app" / "src").mkdir()
    (world.root / "app" / "src" / "a.py").write_text("")
    world.row("before", files_read=[str(world.root / "before" / "src" / "a.py")])
    world.row("before")
    world.row("before/tree")
    return r"3 rows under the keys 'before', 'before/tree' look like this repository's"


def plant_rename_with_worktrees(world: World) -> str:
    """No row names a file."""
    world.row("before")
    world.row("before/app-a")
    return r"2 rows under the keys 'before', 'before/app-a' .*'app-a' is the name of a worktree"


def plant_blanks(world: World) -> str:
    world.row("app", type="bugfix ")
    return (
        r"'bugfix ' \(1 row\): did you mean bugfix\? the rows have it in other case or with blanks"
    )


def plant_concepts_that_are_no_list(world: World) -> str:
    run_sql(
        world.store, f"UPDATE observations SET concepts = 'gotcha' WHERE id = {world.row('app')}"
    )
    return r"excludes all 1 row: their concepts are not a JSON list"


def plant_case_of_the_folder(world: World) -> str:
    world.row("App")
    return r"1 row under the key 'App' looks like this repository's"


def plant_data_dir(world: World) -> str:
    world.row("app")
    world.settings({"CLAUDE_MEM_DATA_DIR": str(world.root / "elsewhere")})
    return r"no store at .*/elsewhere/claude-mem.db .*, but there is .*/.claude-mem/claude-mem.db"


def plant_data_dir_of_another(world: World) -> str:
    world.row("app")
    other = make_store(world.root / "elsewhere" / "claude-mem.db")
    add_observation(other, project="other")
    world.settings({"CLAUDE_MEM_DATA_DIR": str(world.root / "elsewhere")})
    return (
        r"no row of this repository at .*/elsewhere/claude-mem.db \(CLAUDE_MEM_DATA_DIR in .*some"
    )


def plant_own_list_of_another_mode(world: World) -> str:
    mode(world)
    world.row("app", type="entity")
    world.settings({"CLAUDE_MEM_MODE": "mail", TYPES: "entity,bugfix"})
    return r"mode mail has no 'bugfix'; left out"


def plant_wrong_value(world: World) -> str:
    world.row("app")
    world.settings({LIMIT: "many"})
    return r"CLAUDE_MEM_CONTEXT_OBSERVATIONS = 'many' in .* is ignored"


def plant_limit(world: World) -> str:
    world.row("app")
    world.settings({LIMIT: 0})
    return rf"the limit is 0 \({LIMIT} in .*settings.json\)"


def plant_exclusion(world: World) -> str:
    world.row("app")
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "other,app"})
    return r"/app is excluded by CLAUDE_MEM_EXCLUDED_PROJECTS in .*settings.json, pattern 'app'"


def plant_untrusted(world: World) -> str:
    own = make_store(world.root / "app" / ".claude-mem" / "claude-mem.db")
    add_observation(own, project="app")
    return r"claude-mem.db waits: .*read only after"


def plant_misnamed(world: World) -> str:
    world.row("app", type="lunch")
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATION_TYPE": "lunch"})
    return rf"CLAUDE_MEM_CONTEXT_OBSERVATION_TYPE is not a setting; did you mean {TYPES}\?"


def plant_damage(world: World) -> str:
    world.row("app", narrative="x" * 20_000)
    run_sql(world.store, "PRAGMA wal_checkpoint(truncate)")
    data = bytearray(Path(world.store).read_bytes())
    ((root,),) = run_sql(
        world.store, "SELECT rootpage FROM sqlite_schema WHERE name = 'observations'"
    )
    data[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    Path(world.store).write_bytes(data)
    return r"claude-mem.db: damaged"


def test_a_key_that_may_be_an_older_name_is_offered(world: World) -> None:
    """Nothing in the store says that the folder was renamed."""
    world.git("worktree", "remove", world.root / "app-a", cwd=world.root / "app")
    world.row("before", title="of the older name")
    assert "(claudemem-daemon projects)" in said(world, "context")
    found = re.search(r'settings.json: "CLAUDE_MEM_DAEMON_ALIASES": (.*)', said(world, "projects"))
    assert found is not None
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": json.loads(found[1])})
    assert "of the older name" in said(world, "context")


def test_a_broken_link_is_named_by_status_too(world: World) -> None:
    (world.root / "app-a" / ".git").write_text("gitdir: /nowhere/.git/worktrees/app-a\n")
    for words in ("context", "status", "doctor"):
        done = ours(world, words, cwd=world.root / "app-a")
        assert "git worktree repair" in done.stdout + done.stderr, words


def test_a_settings_file_that_is_a_folder_is_put_aside(world: World) -> None:
    world.row("app")
    world.settings_path.mkdir()
    fix = re.search(r"fix: (mv .*)", said(world, "context"))
    assert fix is not None
    subprocess.run(["sh", "-c", fix[1]], check=True)
    assert "fix:" not in said(world, "context")


PLANTED: dict[str, tuple[Callable[[World], str], int]] = {
    "typo": (plant_typo, 3),
    "colon": (plant_colon, 1),
    "case": (plant_case, 1),
    "rows of another mode": (plant_rows_of_another_mode, 1),
    "list of another mode": (plant_list_of_another_mode, 1),
    "filter": (plant_filter, 1),
    "rename": (plant_rename, 2),
    "rename without worktrees": (plant_rename_without_worktrees, 3),
    "rename with worktrees": (plant_rename_with_worktrees, 2),
    "blanks": (plant_blanks, 1),
    "concepts that are no list": (plant_concepts_that_are_no_list, 1),
    "other case": (plant_case_of_the_folder, 1),
    "data dir": (plant_data_dir, 1),
    "data dir of another": (plant_data_dir_of_another, 1),
    "own list of another mode": (plant_own_list_of_another_mode, 1),
    "wrong value": (plant_wrong_value, 1),
    "limit": (plant_limit, 1),
    "exclusion": (plant_exclusion, 1),
    "untrusted": (plant_untrusted, 1),
    "misnamed": (plant_misnamed, 1),
}


def paste(world: World, fix: str) -> None:
    """Do what a fix says, as a person would."""
    setting = re.fullmatch(r"put (\".*) into (/.*)", fix)
    if setting is None:
        program = str(Path(command()[0]).parent)
        environ = clean_environ(world.home)
        environ["PATH"] = f"{program}:{environ['PATH']}"
        subprocess.run(["sh", "-ec", fix], env=environ, cwd=world.root / "app", check=True)
        return
    path = Path(setting[2])
    before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **json.loads("{" + setting[1] + "}")}))


def symptoms() -> Iterator[re.Pattern[str]]:
    """What docs/troubleshooting.md quotes."""
    path = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
    for quoted in re.findall(r"^\| `([^`]+)` \|", path.read_text(encoding="utf-8"), re.M):
        yield re.compile(".*".join(map(re.escape, quoted.split("..."))))


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("running", [True, False])
def test_a_cause_is_named_and_its_fix_works(world: World, name: str, *, running: bool) -> None:
    plant, rows = PLANTED[name]
    cause = re.compile(plant(world))
    if not running:
        assert world.daemon.stop() == 0
    texts = {asked: said(world, asked) for asked in ("context", "status", "doctor", "explain")}
    for asked, text in texts.items():
        assert cause.search(text), (asked, text)
    shape = json.loads(ours(world, "explain", "--json").stdout)
    (named,) = [one for one in shape["causes"] if cause.search(one["sentence"])]
    assert any(symptom.search(named["sentence"]) for symptom in symptoms())
    status = json.loads(ours(world, "status", "--json").stdout)
    assert named in status["here"]["causes"]
    assert f"fix: {named['fix']}" in texts["doctor"]
    assert re.search(rf"(fix|next): {re.escape(named['fix'])}\n", texts["status"])
    paste(world, named["fix"])
    done = ours(world, "query", "--json")
    assert len(json.loads(done.stdout)["observations"]) == rows, done.stderr
    left = json.loads(ours(world, "explain", "--json").stdout)
    assert not [one for one in left["causes"] if cause.search(one["sentence"])]


def test_a_locked_store_is_named(world: World) -> None:
    world.row("app")
    with OtherProcess(world.store) as writer:
        writer.run("PRAGMA journal_mode = delete")
        writer.run("BEGIN EXCLUSIVE")
        for asked in (("context",), ("status",), ("doctor",), ("explain",)):
            text = said(world, *asked)
            assert f"{world.store}: locked by another process" in text, (asked, text)
            assert re.search(rf"(fix|next): fuser -v {re.escape(world.store)}\n", text)


def test_a_damaged_store_is_named(world: World) -> None:
    cause = plant_damage(world)
    for asked in (("context",), ("status",), ("doctor",), ("explain",)):
        text = said(world, *asked)
        assert re.search(cause, text), (asked, text)
        fix = f"mv {world.store} {world.store}.damaged && sqlite3 "
        assert re.search(f"(fix|next): {re.escape(fix)}", text)
    if shutil.which("sqlite3"):
        shape = json.loads(ours(world, "explain", "--json").stdout)
        paste(world, shape["causes"][0]["fix"])
        assert json.loads(ours(world, "query", "--json").stdout)["warnings"] == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DROP TABLE session_summaries", "session_summaries cannot be read: a view in its place"),
        ("PRAGMA writable_schema = 1", "a part cannot be read: malformed database schema"),
    ],
)
def test_a_broken_table_is_named_and_rows_are_shown(world: World, change: str, told: str) -> None:
    world.row("app", title="of the whole table")
    with closing(sqlite3.connect(world.store)) as db:
        db.execute(change)
        if change.startswith("DROP"):
            db.execute("CREATE VIEW session_summaries AS SELECT * FROM nowhere")
            fix = f"sqlite3 {world.store} .schema"
        else:
            db.execute(
                "INSERT INTO sqlite_schema VALUES ('trigger', 't', 't', 0, 'CREATE TRIGGER t AFTER')"
            )
            fix = f"mv {world.store} {world.store}.damaged && sqlite3 "
        db.commit()
    assert "of the whole table" in said(world, "context")
    for asked in ("context", "status", "doctor", "explain"):
        text = said(world, asked)
        assert f"{world.store}: {told}" in text, (asked, text)
        assert asked == "context" or re.search(f"(fix|next): {re.escape(fix)}", text), asked


def test_an_observer_that_fails_is_named(world: World) -> None:
    """claude-mem's own record of it; its next save ends the warning."""
    world.row("app")
    record = world.data_dir / FILE
    failing = {"consecutiveFailures": 9, "lastErrorAt": 1_767_225_600_000, "lastSuccessAt": 0,
               "lastErrorMessage": "401 bad key"}  # fmt: skip
    record.write_text(json.dumps(failing))
    for asked in (("context",), ("status",), ("doctor",), ("explain",)):
        text = said(world, *asked)
        assert "claude-mem's observer has failed again and again" in text, (asked, text)
        assert "401 bad key" in text
    assert "warning  settings: memory is not being saved" in said(world, "doctor")
    record.write_text(json.dumps({**failing, "lastSuccessAt": 1_767_225_600_001}))
    assert "observer" not in said(world, "doctor")


def test_status_ends_in_one_next_command(world: World) -> None:
    """Also where all is well."""
    world.row("app")
    for stop in (False, True):
        if stop:
            assert world.daemon.stop() == 0
        last = ours(world, "status").stdout.splitlines()[-1]
        assert last.startswith("next: claudemem-daemon ")
    world.settings({LIMIT: 0})
    assert ours(world, "status").stdout.splitlines()[-1].startswith("next: claudemem-daemon ")


def test_a_hook_that_failed_is_told_in_the_same_words(world: World) -> None:
    log = Path(world.daemon.state_dir) / "hook.log"
    log.write_text(f"{int(time.time()) - 200}\tcodex\tdeadline\t1.5 s\n")
    for words in ("status", "doctor"):
        text = said(world, words)
        assert "1 hook failed in the last day, the newest 3 min ago: codex deadline 1.5 s" in text


def test_a_hook_answered_in_process_did_not_fail(world: World) -> None:
    world.row("app")
    assert world.daemon.stop() == 0
    call = {"session_id": "s", "cwd": str(world.root / "app"), "hook_event_name": "SessionStart",
            "source": "startup"}  # fmt: skip
    done = subprocess.run(
        [*command(), "hook", "claude-code"], input=json.dumps(call), text=True,
        env=clean_environ(world.home), capture_output=True, check=True,
    )  # fmt: skip
    assert "Observation" in done.stdout
    assert json.loads(ours(world, "status", "--json").stdout)["hook_failures"] == []
    assert "hook log: no hook failed" in ours(world, "doctor").stdout


@pytest.mark.parametrize("scope", ["self", "parent"])
def test_rows_of_other_worktrees_are_memory(world: World, scope: str) -> None:
    folder = world.root / "app"
    world.git("worktree", "add", "-q", world.root / "wt", cwd=folder)
    world.row("app/wt", title="beside")
    world.settings({"CLAUDE_MEM_DAEMON_SCOPE": scope})
    assert f"no memory in scope {scope}" in said(world, "context")
    for asked in ("status", "explain"):
        told = said(world, asked)
        assert f"no row of app in scope {scope} in the stores that were read" in told
        assert "1 row of its other worktrees or other projects" in told
        assert "no memory yet" not in told
    # Projects that are asked for by name have no worktrees.
    for asked in ("context", "explain"):
        assert "no memory yet" in said(world, asked, "--projects", "zz")
    world.settings({})
    assert "beside" in said(world, "context")


def test_what_leaves_rows_out_is_named(world: World) -> None:
    """By the key that decides, or as the request."""
    own = "CLAUDE_MEM_DAEMON_OBSERVATION_TYPES"
    world.settings({TYPES: "lunch", own: "feature"})
    path = world.home / ".claude-mem" / "settings.json"
    asked = (((), own), (("--types", "feature"), "the request"))
    world.row("app", type="lunch")
    assert f"types feature ({own} in {path})" in said(world, "context")
    for words, name in asked:
        told = " ".join(said(world, "explain", *words).split())
        assert f"{name} leaves out types 'lunch' 1" in told
    world.row("app", type="discovery")
    for words, name in asked:
        assert f"types left out by {name}: 'discovery'" in said(world, "explain", *words)


def test_the_size_is_said_to_cut_where_it_does(world: World) -> None:
    for number in range(3):
        world.row("app", title=f"row {number}")
    world.settings({"CLAUDE_MEM_DAEMON_CONTEXT_CHARS": 50})
    told = said(world, "explain")
    assert "the size cuts here" in told
    assert "the limit" not in told.replace("the limit or the size", "")
