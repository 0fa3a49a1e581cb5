"""Cells of a size that no honest row has: they cost themselves, not the answer, the memory or the
daemon."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from claudemem_daemon.stores.bounds import MAX_LIST, MAX_TEXT
from tests.support.daemon import Daemon, command
from tests.support.stores import add_observation, add_observations, add_summary, make_store

MIB: Final = 1 << 20
ROWS: Final = 20
LARGE: Final = ROWS + 1
"""The id of the row with the large cell."""

TEXTS: Final = ("title", "subtitle", "narrative", "text", "created_at", "discovery_tokens")
LISTS: Final[dict[str, Any]] = {
    "facts": [f"fact number {n}" for n in range(100_000)],
    "concepts": ["how-it-works", *(f"concept {n}" for n in range(100_000))],
    "files_read": [f"/elsewhere/place{n}/file.py" for n in range(100_000)],
    "files_modified": "[" + ",".join(["[" * 900 + "]" * 900] * 2_000) + "]",
}
NAMES: Final = ("type", "session", "project", "merged_into_project", "created_at_epoch")
"""Columns by which rows are found; a row with a large one is perhaps nobody's."""
DEADLINE: Final = 1.5
"""Seconds, as by default."""
FEW: Final = 24 * 1024
"""KiB that the daemon may take beyond what it has when idle: code that is loaded, an answer's text.
A cell of these tests is larger, or becomes so when it is decoded."""


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """As users have it: the memory that Python's development mode takes is not what is measured. A
    bound on processor time stands for the deadline, which a busy machine passes without our fault."""
    settings = home / ".claude-mem" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"CLAUDE_MEM_DAEMON_TIMEOUT_MS": 60_000}))
    with Daemon(home, program=command()) as running:
        yield running


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "app"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def store(home: Path) -> str:
    path = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observations(path, [{} for _ in range(ROWS)])
    return path


def ask(daemon: Daemon, repository: Path) -> dict[str, Any]:
    """All routes that read rows; what the query says."""
    body = {"cwd": str(repository)}
    spent = daemon.processor_seconds()
    replies = [
        daemon.post("/v1/query", body),
        daemon.post("/v1/explain", body),
        daemon.get("/api/context/inject", {"cwd": str(repository)}),
        daemon.get("/v1/search", {"cwd": str(repository), "q": "happened"}),
        daemon.get("/v1/projects", {"cwd": str(repository)}),
    ]
    assert [one.status for one in replies] == [200] * len(replies), [one.text for one in replies]
    assert daemon.processor_seconds() - spent < len(replies) * DEADLINE
    shape: dict[str, Any] = replies[0].json()
    return shape


def titles(shape: dict[str, Any]) -> dict[int, str]:
    return {one["id"]: one["title"] for one in shape["observations"]}


def said(shape: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (one["path"], one["key"]) for one in shape["warnings"] if one["code"] == "cell_too_large"
    ]


@contextmanager
def health_meanwhile(daemon: Daemon) -> Iterator[None]:
    """/healthz answers all the time."""
    over = threading.Event()
    failed: list[OSError | int] = []

    def work() -> None:
        while not over.is_set():
            try:
                status = daemon.request("GET", "/healthz", timeout=5).status
            except OSError as error:
                failed.append(error)
            else:
                failed.extend([status] if status != 200 else [])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failed == []


