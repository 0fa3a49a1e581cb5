"""A wrong value never stops an answer, whatever it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.settings.misspelt import suggest
from claudemem_daemon.settings.model import DATA_DIR, KEYS, MAX_OBSERVATIONS
from claudemem_daemon.settings.sources import Rejected, document
from tests.settings.support import LIMIT, TYPES, Home

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4)
    ),
    max_leaves=8,
)
names = st.sampled_from(sorted(KEYS))


@given(names, json_values)
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
        assert 0 <= taken <= MAX_OBSERVATIONS


@given(st.integers() | st.text("0123456789 -+.e", max_size=12) | st.floats() | st.booleans())
def test_a_count_is_the_number_it_shows_or_nothing(value: Any) -> None:
    """The rule in other words: digits alone, whatever is around them, and no more than the most."""
    text = str(value).strip()
    digits = not isinstance(value, bool | float) and text.isascii() and text.isdigit()
    try:
        taken = KEYS[LIMIT].parse(value, "/").value
    except ValueError:
        assert not digits
    else:
        assert digits
        assert taken == min(int(text), MAX_OBSERVATIONS)


@given(st.binary(max_size=200) | json_values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_settings_or_rejected(data: bytes) -> None:
    read = document(data)
    if isinstance(read, Rejected):
        assert read.reason
        assert "\n" not in read.reason
        assert (read.line is None) is (read.column is None)
    else:
        assert isinstance(read.values, dict)
        assert all("\n" not in note for note in read.notes)


@given(
    st.dictionaries(st.sampled_from([*KEYS, "env", DATA_DIR, "OTHER"]), json_values),
    st.dictionaries(names, st.text(max_size=12).filter(lambda text: "\0" not in text)),
)
def test_any_file_and_any_environment_give_whole_settings(
    values: dict[str, Any], env: dict[str, str]
) -> None:
    """Defaults or something in range, one warning for each wrong key and source, in one line."""
    with TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.write(values)
        settings = home.ask(env)
        again = home.ask(env)
    for key in (DATA_DIR, *KEYS):
        assert key in settings.sources
        settings.value(key)
    assert 0 <= settings.limit <= MAX_OBSERVATIONS
    assert 50 <= settings.timeout_ms <= 60_000
    assert settings.scope in ("all", "parent", "self")
    assert os.path.isabs(settings.data_dir)
    assert all("\n" not in warning.message for warning in settings.warnings)
    assert all(warning.key or warning.path for warning in settings.warnings)
    assert again.warnings == settings.warnings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", None),
        ("  ", None),
        ([], ()),
        (",", ()),
        ("*", ("*",)),
        ("A, b ,,a", ("a", "b")),
        ("[]", ()),
        (' ["A", "b ", "a"]\n', ("a", "b")),
        ('["*"]', ("*",)),
    ],
)
def test_what_an_empty_list_means(
    tmp_path: Path, given: object, expected: tuple[str, ...] | None
) -> None:
    home = Home(tmp_path)
    home.write({TYPES: given})
    settings = home.ask()
    assert settings.warnings == ()
    if expected is None:
        assert settings.types == tuple(item.id for item in settings.mode.types)
        assert settings.sources[TYPES].origin == "mode"
    else:
        assert settings.types == expected
        assert settings.types_restricted is (expected != ("*",))


@pytest.mark.parametrize("value", ['["bugfix"', "[bugfix]", "[1]", '["a", null]', "[" * 99_999])
def test_half_a_list_is_no_type_of_that_name(tmp_path: Path, value: str) -> None:
    home = Home(tmp_path)
    home.write({TYPES: value})
    settings = home.ask()
    assert settings.types == tuple(item.id for item in settings.mode.types)
    (warning,) = settings.warnings
    assert "a comma list or a list of texts is wanted" in warning.message


def test_patterns_may_be_a_list_written_as_text_and_brackets_stay_patterns(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for written, expected in (
        ('["/a, b/*", "~/c"]', ("/a, b/*", f"{tmp_path}/c")),
        ("[0-9]*, [0]", ("[0-9]*", "[0]")),
        ("[0]", ("[0]",)),
        ("[]", ()),
    ):
        home.write({"CLAUDE_MEM_EXCLUDED_PROJECTS": written})
        assert home.ask().excluded_projects == expected


def test_a_value_gone_wrong_keeps_the_last_good_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write({LIMIT: 7})
    assert home.ask().limit == 7
    for wrong in ("nonsense", None, -1):
        home.write({LIMIT: wrong})
        assert home.ask().limit == 7
        assert "last good value 7" in home.ask().warnings[0].message
    home.write({})
    home.write({LIMIT: "nonsense"})
    assert home.ask().limit == 7, "what nobody saw between never was in force"
    home.write({})
    home.ask()
    home.write({LIMIT: "nonsense"})
    assert home.ask().limit == 50


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("CLAUDE_MEM_DAEMON_ALIAS", "CLAUDE_MEM_DAEMON_ALIASES"),
        ("CLAUDE_MEM_CONTEXT_OBSERVATION_TYPE", TYPES),
        ("CLAUDE_MEM_CONTEXT_OBSERVATION", LIMIT),
        ("CLAUDE_MEM_EXCLUDE_PROJECTS", "CLAUDE_MEM_EXCLUDED_PROJECTS"),
        ("CLAUDE_MEM_DATADIR", DATA_DIR),
        ("claude_mem_mode", "CLAUDE_MEM_MODE"),
        ("CLAUDE_MEM_TELEGRAM_BOT_TOKEN", None),
        ("CLAUDE_MEM_SOMETHING_OF_NEXT_YEAR", None),
        ("PATH", None),
        ("", None),
    ],
)
def test_a_slip_of_the_pen_has_a_suggestion(written: str, meant: str | None) -> None:
    assert suggest(written) == meant


def test_no_key_that_means_something_is_called_a_slip() -> None:
    of_claude_mem = """
        API_TIMEOUT_MS AUTH_MODE CHROMA_MODE CONTEXT_DIRECTIVES_MAX CONTEXT_MAIN_AGENT_ONLY
        CONTEXT_SHOW_DIRECTIVES LLM_TIMEOUT_MS MODEL OBSERVER_CONTEXT_WINDOW PROJECT_ENVIRONMENTS
        REDIS_MODE SERVER_PROJECT_ID SESSION_INIT_TIMEOUT_MS SKIP_SUBAGENT_OBSERVATIONS TIER_FAST_MODEL
    """
    names = (*KEYS, DATA_DIR, *(f"CLAUDE_MEM_{name}" for name in of_claude_mem.split()))
    assert {name: suggest(name) for name in names if suggest(name)} == {}


def test_a_mapped_folder_that_can_be_no_checkouts_path_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    key = "CLAUDE_MEM_DAEMON_STORES"
    home.write({key: {"shop": "/a.db", "~/b": "/b.db", "*/c": "/c.db", "/d": "e.db"}})
    assert list(home.ask().stores) == [f"{tmp_path}/b", "*/c", "/d"]
    (warning,) = home.named(key)
    assert warning.message.endswith("not absolute, left out: 'shop', 'e.db'")
