"""What status and doctor say: every problem with a code, one sentence and a way out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon import __version__
from claudemem_daemon.cli.status import PROGRAMS
from claudemem_daemon.client import Trouble, Unreachable
from claudemem_daemon.diagnostics import problems
from claudemem_daemon.diagnostics.age import age, duration
from claudemem_daemon.diagnostics.fixes import database_fixes, setting_fix, store_fixes
from claudemem_daemon.diagnostics.hook_checks import read_log
from claudemem_daemon.diagnostics.problems import find_problems
from claudemem_daemon.stores.model import STORE_REASONS

GOOD: dict[str, Any] = {
    "version": "2",
    "installed_version": "2",
    "process": {"started_by": "hand"},
    "configuration": {"rejected": None},
    "watcher": {"problem": None},
    "stores": [],
    "repositories": [],
    "socket": {"mode": 0o600},
    "requests": {"stuck_workers": 0},
}


def test_nothing_wrong_is_no_problem() -> None:
    assert find_problems(GOOD) == ()


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"installed_version": "3"}, "needs_restart", "warning"),
        ({"installed_version": ""}, "package_gone", "warning"),
        ({"configuration": {"rejected": {"reason": "x"}}}, "settings_rejected", "warning"),
        ({"watcher": {"problem": "no watches"}}, "watcher", "note"),
        ({"socket": {"mode": 0o666}}, "socket_mode", "error"),
        ({"requests": {"stuck_workers": 2}}, "stuck", "warning"),
        (
            {"stores": [{"ok": False, "reason": "corrupt", "error": "damaged"}]},
            "store_corrupt",
            "warning",
        ),
    ],
)
def test_each_trouble_has_its_code(change: dict[str, Any], code: str, severity: str) -> None:
    (problem,) = find_problems({**GOOD, **change})
    assert (problem.code, problem.severity) == (code, severity)
    assert problem.sentence
    assert problem.fix
    assert "\n" not in problem.sentence + problem.fix


def test_one_name_for_two_repositories_is_told() -> None:
    """Case same-basename-repos-mixed."""
    two = [{"name": "api", "common_dir": f"/{n}/api/.git"} for n in ("one", "two")]
    (problem,) = find_problems({**GOOD, "repositories": two})
    assert problem.code == "ambiguous_key"
    assert "'api' is used by 2 repositories" in problem.sentence
    elsewhere = [{"name": "api", "common_dir": None}, two[0]]
    assert find_problems({**GOOD, "repositories": elsewhere}) == ()


def test_every_reason_of_a_store_has_a_way_out() -> None:
    """A fix that begins as a command is one to its end, and so can be pasted."""
    for own in (True, False):
        fixes = store_fixes("/s.db", own=own)
        of_database = database_fixes("postgresql://reader@db/team")
        assert {*fixes, *of_database, "unreadable"} == set(STORE_REASONS)
        restarts = [
            problems.restart({"process": {"started_by": by}})
            for by in ("systemd", "launchd", "hand")
        ]
        for fix in (*fixes.values(), *of_database.values(), *restarts):
            first = fix.partition(" ")[0]
            assert first in {*PROGRAMS, "copy", "correct", "name", "run", "take"}
            if first in PROGRAMS:
                assert "; " not in fix
                assert subprocess.run(["sh", "-n", "-c", fix], check=False).returncode == 0


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("cannot be read (Permission denied)", "chmod u+r"),
        ("has no JSON object", "python3 -m json.tool"),
    ],
)
def test_the_way_out_of_a_settings_file_is_that_of_its_trouble(
    tmp_path: Path, reason: str, fix: str
) -> None:
    path = tmp_path / "s.json"
    path.touch()
    warning = {"code": "settings_rejected", "message": f"{path} {reason}", "path": str(path)}
    assert setting_fix(warning) == f"{fix} {path}"


@pytest.mark.parametrize(
    ("trouble", "code"),
    [("not running", 3), ("stale socket", 3), ("not answering", 1), ("blocked", 1), ("unsafe", 1)],
)
def test_silence_has_a_headline_and_an_exit_code(trouble: Trouble, code: int) -> None:
    head = problems.of_silence(Unreachable("nobody", trouble=trouble, pid=7), managed=True)
    assert head.exit_code == code
    assert head.sentence
    alone = problems.of_silence(Unreachable("nobody", trouble=trouble, pid=7), managed=False)
    advice = ("claudemem-daemon service install", "claudemem-daemon start") if code == 3 else None
    assert advice is None or (head.next, alone.next) == advice


def test_another_version_needs_a_restart() -> None:
    """Case old-daemon-after-upgrade."""
    shape = {
        "version": "0.0.1",
        "status": "ok",
        "problems": [],
        "process": {"pid": 7, "started_by": "systemd"},
    }
    head = problems.of_answer(shape)
    assert head.exit_code == 1
    assert "0.0.1" in head.sentence
    assert __version__ in head.sentence
    assert head.next == "systemctl --user restart claudemem-daemon.service"


def test_the_shared_store_is_not_to_be_taken_out_of_any_settings() -> None:
    def fix(path: str) -> str:
        store = {"path": path, "ok": False, "reason": "foreign", "error": "no SQLite file"}
        known = {"rejected": None, "data_dir": "/home/u/.claude-mem"}
        (problem,) = find_problems({**GOOD, "stores": [store], "configuration": known})
        return problem.fix

    assert fix("/home/u/.claude-mem/claude-mem.db").startswith("mv /home/u/")
    assert "names it" in fix("/mnt/replica.db")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "just now"), (4, "just now"), (5, "5 s ago"), (59, "59 s ago"), (60, "1 min ago")],
)
def test_seconds_are_said_once_they_tell_anything(seconds: int, words: str) -> None:
    assert age((1_700_000_000 - seconds) * 1000, now=1_700_000_000) == words


@given(st.floats(-1e15, 1e15))
def test_any_age_is_said_in_words(epoch: float) -> None:
    assert age(epoch, now=1_700_000_000.0)


@given(st.floats(0, 1e9))
def test_any_duration_is_said_in_words(seconds: float) -> None:
    assert duration(seconds)


def test_a_garbled_hook_log_is_read_as_far_as_it_goes(tmp_path: Any) -> None:
    (tmp_path / "hook.log").write_bytes(
        b"half a line\n\xff\xfe\n12\tclaude-code\tdeadline\t1.5 s\nx\ty\tz\tw\n"
    )
    (failure,) = read_log({"CLAUDEMEM_DAEMON_HOME": str(tmp_path)})
    assert (failure.at, failure.platform, failure.reason) == (12, "claude-code", "deadline")
    assert read_log({"CLAUDEMEM_DAEMON_HOME": str(tmp_path / "none")}) == ()