@pytest.mark.parametrize("column", TEXTS)
def test_a_large_text_is_left_out_and_said(
    daemon: Daemon, repository: Path, store: str, column: str
) -> None:
    size = 40 * MIB
    add_observation(store, **{column: "wörd " * (size // 6)})
    idle = daemon.memory_kb()
    shape = ask(daemon, repository)
    row = next(one for one in shape["observations"] if one["id"] == LARGE)
    assert len(shape["observations"]) == LARGE
    assert said(shape) == [(store, column)]
    if column in row and column != "discovery_tokens":
        assert row[column] == f"[left out: {size // 6 * 6:,} bytes]"
    assert daemon.memory_kb("VmHWM") - idle < FEW


@pytest.mark.parametrize("column", LISTS)
def test_a_large_list_is_left_out_and_said(
    daemon: Daemon, repository: Path, store: str, column: str
) -> None:
    add_observation(store, **{column: LISTS[column]})
    idle = daemon.memory_kb()
    shape = ask(daemon, repository)
    row = next(one for one in shape["observations"] if one["id"] == LARGE)
    assert row["title"] == f"Observation {LARGE}"
    assert row[column] == []
    assert said(shape) == [(store, column)]
    assert daemon.memory_kb("VmHWM") - idle < FEW


@pytest.mark.parametrize("column", NAMES)
def test_a_large_name_costs_its_own_row_at_most(
    daemon: Daemon, repository: Path, store: str, column: str
) -> None:
    add_observation(store, **{column: "app/" + "word " * (8 * MIB)})
    idle = daemon.memory_kb()
    shape = ask(daemon, repository)
    assert {one: f"Observation {one}" for one in range(1, LARGE)}.items() <= titles(shape).items()
    # SQLite compares a whole name with the one that is looked for in its index.
    allowed = FEW + (48 * 1024 if "project" in column else 0)
    assert daemon.memory_kb("VmHWM") - idle < allowed


def test_a_large_text_of_a_summary_is_left_out(
    daemon: Daemon, repository: Path, store: str
) -> None:
    add_summary(store, request="word " * (8 * MIB), files_edited=LISTS["files_read"])
    shape = ask(daemon, repository)
    assert shape["summaries"][0]["request"] == f"[left out: {40 * MIB:,} bytes]"
    assert said(shape) == [(store, "request"), (store, "files_edited")]


def test_rows_that_differ_beyond_the_bound_are_no_copies(
    daemon: Daemon, repository: Path, store: str
) -> None:
    same = {"title": "same", "created_at_epoch": 1_767_300_000_000}
    for facts in (["a" * MAX_LIST], ["b" * (MAX_LIST + 1)]):
        add_observation(store, **same, narrative="same", facts=facts)
    assert list(titles(ask(daemon, repository)).values()).count("same") == 2


def test_the_bound_itself_is_whole(daemon: Daemon, repository: Path, store: str) -> None:
    whole = "x" * MAX_TEXT
    add_observation(store, narrative=whole)
    shape = ask(daemon, repository)
    assert shape["observations"][0]["narrative"] == whole
    assert said(shape) == []


def test_no_row_is_missing_for_the_large_cells_of_others(
    daemon: Daemon, repository: Path, store: str
) -> None:
    add_observations(store, [{"narrative": "x" * (MAX_TEXT + 1)} for _ in range(45 - ROWS)])
    idle = daemon.memory_kb()
    shape = ask(daemon, repository)
    assert set(titles(shape)) == set(range(1, 46))
    assert said(shape) == [(store, "narrative")]
    assert daemon.memory_kb("VmHWM") - idle < FEW


def test_nobody_waits_for_a_huge_cell(
    daemon: Daemon, repository: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """One row with every cell huge; beside it /healthz answers, and the daemon ends at once."""
    # A row holds a billion bytes at most.
    size = (180 if request.config.getoption("--long") else 30) * MIB
    facts = json.dumps([f"fact number {n}" for n in range(size // 24)])
    files = json.dumps([f"/elsewhere/place{n}/file.py" for n in range(size // 36)])
    lists = {"facts": facts, "concepts": facts, "files_read": files, "files_modified": files}
    add_observation(store, narrative="word " * (size // 5), **lists)
    idle = daemon.memory_kb()
    with health_meanwhile(daemon):
        shape = ask(daemon, repository)
    assert LARGE in titles(shape)
    assert len(said(shape)) == 5
    assert daemon.memory_kb("VmHWM") - idle < FEW
    assert daemon.stop() == 0


def test_many_rows_just_under_the_bounds_are_read_as_far_as_memory_goes(
    daemon: Daemon, repository: Path, store: str
) -> None:
    text, files = "x" * MAX_TEXT, json.dumps(["x" * (MAX_LIST // 2)])
    row = {"subtitle": text, "narrative": text, "text": text, "facts": files, "files_read": files}
    add_observations(store, [{"title": f"{n} {text[9:]}", **row} for n in range(60)])
    idle = daemon.memory_kb()
    shape = ask(daemon, repository)
    newest = [int(title.partition(" ")[0]) for title in titles(shape).values()]
    assert newest == list(range(59, 59 - len(newest), -1))
    assert len(newest) > 1
    assert [one["code"] for one in shape["warnings"]] == ["rows_too_large"]
    asked = {"q": "xxx", "limit": "60", "cwd": str(repository)}
    found = daemon.get("/v1/search", asked).json()
    assert 1 < len(found["observations"]) < 60
    assert [one["code"] for one in found["warnings"]] == ["rows_too_large"]
    assert daemon.memory_kb("VmHWM") - idle < 160 * 1024


def test_news_of_large_rows_comes_by_and_by(daemon: Daemon, repository: Path, store: str) -> None:
    def told(event: str) -> str:
        call = {"hook_event_name": event, "session_id": "s", "cwd": str(repository), "prompt": "p"}
        return daemon.post("/v1/hooks/claude-code", call).text

    told("SessionStart")
    text = "x" * MAX_TEXT
    row = {"subtitle": text, "narrative": text, "text": text, "memory_session_id": "another"}
    add_observations(store, [{"title": f"row-{n}-", **row} for n in range(20)])
    answers = [told("UserPromptSubmit") for _ in range(20)]
    assert ["".join(answers).count(f"row-{n}-") for n in range(20)] == [1] * 20
