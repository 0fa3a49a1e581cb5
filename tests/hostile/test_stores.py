"""Whatever lies in a store, the answer has the good row, and that of the store beside it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.world import World, new_world
from tests.hostile.stores import GOOD, Maker, makers
from tests.support.daemon import command

BESIDE = "the row of the other store"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="cm-") as folder, new_world(Path(folder)) as made:
        made.repository("app")
        made.row("app", id=900, title=BESIDE)
        yield made


@pytest.mark.parametrize(
    ("name", "make"), tuple(makers()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_one_odd_thing_takes_no_answer_away(
    world: World, tmp_path: Path, name: str, make: Maker
) -> None:
    store = tmp_path / "claude-mem.db"
    readable = make(store)
    before = digest(tmp_path)
    world.settings(
        {
            "CLAUDE_MEM_DAEMON_STORES": {"*": str(store)},
            "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 200,
            "CLAUDE_MEM_DAEMON_TIMEOUT_MS": 60_000,
        }
    )
    spent = world.daemon.processor_seconds()
    cwd = str(world.root / "app")
    told = world.query(cwd)
    titles = [row["title"] for row in told["observations"]]
    assert BESIDE in titles
    assert (GOOD in titles) is readable, told["warnings"]
    texts = [world.context(cwd), hook_text(world, name)]
    for text in texts:
        assert BESIDE in text
        assert (GOOD in text) is readable
    explained = asked(world, "POST", "/v1/explain", {"cwd": cwd})
    assert explained["counts"]
    assert not explained["warnings"] or told["warnings"]
    found = asked(world, "GET", f"/v1/search?q=row&limit=300&cwd={cwd}")
    assert {BESIDE} <= {row["title"] for row in found["observations"]}
    assert (GOOD in {row["title"] for row in found["observations"]}) is readable
    shown = asked(world, "GET", f"/v1/observations?ids=900,b500,b1,Sb1&cwd={cwd}")
    by_ref = {row["ref"]: row["title"] for row in shown["observations"]}
    assert by_ref["900"] == BESIDE
    assert (by_ref.get("b500") == GOOD) is readable
    asked(world, "GET", f"/v1/projects?cwd={cwd}")
    assert "store_unreadable" not in {one["code"] for one in told["warnings"]} or not readable
    if name in ("odd values in observations.id", "odd values in session_summaries.id"):
        assert "store_rows" in {one["code"] for one in told["warnings"]}
    assert world.daemon.processor_seconds() - spent < 8 * 1.5
    assert digest(tmp_path) == before
    assert "Error" not in world.daemon.errors()


def test_a_row_without_a_usable_time_has_its_day_from_created_at(world: World) -> None:
    world.settings({})
    world.row("app", id=800, title="TIMELESS", created_at_epoch="never", created_at="2026-02-03")
    lines = world.context(world.root / "app").splitlines()
    at = next(number for number, line in enumerate(lines) if "TIMELESS" in line)
    assert any("2026-02-03" in line for line in lines[:at])
    assert not any("undated" in line for line in lines)


def test_scope_self_is_the_reason_for_another_worktrees_row(world: World) -> None:
    world.settings({})
    world.row("app/feature", id=801, title="elsewhere")
    body = {"cwd": str(world.root / "app"), "scope": "self", "observation": 801}
    (fate,) = asked(world, "POST", "/v1/explain", body)["observation"]
    assert "scope self" in fate["detail"]


def asked(world: World, method: str, path: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    answer = world.daemon.request(method, path, data)
    assert answer.status == 200, answer.body
    return answer.json()


def hook_text(world: World, name: str) -> str:
    call = {"session_id": name, "cwd": str(world.root / "app"), "hook_event_name": "SessionStart"}
    done = subprocess.run(
        [*command(), "hook", "claude-code"],
        input=json.dumps(call).encode(),
        env=world.daemon.environ,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
