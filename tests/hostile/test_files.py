"""settings.json, transcripts and our own files as anything: an answer, and never a fault."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claudemem_daemon.context.sanitize import one_line
from claudemem_daemon.transcript import project_folder
from tests.support.daemon import Daemon
from tests.support.stores import add_observation, make_store

DEEP = b"[" * 100_000 + b"]" * 100_000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def content(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


ODD: dict[str, Callable[[Path], None]] = {
    "fifo": fifo,
    "folder": folder,
    "loop": loop,
    "device": device,
    "sparse": sparse,
    "empty": content(b""),
    "deep": content(DEEP),
    "deep value": content(b'{"CLAUDE_MEM_DAEMON_STORES": ' + DEEP + b"}"),
    "digits": content(b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": ' + b"9" * 6000 + b"}"),
    "nan": content(
        b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": NaN, "CLAUDE_MEM_DAEMON_TIMEOUT_MS": -1e999}'
    ),
    "surrogates": content(b'{"CLAUDE_MEM_MODE": "\\ud800", "CLAUDE_MEM_MODES_DIR": "/\\udc80"}'),
    "nul": content(b'{"CLAUDE_MEM_DATA_DIR": "/a\\u0000b", "CLAUDE_MEM_MODES_DIR": "/\\u0000"}'),
    "utf-16": content('{"CLAUDE_MEM_MODE": "code"}'.encode("utf-16")),
    "zeros": content(b"\0" * 4096),
    "bytes": content(bytes(range(256)) * 100),
    "megabytes": content(b'{"x": "' + b"x" * (64 << 20) + b'"}'),
}


def put(path: Path, make: Callable[[Path], None]) -> None:
    """In the place of whatever was there."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    make(path)


def answers(daemon: Daemon, cwd: str) -> None:
    """Every kind of question is answered with 200."""
    start = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": cwd}
    for reply in (
        daemon.get("/healthz"),
        daemon.get("/v1/status"),
        daemon.post("/v1/reload"),
        daemon.post("/v1/query", {"cwd": cwd}),
        daemon.post("/v1/explain", {"cwd": cwd}),
        daemon.get("/api/context/inject", {"cwd": cwd}),
        daemon.post("/v1/hooks/claude-code", start),
    ):
        assert reply.status == 200, reply.body
    assert "Traceback" not in daemon.errors()
    assert "failed:" not in daemon.errors()


@pytest.mark.parametrize("odd", list(ODD))
def test_a_settings_file_that_is_anything_takes_nothing_away(
    daemon: Daemon, home: Path, odd: str
) -> None:
    """Case settings-as-anything: the last good values stand, and the rows are there."""
    path = home / ".claude-mem" / "settings.json"
    add_observation(make_store(home / ".claude-mem" / "claude-mem.db"), project="app", title="row")
    (home / "app").mkdir()
    path.write_text('{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 7}')
    answers(daemon, str(home / "app"))
    put(path, ODD[odd])
    answers(daemon, str(home / "app"))
    shape = daemon.post("/v1/query", {"cwd": str(home / "app")}).json()
    assert [row["title"] for row in shape["observations"]] == ["row"]
    put(path, content(b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 3}'))
    assert daemon.post("/v1/query", {"cwd": "/"}).json()["filters"]["limit"] == 3


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=9), inner)),
    max_leaves=6,
)
KEYS = [
    *("CLAUDE_MEM_CONTEXT_OBSERVATIONS", "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES", "CLAUDE_MEM_MODE"),
    *("CLAUDE_MEM_DAEMON_STORES", "CLAUDE_MEM_DAEMON_ALIASES", "CLAUDE_MEM_DAEMON_SCOPE", "env"),
    *("CLAUDE_MEM_DAEMON_CONTEXT_CHARS", "CLAUDE_MEM_EXCLUDED_PROJECTS", "CLAUDE_MEM_MODES_DIR"),
    *("CLAUDE_MEM_DAEMON_PROMPT_CONTEXT", "CLAUDE_MEM_CONTEXT_FULL_FIELD"),
]


@given(
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(st.sampled_from(KEYS), VALUES).map(lambda one: json.dumps(one).encode()),
    )
)
@settings(max_examples=30)
def test_any_settings_are_answered(shared_daemon: Daemon, data: bytes) -> None:
    path = Path(shared_daemon.home) / ".claude-mem" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    answers(shared_daemon, "/")


@pytest.mark.parametrize("odd", [*ODD, "bad byte"])
def test_a_transcript_that_is_anything_costs_no_answer(
    daemon: Daemon, home: Path, odd: str
) -> None:
    """Of a line with a byte that is no UTF-8, the byte alone is lost."""
    add_observation(make_store(home / ".claude-mem" / "claude-mem.db"), project="app", title="row")
    (home / "app").mkdir()
    (home / ".claude-mem" / "settings.json").write_text(
        '{"CLAUDE_MEM_CONTEXT_SHOW_LAST_MESSAGE": true}'
    )
    transcripts = Path(project_folder(str(home / "app"), str(home / ".claude")))
    transcripts.mkdir(parents=True)
    said = {"type": "assistant", "message": {"content": "the last @ words"}}
    line = json.dumps(said).encode() + b"\n"
    put(
        transcripts / "a.jsonl", content(line.replace(b"@", b"\xff" if odd == "bad byte" else b"@"))
    )
    if odd != "bad byte":
        put(transcripts / "b.jsonl", ODD[odd])
        os.utime(transcripts / "a.jsonl", (0, 0))
    answers(daemon, str(home / "app"))
    text = daemon.get("/api/context/inject", {"cwd": str(home / "app")}).text
    if odd == "bad byte":
        assert one_line("the last \ufffd words") in text
    else:
        assert "the last @ words" in text


@pytest.mark.parametrize("name", ["trusted.json", "daemon.log", "sessions.json", "hook.log"])
@pytest.mark.parametrize("odd", ["fifo", "folder", "loop", "device", "bytes"])
def test_a_file_of_our_own_that_is_anything_stops_nothing(home: Path, name: str, odd: str) -> None:
    (home / ".claude-mem" / "daemon").mkdir(parents=True, mode=0o700)
    (home / ".claude-mem" / "daemon").chmod(0o700)
    put(home / ".claude-mem" / "daemon" / name, ODD[odd])
    (home / "app").mkdir()
    with Daemon(home) as daemon:
        answers(daemon, str(home / "app"))
