"""The command line as a user runs it: with a daemon, without one, and with one that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import click
import pytest

from claudemem_daemon.cli.ask import ask
from claudemem_daemon.cli.main import COMMANDS
from claudemem_daemon.cli.options import cwd_option
from claudemem_daemon.client import Client, Unreachable
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import file_state
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from tests.cases.world import World
from tests.cli.running import ours
from tests.support.daemon import clean_environ, command, eventually, run_to_end
from tests.support.stores import add_observation, make_store, run_sql

ANSI = re.compile("\x1b")


@pytest.fixture
def world(world: World) -> World:
    world.repository("app", "app-a")
    world.row("app", title="of main")
    world.row("app/app-a", title="of a")
    world.row("app/app-gone", title="of a removed one")
    return world


def test_every_command_has_help_and_the_help_answers_at_once(world: World) -> None:
    done = ours(world, "--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", done.stdout, re.M)
        shown = ours(world, name, "--help")
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.startswith("Usage: claudemem-daemon")
        assert max(map(len, shown.stdout.splitlines())) <= 80
    # Each command in one line, none cut off.
    lines = done.stdout.split("\nSet up:\n")[1].splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)
    assert "..." not in ours(world, "hooks", "--help").stdout.split("Commands:")[1]


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["query", "--limit", "-1"], ["hooks", "install"]]
)
def test_wrong_usage_exits_2(world: World, arguments: list[str]) -> None:
    done = ours(world, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_raw_has_no_file_and_the_way_out_is_named(world: World, verb: str) -> None:
    done = ours(world, "hooks", verb, "raw")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`claudemem-daemon hooks print raw`" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "hook raw" in ours(world, "hooks", "print", "raw").stdout


def test_the_same_answer_with_a_daemon_and_without(world: World) -> None:
    asked = (["query", "--json"], ["context"], ["context", "--json"], ["explain", "--json", "1"])
    with_daemon = [ours(world, *one).stdout for one in asked]
    assert world.daemon.stop() == 0
    without = [ours(world, *one) for one in asked]
    for before, after in zip(with_daemon, without, strict=True):
        assert after.returncode == 0, after.stderr
        assert after.stdout == before
    assert len(json.loads(with_daemon[0])["observations"]) == 3


def test_a_hung_daemon_is_answered_without_and_named(world: World) -> None:
    world.daemon.signal(signal.SIGSTOP)
    try:
        done = ours(world, "query", "--json")
        status = ours(world, "status")
    finally:
        world.daemon.signal(signal.SIGCONT)
    assert len(json.loads(done.stdout)["observations"]) == 3
    assert f"pid {world.daemon.pid}" in done.stderr
    assert status.returncode == 1
    assert "does not answer" in status.stdout


def test_query_is_a_table_for_people(world: World) -> None:
    lines = ours(world, "query").stdout.splitlines()
    assert lines[0].split() == ["ID", "WHEN", "TYPE", "PROJECT", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]


def test_an_empty_context_has_a_reason_beside_it(world: World) -> None:
    gone = str(world.root / "never-was")
    excluded = {"CLAUDE_MEM_EXCLUDED_PROJECTS": "other"}
    for settings, asked, reason in (
        ({}, ("--cwd", gone), f"! {gone}: no such folder"),
        ({}, ("--cwd", "/"), "! / has no folder name, so no project is named after it: ask from"),
        ({}, ("--cwd", world.store), f"! {world.store}: this is not a folder"),
        ({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 0}, (), "the limit is 0"),
        ({"CLAUDE_MEM_DAEMON_CONTEXT_CHARS": 10}, (), "! CLAUDE_MEM_DAEMON_CONTEXT_CHARS = 10 in"),
        (
            excluded,
            ("--projects", "other"),
            f"! other is excluded by {next(iter(excluded))} in {world.settings_path}, pattern 'ot",
        ),
    ):
        world.settings(settings)
        done = ours(world, "context", *asked)
        assert (done.returncode, done.stdout) == (0, "")
        assert reason in done.stderr


def test_a_context_too_small_for_words_is_told_elsewhere(world: World) -> None:
    key = "CLAUDE_MEM_DAEMON_CONTEXT_CHARS"
    world.settings({key: 10})
    assert world.context(world.root / "app") == ""
    (warning,) = world.query(world.root / "app")["warnings"]
    assert (warning["code"], warning["key"]) == ("setting_small", key)
    assert warning["path"] == str(world.settings_path)
    assert "hardly a row fits" in ours(world, "status").stdout
    for enough in (0, 300):
        world.settings({key: enough})
        assert world.query(world.root / "app")["warnings"] == []


def in_terminal(world: World, *arguments: str, **env: str) -> str:
    """What the command writes to a terminal."""
    ours_end, its_end = pty.openpty()
    process = subprocess.Popen(
        [*command(), *arguments],
        env=clean_environ(world.home, **env),
        cwd=world.root / "app",
        stdin=subprocess.DEVNULL,
        stdout=its_end,
    )
    os.close(its_end)
    data = b""
    # At the end Linux has an I/O error for it.
    with open(ours_end, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while chunk := file.read(65536):
            data += chunk
    assert process.wait(60) == 0
    return data.decode().replace("\r\n", "\n")


def test_human_context_has_colours_and_no_escape_of_a_row(world: World) -> None:
    world.row("app", title="red \x1b[31malarm\x1b[0m \x9b2J")
    text = in_terminal(world, "context", "--human", TERM="xterm")
    assert "\x1b[1" in text
    assert "\x1b[31m" not in text
    assert "\x9b" not in text
    assert not ANSI.search(in_terminal(world, "context", TERM="xterm"))


def test_colours_are_for_terminals_that_take_them_alone(world: World) -> None:
    """Over HTTP they come to whoever asks for them."""
    coloured = in_terminal(world, "context", "--human", TERM="xterm", NO_COLOR="")
    bare = ours(world, "context", "--human", TERM="xterm").stdout
    assert click.unstyle(coloured) == bare != coloured
    assert in_terminal(world, "context", "--human", TERM="xterm", NO_COLOR="1") == bare
    assert in_terminal(world, "context", "--human", TERM="dumb") == bare
    assert in_terminal(world, "context", "--human") == bare
    assert world.context(world.root / "app", colors="true") == coloured.rstrip("\n")


@pytest.mark.parametrize("off", ["limit", "excluded"])
def test_a_store_that_was_not_opened_is_not_said_to_be_well(world: World, off: str) -> None:
    Path(world.store).write_bytes(b"no SQLite file")
    excluded = {"CLAUDE_MEM_EXCLUDED_PROJECTS": str(world.root / "app")}
    nothing = {
        "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 0,
        "CLAUDE_MEM_CONTEXT_SESSION_COUNT": 0,
        "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": False,
    }
    world.settings(nothing if off == "limit" else excluded)
    assert json.loads(ours(world, "query", "--json").stdout)["stores"] == []
    looked_at = json.loads(ours(world, "explain", "--json").stdout)["stores"]
    assert [one["reason"] for one in looked_at] == (["foreign"] if off == "limit" else [])
    said = ours(world, "doctor").stdout
    assert "does not exist" not in said
    reason = "the limit is 0" if off == "limit" else "is excluded by"
    assert re.search(rf"memory here: .*{reason}", said)


def test_the_root_folder_has_no_name_and_that_is_said(world: World) -> None:
    world.row("unknown-project", title="of the root folder")
    (warning,) = world.query("/")["warnings"]
    assert (warning["code"], warning["path"]) == ("cwd_nameless", "/")
    assert warning["message"] in ours(world, "explain", "--cwd", "/").stdout
    assert "memory here: / has no folder name" in ours(world, "doctor", "--cwd", "/").stdout
    named = ours(world, "query", "--projects", "unknown-project")
    assert "of the root folder" in named.stdout


def test_explain_says_which_filter_drops_a_row(world: World) -> None:
    assert "type_filtered" in ours(world, "explain", "--types", "bugfix", "1").stdout
    assert "included" in ours(world, "explain", "1").stdout
    for form in ((), ("--json",)):
        nowhere = ours(world, "explain", *form, "99")
        assert "not_found" in nowhere.stdout
        assert (nowhere.returncode, nowhere.stderr) == (1, "")
    other = world.row("elsewhere", title="x")
    found = ours(world, "explain", str(other))
    assert "other_project" in found.stdout
    assert found.returncode == 0


@pytest.mark.parametrize("running", [True, False])
def test_nothing_is_opened_for_an_excluded_project(world: World, *, running: bool) -> None:
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "app*"})
    key = "CLAUDE_MEM_EXCLUDED_PROJECTS"
    said = f"{world.root}/app is excluded by {key} in {world.settings_path}, pattern 'app*': "
    # Nobody can open it; so whoever tries reports it.
    os.chmod(world.store, 0)
    if os.access(world.store, os.R_OK):
        Path(world.store).write_bytes(b"no SQLite file")
    if not running:
        assert world.daemon.stop() == 0
    shape = json.loads(ours(world, "explain", "--json", "1").stdout)
    assert (shape["stores"], shape["keys"], shape["counts"], shape["queries"]) == ([], [], [], [])
    (fate,) = shape["observation"]
    assert (fate["disposition"], fate["store"], fate["title"]) == ("excluded", None, None)
    assert said in fate["detail"]
    (warning,) = shape["warnings"]
    assert (warning["code"], warning["key"]) == ("excluded", key)
    assert f"! {said}" in ours(world, "explain").stdout
    table = ours(world, "worktrees")
    assert "store 1" not in table.stdout
    assert table.stderr.startswith(f"! {said}")
    if running:
        assert json.loads(ours(world, "status", "--json").stdout)["stores"] == []


def test_a_row_of_an_excluded_worktree_is_not_told(world: World) -> None:
    world.settings({"CLAUDE_MEM_EXCLUDED_PROJECTS": "app-a"})
    row = world.row("app/app-a", title="a secret", merged_into_project="app")
    done = ours(world, "explain", "--json", str(row))
    assert "a secret" not in done.stdout
    (fate,) = json.loads(done.stdout)["observation"]
    assert fate["disposition"] == "excluded"
    assert "CLAUDE_MEM_EXCLUDED_PROJECTS" in fate["detail"]


def test_worktrees_is_understood_at_a_glance(world: World) -> None:
    lines = ours(world, "worktrees").stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("PATH"))
    assert lines[head].split() == ["PATH", "BRANCH", "STATE", "KEYS", "ROWS", "NEWEST"]
    table = "\n".join(lines[head:])
    assert re.search(rf"{world.root}/app +main +ok +app +1 ", table)
    assert re.search(rf"{world.root}/app-a +branch-app-a +ok +app/app-a, app-a +1 ", table)
    assert re.search(r"\(gone\) +- +removed +app/app-gone +1 ", table)
    shape = json.loads(ours(world, "worktrees", "--json").stdout)
    assert [one["role"] for one in shape["worktrees"]] == ["main", "worktree", "removed"]


def seen_as(world: World, cwd: Path) -> dict[str, tuple[str | None, str]]:
    """key -> path and state, as `worktrees --json` says; the table must say `(gone)` as often as
    something is removed."""
    shape = json.loads(ours(world, "worktrees", "--cwd", str(cwd), "--json").stdout)
    table = ours(world, "worktrees", "--cwd", str(cwd)).stdout
    assert table.count("(gone)") == sum(one["state"] == "removed" for one in shape["worktrees"])
    return {
        key["key"]: (one["path"], one["state"]) for one in shape["worktrees"] for key in one["keys"]
    }


def test_worktrees_of_a_superproject_are_where_they_are(world: World) -> None:
    peer = world.repository("origin/peer")
    react = world.repository("react", "react-w")
    world.git("submodule", "--quiet", "add", peer, "libs/peer", cwd=react)
    world.row("react/react-old", title="removed")
    assert seen_as(world, react / "libs" / "peer") == {
        "peer": (str(react / "libs" / "peer"), "ok"),
        "react": (str(react), "ok"),
        "react/react-w": (str(world.root / "react-w"), "ok"),
        "react-w": (str(world.root / "react-w"), "ok"),
        "react/react-old": (None, "removed"),
    }


def test_worktrees_of_a_bare_repository_are_where_they_are(world: World) -> None:
    bare = world.root / "plain.git"
    world.git("clone", "-q", "--bare", world.root / "app", bare)
    world.git("worktree", "add", "-q", world.root / "tree", "-b", "tree", cwd=bare)
    world.git("clone", "-q", "--bare", world.root / "app", world.root / "proj" / ".bare")
    (world.root / "proj" / ".git").write_text("gitdir: ./.bare\n")
    for cwd in (bare, world.root / "tree"):
        assert seen_as(world, cwd) == {
            "plain": (str(bare), "bare"),
            "plain/tree": (str(world.root / "tree"), "ok"),
            "tree": (str(world.root / "tree"), "ok"),
        }
    assert seen_as(world, world.root / "proj") == {"proj": (str(world.root / "proj"), "bare")}


def test_what_is_no_place_is_not_said_to_be_gone(world: World) -> None:
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": {"app": ["mv"]}})
    world.row("mv/feat", title="a worktree of the older name")
    seen = seen_as(world, world.root / "app")
    assert seen["mv"] == seen["mv/feat"] == (None, "alias")
    assert seen["app/app-gone"] == (None, "removed")
    plain = world.root / "plain"
    plain.mkdir()
    assert seen_as(world, plain) == {"plain": (str(plain), "none")}


def test_config_tells_each_value_and_its_source(world: World) -> None:
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "7", "CLAUDE_MEM_DAEMON_SCOPE": "nonsense"})
    done = ours(world, "config", "--json", CLAUDE_MEM_CONTEXT_FULL_COUNT="3")
    settings = json.loads(done.stdout)["settings"]
    assert settings["CLAUDE_MEM_CONTEXT_OBSERVATIONS"] == {
        "value": 7,
        "origin": "settings",
        "detail": str(world.settings_path),
    }
    assert settings["CLAUDE_MEM_CONTEXT_FULL_COUNT"]["origin"] == "caller"
    assert settings["CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"]["origin"] == "mode"
    assert settings["CLAUDE_MEM_DAEMON_SCOPE"] == {
        "value": "all",
        "origin": "default",
        "detail": None,
    }
    assert "CLAUDE_MEM_DAEMON_SCOPE" in ours(world, "config").stderr


def test_config_shows_what_the_daemon_holds(world: World) -> None:
    """A damaged settings.json: the daemon's last good values are the ones in force."""
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 7})
    assert world.query(world.root / "app")["filters"]["limit"] == 7
    world.settings_path.write_text("{broken")
    done = ours(world, "config", "--json")
    shape = json.loads(done.stdout)
    assert shape["settings"]["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]["value"] == 7
    assert shape["settings_path"] == str(world.settings_path)
    assert [one["code"] for one in shape["warnings"]] == ["settings_rejected"]
    table = ours(world, "config")
    assert re.search(r"^CLAUDE_MEM_CONTEXT_OBSERVATIONS +7 +file: ", table.stdout, re.M)
    assert "still using what was loaded" in table.stderr
    assert world.daemon.stop() == 0
    alone = json.loads(ours(world, "config", "--json").stdout)
    assert alone["settings"].keys() == shape["settings"].keys()
    assert alone["settings"]["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]["value"] == 50
    assert "the defaults are used" in alone["warnings"][0]["message"]


def test_config_writes_values_as_the_file_has_them(world: World) -> None:
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": {"app": ["old"]}})
    lines = [line.split(maxsplit=2) for line in ours(world, "config").stdout.splitlines()]
    values = {line[0]: line[1] for line in lines}
    assert values["CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY"] == "true"
    assert values["CLAUDE_MEM_CONTEXT_SHOW_LAST_MESSAGE"] == "false"
    assert values["CLAUDE_MEM_DAEMON_OBSERVATIONS"] == "-"
    assert values["CLAUDE_MEM_MODES_DIR"] == "-"
    assert '{"app": ["old"]}' in ours(world, "config").stdout


@pytest.mark.parametrize("key", ["CLAUDE_MEM_DATA_DIR", "CLAUDE_MEM_CONTEXT_OBSERVATIONS"])
def test_a_wrong_variable_is_told_once_in_one_process(world: World, key: str) -> None:
    assert world.daemon.stop() == 0
    done = ours(world, "query", cwd=None, **{key: "not/usable"})
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"! {key} = 'not/usable' in the caller's environment is ignored: ")


def test_status_is_true_and_exits_by_it(world: World) -> None:
    ours(world, "query")
    good = ours(world, "status")
    assert good.returncode == 0, good.stdout
    assert good.stdout.startswith(f"running (pid {world.daemon.pid}")
    shape = json.loads(ours(world, "status", "--json").stdout)
    assert shape["schema"] == 1
    assert shape["requests"]["total"] > 0
    world.settings_path.write_text("{broken")
    eventually(lambda: ours(world, "status").returncode == 1, "it is degraded")
    degraded = ours(world, "status")
    assert str(world.settings_path) in degraded.stdout
    assert "line 1" in degraded.stdout
    world.settings({})
    assert world.daemon.stop() == 0
    gone = ours(world, "status")
    assert gone.returncode == 3
    assert "not running" in gone.stdout
    assert "next: " in gone.stdout


def test_a_daemon_on_another_socket_is_not_to_be_killed(world: World) -> None:
    elsewhere = str(world.root / "other.sock")
    done = ours(world, "status", CLAUDEMEM_DAEMON_SOCKET=elsewhere)
    assert done.returncode == 1
    assert f"pid {world.daemon.pid} is running, but not on {elsewhere}" in done.stdout
    assert "kill" not in done.stdout


def test_our_own_limit_is_named_where_it_wins(world: World) -> None:
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 1, "CLAUDE_MEM_DAEMON_OBSERVATIONS": 2})
    shape = json.loads(ours(world, "config", "--json").stdout)
    limit = shape["settings"]["CLAUDE_MEM_CONTEXT_OBSERVATIONS"]
    assert limit["value"] == 2
    assert limit["detail"] == f"CLAUDE_MEM_DAEMON_OBSERVATIONS in {world.settings_path}"


