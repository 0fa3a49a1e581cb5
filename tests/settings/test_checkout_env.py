"""Which of a caller's variables are a checkout's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.settings.checkout_env import GUARDED, without_checkouts_word
from claudemem_daemon.settings.model import DATA_DIR

STORES = "CLAUDE_MEM_DAEMON_STORES"


@pytest.mark.parametrize(
    ("named", "given_env", "left"),
    [
        ({STORES: "x"}, "x", {}),
        ({STORES: "y"}, "x", {STORES: "x"}),
        ({}, "x", {STORES: "x"}),
        ({STORES: 1}, "1", {}),
        ({STORES: True}, "true", {}),
        ({STORES: ["x"]}, "x", {}),
        ({STORES: "x\0y"}, "x", {}),
        ({STORES + "\0y": "x"}, "x", {}),
        ([], "x", {STORES: "x"}),
    ],
)
def test_equal_values_are_the_checkouts(
    tmp_path: Path, named: Any, given_env: str, left: dict[str, str]
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": named}))
    found = without_checkouts_word({STORES: given_env}, [str(tmp_path / "sub")], "/home")
    assert found.env == left
    assert found.refused == ({} if left else {STORES: given_env})
    assert bool(found.warnings) is not bool(left)


@pytest.mark.parametrize(
    "name", [".env", ".gemini/.env", ".env.local", ".env.development", ".env.production.local"]
)
def test_what_a_dotenv_file_mentions_is_the_checkouts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir(parents=True)
    assert without_checkouts_word({STORES: "x"}, [str(tmp_path)], "/home").env, "a folder"
    path.rmdir()
    path.write_text(f"A=1\nexport {STORES} = `y`\n")
    assert without_checkouts_word({STORES: "x"}, [str(tmp_path)], "/home").refused == {STORES: "x"}
    path.write_text("A=1\n")
    assert without_checkouts_word({STORES: "x"}, [str(tmp_path)], "/home").env


def test_where_the_assistant_was_started_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": {STORES: "x"}}))
    for name in ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR", "GEMINI_CWD"):
        env = {STORES: "x", name: str(tmp_path / "sub")}
        assert without_checkouts_word(env, ["/nonexistent"], "/home").refused == {STORES: "x"}
    assert without_checkouts_word({STORES: "x", "GEMINI_CWD": "."}, ["/nonexistent"], "/home").env


@pytest.mark.parametrize("path", [".claude/settings.json", ".env"])
def test_a_checkout_that_names_the_data_dir_names_a_store_alone(tmp_path: Path, path: str) -> None:
    """`allow` is about that store; the settings beside it are never in force."""
    (tmp_path / ".claude").mkdir()
    text = json.dumps({"env": {DATA_DIR: "/x"}}) if path.endswith("json") else f"{DATA_DIR}=/x"
    (tmp_path / path).write_text(text)
    found = without_checkouts_word({DATA_DIR: "/x"}, [str(tmp_path)], "/home")
    assert found.env == {}
    assert found.left({DATA_DIR: "/x", STORES: "y"}) == {STORES: "y"}
    assert found.left({DATA_DIR: "/y"}) == {DATA_DIR: "/y"}, "the daemon's own"


@given(st.dictionaries(st.sampled_from([*GUARDED, "CLAUDE_MEM_MODE"]), st.text()))
def test_nothing_is_looked_at_where_nothing_is_to_be_guarded(env: dict[str, str]) -> None:
    found = without_checkouts_word(env, ["/nonexistent/a/b"], "/home")
    assert found.env == env
    assert bool(found.dependencies) is bool(env.keys() & GUARDED)


def test_the_home_folders_own_files_are_the_users(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": {STORES: "x"}}))
    assert without_checkouts_word({STORES: "x"}, [str(tmp_path / "a")], str(tmp_path)).env
    assert not without_checkouts_word({STORES: "x"}, [str(tmp_path / "a")], "/home").env
