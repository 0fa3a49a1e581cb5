"""Limits of the machine: an answer, or a refusal in words."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, clean_environ, command, eventually, run_to_end
from tests.support.stores import add_observation, make_store, run_sql

LIMITED = (
    "import os, resource as r, sys;"
    " r.setrlimit(getattr(r, sys.argv[1]), (int(sys.argv[2]),) * 2);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
CLOCK = (
    "import os, sys, time; real = time.time;"
    " time.time = lambda: real() - 86_400 * os.path.exists(sys.argv[1]);"
    " sys.argv[:2] = ['claudemem-daemon'];"
    " from claudemem_daemon.__main__ import main; sys.exit(main())"
)
"""A day earlier as soon as the file is there."""


def mounted(script: str) -> list[str]:
    """What comes before a command that shall see the mounts of `script` alone."""
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{script} && true"],
        env=clean_environ("/tmp"),
        capture_output=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip("mounts of its own are refused here")
    return ["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh"]


def answer(daemon: Daemon) -> list[str]:
    reply = daemon.post("/v1/query", {"projects": ["app"]})
    assert reply.status == 200, reply.body
    assert "Traceback" not in daemon.errors()
    return [row["title"] for row in reply.json()["observations"]]


@pytest.fixture
def filled(home: Path) -> Path:
    add_observation(make_store(home / ".claude-mem" / "claude-mem.db"), project="app", title="row")
    (home / "app").mkdir()
    return home


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no limit of the address space")
@pytest.mark.parametrize(
    ("limit", "value"),
    [("RLIMIT_NOFILE", 48), ("RLIMIT_AS", 1 << 30), ("RLIMIT_STACK", 1 << 20)],
)
def test_a_limit_is_lived_with(filled: Path, limit: str, value: int) -> None:
    prefix = [sys.executable, "-c", LIMITED, limit, str(value)]
    with Daemon(filled, prefix=prefix) as daemon:
        assert answer(daemon) == ["row"]
        if limit == "RLIMIT_NOFILE":
            with contextlib.ExitStack() as stack:
                for _ in range(60):
                    stack.enter_context(contextlib.closing(daemon.connect()))
            assert answer(daemon) == ["row"]


def test_a_home_that_is_moved_and_comes_back_is_answered_from(filled: Path) -> None:
    away = filled.with_name(filled.name + "-away")
    with Daemon(filled) as daemon:
        assert answer(daemon) == ["row"]
        filled.rename(away)
        shutil.copytree(
            away / ".claude-mem", filled / ".claude-mem", ignore=shutil.ignore_patterns("daemon")
        )
        shutil.rmtree(away)
        eventually(daemon.reachable, "it is bound again")
        assert answer(daemon) == ["row"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_umask_decides_nothing(filled: Path, umask: int) -> None:
    with Daemon(filled, umask=umask) as daemon:
        assert answer(daemon) == ["row"]
        assert os.stat(daemon.state_dir).st_mode & 0o777 == 0o700
        assert os.stat(daemon.socket_path).st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_nobody_needs_proc(filled: Path) -> None:
    prefix = mounted("mount -t tmpfs none /proc")
    with Daemon(filled, prefix=prefix) as daemon:
        assert answer(daemon) == ["row"]
        for words in (["status"], ["doctor"], ["context", "--projects", "app"], ["stop"]):
            done = run_after(prefix, filled, *words)
            assert (done.returncode, done.stderr) == (0, ""), words
        assert daemon.process.wait(20) == 0


def run_after(
    prefix: list[str], home: Path, *words: str, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, *command(), *words],
        env=clean_environ(home),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def answers_without_a_daemon(prefix: list[str], home: Path) -> None:
    asked = run_after(prefix, home, "query", "--projects", "app", "--json")
    assert [row["title"] for row in json.loads(asked.stdout)["observations"]] == ["row"]
    call = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(home / "app")}
    hooked = run_after(prefix, home, "hook", "claude-code", given=json.dumps(call))
    assert (hooked.returncode, hooked.stderr) == (0, "")
    assert "row" in json.loads(hooked.stdout)["hookSpecificOutput"]["additionalContext"]


READ_ONLY = "mount --bind $HOME $HOME && mount -o remount,bind,ro $HOME"


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are Linux's")
@pytest.mark.parametrize("started_before", [True, False])
def test_a_read_only_home_is_named_and_answered_without_a_daemon(
    filled: Path, started_before: bool
) -> None:
    prefix = mounted(READ_ONLY)
    if started_before:
        with Daemon(filled) as daemon:
            assert daemon.stop() == 0

    refused = run_after(prefix, filled, "run")
    assert refused.returncode == 1
    assert "read-only file system" in refused.stderr.lower()
    assert f"{filled}/.claude-mem" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    answers_without_a_daemon(prefix, filled)


def test_where_no_file_may_grow_it_says_so_and_answers_without_a_daemon(filled: Path) -> None:
    prefix = [sys.executable, "-c", LIMITED, "RLIMIT_FSIZE", "0"]
    refused = run_after(prefix, filled, "run")
    assert refused.returncode == 1
    assert f"{filled}/.claude-mem/daemon/daemon.lock cannot be written" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    asked = run_after(prefix, filled, "query", "--projects", "app", "--json")
    (warning,) = json.loads(asked.stdout)["warnings"]
    assert "claude-mem.db: no room for its -shm file" in warning["message"]
    store = str(filled / ".claude-mem" / "claude-mem.db")
    run_sql(store, "PRAGMA journal_mode = delete")
    answers_without_a_daemon(prefix, filled)


def test_folders_that_are_no_paths_hold_nobody(filled: Path) -> None:
    """There is no outermost folder above a relative path."""
    with Daemon(filled) as daemon:
        body = {"cwd": "/", "env": {"CLAUDE_CONFIG_DIR": "relative"}}
        assert daemon.post("/v1/explain", body).status == 200
    for name in ("HOME", "CLAUDE_CONFIG_DIR"):
        environ = clean_environ(filled) | {name: "relative"}
        for arguments in (("status",), ("doctor",), ("explain",)):
            done = run_to_end(environ, *arguments)
            assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "locale", ["C", "POSIX", "de_DE.ISO-8859-1", "zz_ZZ.nothing", "", "tr_TR.UTF-8", "\udcff"]
)
def test_the_locale_decides_nothing(home: Path, locale: str) -> None:
    odd = home / "h\u00f6me \udcff"
    odd.mkdir()
    store = make_store(odd / ".claude-mem" / "claude-mem.db")
    add_observation(store, project="app", title="r\u00f6w \u0130")
    environ = {"LC_ALL": locale, "LANG": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with Daemon(odd, environ=environ, program=command()) as daemon:
        assert answer(daemon) == ["r\u00f6w \u0130"]
        assert answer_of_command(daemon) == ["r\u00f6w \u0130"]
        assert daemon.stop() == 0
        assert answer_of_command(daemon) == ["r\u00f6w \u0130"]


def answer_of_command(daemon: Daemon) -> list[str]:
    done = run_to_end(daemon.environ, "query", "--projects", "app", "--json", program=command())
    assert done.returncode == 0, done.stderr
    return [row["title"] for row in json.loads(done.stdout)["observations"]]


def test_a_clock_that_is_set_back_hides_nothing(filled: Path) -> None:
    """Rows, settings and news after it are older than what was there before."""
    store = filled / ".claude-mem" / "claude-mem.db"
    settings = store.with_name("settings.json")
    settings.write_text("{}")
    back = filled / "back"
    now = time.time() - 86_400
    with Daemon(filled, program=[sys.executable, "-c", CLOCK, str(back)]) as daemon:

        def prompt(event: str) -> str:
            call = {"hook_event_name": event, "session_id": "s", "cwd": str(filled / "app")}
            return daemon.post("/v1/hooks/claude-code", call | {"prompt": "x"}).text

        assert "row" in prompt("SessionStart")
        assert answer(daemon) == ["row"]
        back.touch()
        add_observation(store, project="app", title="later", created_at_epoch=int(now * 1000))
        assert sorted(answer(daemon)) == ["later", "row"]
        assert "later" in prompt("UserPromptSubmit")
        assert "later" not in prompt("UserPromptSubmit")
        settings.write_text(json.dumps({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 1}))
        os.utime(settings, (now, now))
        eventually(lambda: len(answer(daemon)) == 1, "the edit is in force", within=5)
        assert daemon.stop() == 0