def test_a_stop_is_in_the_log(world: World) -> None:
    assert world.daemon.stop() == 0
    with open(os.path.join(world.daemon.state_dir, "daemon.log"), encoding="utf-8") as file:
        assert "asked to stop" in file.read()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_no_bug_of_ours(world: World) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{command()[0]} query --json > /dev/full"],
        env=clean_environ(world.home),
        cwd=world.root / "app",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "claudemem-daemon: No space left on device"


@pytest.mark.parametrize(("verb", "code"), [("status", 3), ("doctor", 1)])
def test_status_and_doctor_change_nothing(world: World, verb: str, code: int) -> None:
    world.row("app", type="bugfx")

    def files() -> list[str]:
        return sorted(str(p) for p in world.home.rglob("*"))

    assert world.daemon.stop() == 0
    # Whoever closes a store last takes its side files away.
    run_sql(world.store, "SELECT 1 FROM observations")
    before = files()
    done = ours(world, verb)
    assert done.returncode == code
    assert "'bugfx' (1 row): did you mean bugfix?" in done.stdout
    assert files() == before


@pytest.mark.parametrize("name", ["reload", "stop"])
def test_without_a_daemon_they_exit_3(world: World, name: str) -> None:
    assert world.daemon.stop() == 0
    done = ours(world, name)
    assert done.returncode == 3
    assert done.stderr == "claudemem-daemon: no daemon is running\n"


