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
    assert found.refused == frozenset([STORES][len(left) :])
    assert bool(found.warnings) is not bool(left)


@given(st.dictionaries(st.sampled_from([*GUARDED, DATA_DIR, "CLAUDE_MEM_MODE"]), st.text()))
def test_nothing_is_looked_at_where_nothing_is_to_be_guarded(env: dict[str, str]) -> None:
    found = without_checkouts_word(env, ["/nonexistent/a/b"], "/home")
    assert found.env == env
    assert bool(found.dependencies) is bool(env.keys() & {*GUARDED, DATA_DIR})


def test_the_home_folders_own_files_are_the_users(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": {STORES: "x"}}))
    assert without_checkouts_word({STORES: "x"}, [str(tmp_path / "a")], str(tmp_path)).env
    assert not without_checkouts_word({STORES: "x"}, [str(tmp_path / "a")], "/home").env
