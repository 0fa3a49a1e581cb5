"""A wrong value never stops an answer, whatever it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.question import Question
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.exclusion import excluded
from claudemem_daemon.settings.keys import DATA_DIR, KEYS, MOST_OBSERVATIONS, suggest
from claudemem_daemon.settings.model import KEY_FIELDS
from claudemem_daemon.settings.sources import Rejected, parse

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(KEYS)), json_values)
def test_a_parser_takes_a_value_or_says_why_not(name: str, value: Any) -> None:
    reason = None
    taken: Any = None
    try:
        taken = KEYS[name].parse(value, "/home/me").value
    except ValueError as error:
        reason = str(error)
    if reason is not None:
        assert reason
        assert "\n" not in reason
    elif KEYS[name].field in ("limit", "full_count"):
        assert 0 <= taken <= MOST_OBSERVATIONS


@given(st.binary(max_size=200) | json_values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_settings_or_rejected(data: bytes) -> None:
    values = parse(data)
    if isinstance(values, Rejected):
        assert values.reason
        assert "\n" not in values.reason
    else:
        assert isinstance(values, dict)


@given(st.dictionaries(st.sampled_from([*KEYS, "env", DATA_DIR, "OTHER"]), json_values))
def test_any_settings_file_gives_whole_settings(values: dict[str, Any]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as home:
        folder = Path(home) / ".claude-mem"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps(values))
        settings = Configuration({"HOME": home}).snapshot(Question(cwd="/"))
    for key in KEY_FIELDS:
        assert key in settings.sources or settings.value(key) is not None
    assert 50 <= settings.timeout_ms <= 60_000
    assert all("\n" not in warning.message for warning in settings.warnings)


def configured(home: Path, values: object, **environ: str) -> Configuration:
    folder = home / ".claude-mem"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(values))
    return Configuration({"HOME": str(home), **environ})


def ask(configuration: Configuration, **env: str) -> Any:
    return configuration.snapshot(Question(cwd="/", env=env))


LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"
TYPES = "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES"


def test_the_stronger_source_wins(tmp_path: Path) -> None:
    configuration = configured(tmp_path, {LIMIT: 3}, **{LIMIT: "4"})
    assert ask(configuration, **{LIMIT: "5"}).limit == 5
    assert ask(configuration).limit == 4
    assert ask(configured(tmp_path, {LIMIT: 3})).limit == 3
    assert ask(configured(tmp_path, {"env": {LIMIT: 6}})).limit == 6
    assert ask(configured(tmp_path, {})).limit == 50
    asked = Question(cwd="/", limit=2, env={LIMIT: "5"})
    assert configuration.snapshot(asked).limit == 2


def test_our_own_limit_wins_over_claude_mems(tmp_path: Path) -> None:
    settings = ask(configured(tmp_path, {LIMIT: 0, "CLAUDE_MEM_DAEMON_OBSERVATIONS": 9}))
    assert settings.limit == 9


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", None), ([], ()), (",", ()), ("*", ("*",)), ("A, b ,,a", ("a", "b"))],
)
def test_what_an_empty_list_means(
    tmp_path: Path, given: object, expected: tuple[str, ...] | None
) -> None:
    settings = ask(configured(tmp_path, {TYPES: given}))
    if expected is None:
        assert settings.types == tuple(item.id for item in settings.mode.types)
        assert settings.sources[TYPES].origin == "mode"
    else:
        assert settings.types == expected
        assert settings.types_restricted is (expected != ("*",))


def test_a_mode_without_concepts_restricts_none(tmp_path: Path) -> None:
    modes = tmp_path / "modes"
    modes.mkdir()
    (modes / "free.json").write_text(
        '{"observation_types": [{"id": "note"}], "observation_concepts": []}'
    )
    settings = ask(
        configured(tmp_path, {"CLAUDE_MEM_MODE": "free"}), CLAUDE_MEM_MODES_DIR=str(modes)
    )
    assert settings.types == ("note",)
    assert settings.concepts_restricted is False


def test_a_variant_inherits_from_its_parent(tmp_path: Path) -> None:
    modes = tmp_path / ".claude-mem" / "modes"
    modes.mkdir(parents=True)
    (modes / "law.json").write_text('{"name": "Law", "observation_types": [{"id": "case"}]}')
    (modes / "law--ja.json").write_text('{"name": "Hou"}')
    settings = ask(configured(tmp_path, {"CLAUDE_MEM_MODE": "law--ja"}))
    assert (settings.mode.name, settings.types) == ("Hou", ("case",))


def test_a_value_gone_wrong_keeps_the_last_good_one(tmp_path: Path) -> None:
    configuration = configured(tmp_path, {LIMIT: 7})
    assert ask(configuration).limit == 7
    (tmp_path / ".claude-mem" / "settings.json").write_text(json.dumps({LIMIT: "nonsense"}))
    settings = ask(configuration)
    assert settings.limit == 7
    assert "last good value" in settings.warnings[0].message


@pytest.mark.parametrize("kind", ["folder", "fifo", "huge", "loop"])
def test_what_is_no_settings_file_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ".claude-mem"
    folder.mkdir()
    path = folder / "settings.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        path.write_bytes(b" " * (2 << 20))
    else:
        path.symlink_to(path)
    settings = Configuration({"HOME": str(tmp_path)}).snapshot(Question(cwd="/"))
    assert settings.limit == 50
    assert [warning.code for warning in settings.warnings] == ["settings_rejected"]


def test_the_data_dir_is_absolute_or_ignored(tmp_path: Path) -> None:
    elsewhere = tmp_path / "data"
    elsewhere.mkdir()
    (elsewhere / "settings.json").write_text(json.dumps({LIMIT: 8}))
    configuration = configured(tmp_path, {DATA_DIR: "~/data"})
    settings = ask(configuration)
    assert (settings.data_dir, settings.limit) == (str(elsewhere), 8)
    relative = ask(configuration, **{DATA_DIR: "x/y"})
    assert relative.data_dir == str(elsewhere)
    assert any(warning.key == DATA_DIR for warning in relative.warnings)


@pytest.mark.parametrize(
    ("path", "patterns", "hit"),
    [
        ("/h/secret/app", ("/h/secret/**",), True),
        ("/h/secret", ("/h/secret/**",), True),
        ("/h/secrets", ("/h/secret/**",), False),
        ("/w/foo-scratch", ("*-scratch",), True),
        ("/w/foo-scratch/src", ("*-scratch",), True),
        ("/w/foo-scratchy", ("*-scratch",), False),
        ("/w/a/b", ("/w/*",), True),
        ("/w/a/b", ("/w/?",), True),
        ("/x/w/a", ("/w/*",), False),
        ("/w/a.b", ("/w/a?b",), True),
        ("/w/axb", ("/w/a.b",), False),
        ("/any/where/node", ("/**/node",), True),
        ("/w/app", (), False),
    ],
)
def test_exclusion_globs(path: str, patterns: tuple[str, ...], hit: bool) -> None:
    assert excluded(path, patterns) is hit


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=15), max_size=4))
def test_no_pattern_is_too_odd(path: str, patterns: list[str]) -> None:
    assert excluded("/" + path, tuple(patterns)) in (True, False)


@given(st.text(min_size=1).filter(lambda name: not set(name) & set("/*?~")))
def test_a_name_excludes_the_folder_of_that_name(name: str) -> None:
    assert excluded(f"/w/{name}/src", (name,))


def test_a_misspelt_key_has_a_suggestion() -> None:
    assert suggest("CLAUDE_MEM_DAEMON_ALIAS") == "CLAUDE_MEM_DAEMON_ALIASES"
    assert suggest("CLAUDE_MEM_DAEMON_ALIASES") is None
    assert suggest("CLAUDE_MEM_TELEGRAM_BOT_TOKEN") is None