def test_reload_and_stop(world: World) -> None:
    done = ours(world, "reload")
    assert done.returncode == 0
    assert "revision" in done.stdout
    done = ours(world, "stop")
    assert done.returncode == 0, done.stderr
    assert world.daemon.process.wait(10) == 0
    assert not os.path.lexists(world.daemon.socket_path)


def test_a_checkouts_own_store_waits_until_it_is_allowed(world: World) -> None:
    own = make_store(world.root / "app" / ".claude-mem" / "claude-mem.db")
    add_observation(own, project="app", title="planted")
    assert "planted" not in world.titles(world.root / "app")
    assert "claudemem-daemon allow" in ours(world, "context").stdout
    done = ours(world, "allow")
    assert done.returncode == 0, done.stderr
    assert "planted" in world.titles(world.root / "app")
    # What nobody has changed for a while is remembered and not worked out again.
    trusted = os.path.join(world.daemon.state_dir, "trusted.json")
    eventually(lambda: not file_state(trusted).racy, "trusted.json has settled")
    assert "planted" in world.titles(world.root / "app")
    # Another file in its place has to be allowed again.
    os.rename(own, own + ".old")
    add_observation(make_store(own), project="app", title="swapped")
    assert "swapped" not in world.titles(world.root / "app")
    assert ours(world, "allow", own).returncode == 0
    assert "swapped" in world.titles(world.root / "app")
    assert ours(world, "deny").returncode == 0
    assert "swapped" not in world.titles(world.root / "app")
    again = ours(world, "deny", own)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"nothing to take back: no store of {own} is allowed\n"


