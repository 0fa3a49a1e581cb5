"""What people paste into bug reports holds verdicts, paths and counts, never text of a row."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from claudemem_daemon.server.log import Log
from tests.support.daemon import Daemon, run_to_end
from tests.support.stores import add_observation, make_store

SECRET = "xyzzy-of-a-row"


def test_log_status_and_doctor_hold_no_text_of_a_row(daemon: Daemon, home: Path) -> None:
    store = make_store(home / ".claude-mem" / "claude-mem.db")
    for facts in ("[", json.dumps([SECRET]), json.dumps({SECRET: 1})):
        add_observation(
            store, project="app", title=SECRET, narrative=SECRET, facts=facts, concepts=SECRET
        )
    daemon.post("/v1/query", {"projects": ["app"]})
    daemon.get("/api/context/inject", {"projects": "app"})
    said = [daemon.get("/v1/status").text, daemon.errors()]
    for command in (("status",), ("status", "--json"), ("doctor",)):
        done = run_to_end(daemon.environ, *command)
        said += [done.stdout, done.stderr]
    said += [path.read_text() for path in (home / ".claude-mem" / "daemon").glob("*.log")]
    assert [text for text in said if SECRET in text] == []


def test_an_error_that_quotes_a_row_is_logged_without_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Log(None).failure("GET /v1/query", ValueError(f"cannot read {SECRET}"))
    line = capsys.readouterr().err
    assert "ValueError" in line
    assert SECRET not in line


def test_the_block_to_paste_names_neither_home_nor_user(daemon: Daemon, home: Path) -> None:
    done = run_to_end(daemon.environ, "doctor")
    block = done.stdout[done.stdout.rindex("claudemem-daemon 0") :]
    assert str(home) not in block
    assert getpass.getuser() not in block.split()