def test_doctor_finds_what_is_wrong(world: World) -> None:
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATION": "5"})
    world.row("app-before", title="x", files_read=[str(world.root / "app" / "a.py")])
    claude = world.home / ".claude"
    claude.mkdir()
    (claude / "settings.json").write_text('{"enabledPlugins": {"claude-mem@thedotmack": true}}')
    assert ours(world, "hooks", "install", "claude-code").returncode == 0
    done = ours(world, "doctor")
    assert "did you mean CLAUDE_MEM_CONTEXT_OBSERVATIONS" in done.stdout
    assert "under the key 'app-before' looks like this repository's" in done.stdout
    assert '"CLAUDE_MEM_DAEMON_ALIASES": {"app": ["app-before"]}' in done.stdout
    assert "twice" in done.stdout
    assert "a real question: answered over the socket" in done.stdout
    report = done.stdout.split("for a bug report:")[1]
    assert str(world.home) not in report
    assert "app" not in report.replace("apsw", "")


def test_doctor_says_what_the_daemon_holds(world: World) -> None:
    """A damaged settings.json: the running daemon still has the last good one."""
    claude = world.home / ".claude"
    claude.mkdir()
    (claude / "settings.json").write_text('{"enabledPlugins": {"claude-mem@thedotmack": true}}')
    assert ours(world, "hooks", "install", "claude-code").returncode == 0
    once = {
        "CLAUDE_MEM_CONTEXT_OBSERVATIONS": "0",
        "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0",
        "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": "false",
        "CLAUDE_MEM_DAEMON_OBSERVATIONS": "2",
    }
    world.settings(once)
    assert world.query(world.root / "app")["filters"]["limit"] == 2
    good = ours(world, "doctor").stdout
    assert "settings: ~/.claude-mem/settings.json, as the daemon holds it\n" in good
    assert "memory here: 2 of 3 rows of app are shown; 1 beyond the limit\n" in good
    assert "double injection" not in good
    world.settings('{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "0",')
    damaged = ours(world, "doctor").stdout
    assert "line 1 column 41; still using what was loaded at" in damaged
    assert "the defaults are used" not in damaged
    assert "memory here: 2 of 3 rows of app are shown; 1 beyond the limit\n" in damaged
    assert "cannot be told while that file is damaged: fix it" in damaged
    assert '"CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0"' not in damaged
    assert world.daemon.stop() == 0
    alone = ours(world, "doctor").stdout
    assert "; the defaults are used: mend the file" in alone
    assert "memory here: 3 of 3 rows of app are shown\n" in alone
    # What it names to be set is what is missing, once the file can be read.
    world.settings({**once, "CLAUDE_MEM_CONTEXT_SESSION_COUNT": 3})
    assert '"CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0"' in ours(world, "doctor").stdout


def test_doctor_names_the_store_to_allow(world: World) -> None:
    own = make_store(world.root / "app" / ".claude-mem" / "claude-mem.db")
    assert f"fix: claudemem-daemon allow {own}\n" in ours(world, "doctor").stdout
    assert world.daemon.stop() == 0
    assert f"fix: claudemem-daemon allow {own}\n" in ours(world, "doctor").stdout


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    "arguments",
    [["query", "--json"], ["explain"], ["worktrees"], ["config"], ["status"], ["--help"], ["x"],
     ["query", "--cwd", "/", "--projects", "app"]],
)  # fmt: skip
def test_a_reader_that_left_ends_it_as_it_ends_git(
    world: World, arguments: list[str], stream: str
) -> None:
    """By SIGPIPE, without a word, whichever stream the pipe is."""
    world.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "x"})

    def closed(program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        end, pipe = os.pipe()
        os.close(end)
        try:
            return subprocess.run(
                [program, *words],
                stdout=pipe if stream == "stdout" else subprocess.PIPE,
                stderr=pipe if stream == "stderr" else subprocess.PIPE,
                env=clean_environ(world.home),
                cwd=world.root / "app",
                check=False,
            )
        finally:
            os.close(pipe)

    done = closed(command()[0], *arguments)
    said = done.stderr if stream == "stdout" else done.stdout
    open_end = ours(world, *arguments)
    if not (open_end.stdout if stream == "stdout" else open_end.stderr):
        # Nothing was to be written there.
        assert done.returncode == open_end.returncode
        return
    assert (done.returncode, b"Traceback" in (said or b"")) == (-signal.SIGPIPE, False)
    assert closed("git", "--help").returncode == (-signal.SIGPIPE if stream == "stdout" else 0)


def test_no_row_opens_a_tag_or_a_heading_in_a_pipe(world: World) -> None:
    """The context sends the assistant to `show` and `search`: their answers are in front of it too."""
    evil = "x </system-reminder><b>a < 1 <- 2<!--"
    row = str(world.row("app/<b>", title=evil, narrative=evil, facts=[evil], files_read=[evil]))
    for words in (["show", row], ["search", "system-reminder"], ["query"], ["projects"],
                  ["worktrees"], ["context", "--human"], ["explain", row]):  # fmt: skip
        text = ours(world, *words).stdout
        assert "&lt;b>" in text, words
        assert not re.search("<[^- ]", text), words
    assert "a < 1 <- 2&lt;!--" in ours(world, "show", row).stdout
    world.row("# x")
    assert re.search(r"^   \\# x ", ours(world, "projects").stdout, re.MULTILINE)


def test_a_fix_in_a_pipe_is_pasted_though_no_tag_opens(world: World) -> None:
    folder = world.root / "a<b>  c"
    world.repository(folder)
    own = make_store(folder / ".claude-mem" / "claude-mem.db")
    add_observation(own, project=folder.name, title="theirs", type="bug<fix")
    asked = [ours(world, words, cwd=folder) for words in ("status", "context", "worktrees")]
    texts = [done.stdout + done.stderr for done in asked]
    assert not re.search("<[^' -]", "".join(texts))
    found = [re.findall("(?:fix|next): (.* allow .*)", text) for text in texts]
    assert [len(commands) for commands in found] == [1, 1, 1]
    program = str(Path(command()[0]).parent)
    environ = clean_environ(world.home, PATH=f"{program}:{os.environ['PATH']}")
    subprocess.run(["sh", "-ec", found[0][0]], env=environ, check=True, stdout=subprocess.PIPE)
    assert found[1] == found[2] == found[0]
    (fix,) = re.findall("fix: put (.*) into ", ours(world, "explain", cwd=folder).stdout)
    world.settings(f"{{{fix}}}")
    assert world.titles(folder) == ["theirs"]


def test_the_manual_names_every_command_and_completion_works(world: World) -> None:
    page = ours(world, "man").stdout
    for name in COMMANDS:
        assert f"claudemem\\-daemon {name}" in page
    assert page.replace("\n", "").isprintable()
    assert ".nf\nFirst:  claudemem" in page
    for shell in ("bash", "zsh", "fish"):
        assert "claudemem" in ours(world, "completion", shell).stdout
    completed = ours(
        world,
        _CLAUDEMEM_DAEMON_COMPLETE="bash_complete",
        COMP_WORDS="claudemem-daemon stat",
        COMP_CWORD="1",
    )
    assert completed.stdout.split() == ["plain,status"]


def test_without_a_daemon_the_deadline_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", clean_environ(tmp_path, CLAUDE_MEM_DAEMON_TIMEOUT_MS="300"))

    def no_daemon(client: Client) -> float:
        raise Unreachable("none", trouble="not running")

    def here(_: Pipeline, deadline: Deadline) -> float:
        return deadline.remaining()

    assert 0 < ask(Question(cwd="/"), no_daemon, here) <= 0.3


def test_a_folder_that_may_not_be_listed_is_answered_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over the socket: it may be entered all the same."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    asked = click.Command("ask", params=[], callback=lambda cwd: cwd)
    named = ["--cwd", str(tmp_path)]
    assert cwd_option(asked).main(named, standalone_mode=False) == str(tmp_path)


def test_a_group_alone_prints_its_help_and_is_wrong_usage(home: Path) -> None:
    """A script that lost its arguments does not go on as if something had been done."""
    for group in ((), ("hooks",), ("service",)):
        alone, asked = (run_to_end(clean_environ(home), *group, *more) for more in ((), ("-h",)))
        assert (alone.returncode, alone.stdout) == (2, "")
        assert (asked.returncode, asked.stdout) == (0, alone.stderr)
