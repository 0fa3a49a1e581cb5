"""What is in force: sources, precedence, last good values, and how fast a change is taken."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.dependencies import all_hold
from claudemem_daemon.settings.exclusion import excluding
from claudemem_daemon.settings.model import KEYS, MAX_OBSERVATIONS, OWN_NAMES
from tests.settings.support import (
    CONCEPTS,
    DATA_DIR,
    EXCLUDED,
    LIMIT,
    MODE,
    OWN_LIMIT,
    TYPES,
    Home,
    freeze_stats,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_lists_are_trimmed_folded_and_narrowed_live(home: Home) -> None:
    """Case filters-never-reach-query."""
    home.write({TYPES: "bugfix, Decision ,", CONCEPTS: "gotcha"})
    first = home.ask()
    assert (first.types, first.types_restricted) == (("bugfix", "decision"), True)
    assert (first.concepts, first.concepts_restricted) == (("gotcha",), True)
    assert first.sources[TYPES].origin == "settings"
    assert first.sources[TYPES].detail == str(home.file)
    assert first.warnings == ()
    home.write({TYPES: "feature", CONCEPTS: "gotcha"})
    assert home.ask().types == ("feature",)


LEGAL = {
    "name": "Legal",
    "observation_types": [{"id": "issue-spotted", "label": "Issue"}, {"id": "case-law"}],
    "observation_concepts": [{"id": "doctrine"}],
}


def test_a_list_of_another_mode_never_empties_the_context(home: Home) -> None:
    """Case mode-switch-empties-context."""
    home.mode("legal", LEGAL)
    home.write({TYPES: "bugfix,feature"})
    assert home.ask().types == ("bugfix", "feature")
    home.write({TYPES: "bugfix,feature", CONCEPTS: "gotcha", MODE: "legal"})
    switched = home.ask()
    assert switched.types == ("issue-spotted", "case-law")
    assert switched.concepts == ("doctrine",)
    assert switched.sources[TYPES].origin == "mode"
    assert [warning.code for warning in switched.warnings] == ["setting_of_other_mode"] * 2
    home.write({TYPES: "bugfix,case-law", MODE: "legal"})
    partly = home.ask()
    assert partly.types == ("case-law",)
    assert [warning.key for warning in partly.warnings] == [TYPES]
    assert "'bugfix'" in partly.warnings[0].message


def test_a_list_left_over_for_a_mode_without_concepts_restricts_nothing(home: Home) -> None:
    """Case mode-switch-empties-context, where the new mode has no concepts at all."""
    home.mode("free", {"observation_types": [{"id": "note"}], "observation_concepts": []})
    home.write({CONCEPTS: "gotcha", MODE: "free"})
    settings = home.ask()
    assert (settings.concepts, settings.concepts_restricted) == ((), False)
    assert [warning.key for warning in settings.warnings] == [CONCEPTS]


def test_what_a_caller_asks_for_is_no_leftover(home: Home) -> None:
    home.mode("legal", LEGAL)
    home.write({MODE: "legal"})
    assert home.ask({TYPES: "bugfix"}).types == ("bugfix",)
    asked = home.ask(types=("Bugfix", " "), concepts=())
    assert (asked.types, asked.concepts) == (("bugfix",), ())
    assert asked.concepts_restricted
    assert asked.sources[CONCEPTS].origin == "request"


def test_the_code_mode_keeps_ids_it_does_not_know(home: Home) -> None:
    home.write({TYPES: "bugfix,incident", MODE: "code--ja"})
    settings = home.ask()
    assert settings.types == ("bugfix", "incident")
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("value", "expected", "warned"),
    [
        (None, 50, True),
        ("", 50, True),
        ("abc", 50, True),
        ("-5", 50, True),
        (-5, 50, True),
        ("1e2", 50, True),
        (50.7, 50, True),
        ("50 ", 50, False),
        ("999999999999", MAX_OBSERVATIONS, True),
        (10**40, MAX_OBSERVATIONS, True),
        ("0" * 40 + "7", 7, False),
        (True, 50, True),
        ([50], 50, True),
        ("0", 0, False),
        (0, 0, False),
        ("٣", 50, True),
    ],
)
def test_a_count_is_a_whole_number_or_the_default(
    home: Home, value: Any, expected: int, warned: bool
) -> None:
    """Case settings-null-empty-nonnumeric."""
    home.write({LIMIT: value})
    assert home.ask().limit == expected
    named = home.named(LIMIT)
    assert len(named) == warned
    for warning in named:
        assert LIMIT in warning.message
        assert repr(value) in warning.message
        assert warning.path == str(home.file)


def test_numbers_and_lists_are_as_good_as_texts(home: Home) -> None:
    """Case settings-numbers-not-strings."""
    home.write({LIMIT: 7, TYPES: ["bugfix", "feature"], MODE: 1, EXCLUDED: None})
    settings = home.ask()
    assert settings.limit == 7
    assert settings.types == ("bugfix", "feature")
    assert settings.mode.id == "code"
    assert settings.excluded_projects == ()
    assert sorted(warning.key or "" for warning in settings.warnings) == [EXCLUDED, MODE]


def test_a_broken_file_takes_nothing_away(home: Home) -> None:
    """Case settings-partial-write-keeps-last-good."""
    home.write({LIMIT: 3})
    assert home.ask().limit == 3
    for broken, line, column in (
        (b"", 1, 1),
        (b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "9",', 1, 41),
        (b'{\n "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 9\n "X": 1}', 3, 2),
    ):
        home.rewrite(broken)
        settings = home.ask()
        assert settings.limit == 3
        assert [warning.code for warning in settings.warnings] == ["settings_rejected"]
        state = home.configuration.state()
        assert state.rejected is not None
        assert state.rejected.path == str(home.file)
        assert (state.rejected.line, state.rejected.column) == (line, column)
        assert f"line {line} column {column}" in state.rejected.reason
        assert "still using what was loaded at" in state.rejected.reason
        assert home.file.read_bytes() == broken
    home.rewrite(b'{"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "9",}')
    assert home.ask().limit == 3
    home.write({LIMIT: 9})
    assert home.ask().limit == 9
    assert home.ask().warnings == ()
    assert home.configuration.state().rejected is None


def test_a_link_whose_target_is_away_takes_nothing_away(home: Home) -> None:
    """A settings.json kept elsewhere, on a drive that is not mounted now."""
    home.write({LIMIT: 3})
    away = home.file.rename(home.file.with_name("kept.json"))
    home.file.symlink_to(away)
    assert home.ask().limit == 3
    content = away.read_bytes()
    away.unlink()
    assert home.ask().limit == 3
    assert [warning.code for warning in home.ask().warnings] == ["settings_rejected"]
    away.write_bytes(content.replace(b"3", b"9"))
    assert home.ask().limit == 9
    assert home.ask().warnings == ()


def test_a_file_that_never_was_good_means_the_defaults(home: Home) -> None:
    home.write(raw=b"{")
    assert home.ask().limit == 50
    state = home.configuration.state()
    assert state.loaded_at is None
    assert state.rejected is not None
    assert "the defaults are used" in state.rejected.reason


def test_exclusion_is_hot_and_knows_the_home_folder(home: Home) -> None:
    """Case excluded-projects-still-injected: paths like those of the report."""
    home.write({EXCLUDED: "~/secret/**, *-scratch"})
    patterns = home.ask().excluded_projects
    assert patterns == (f"{home.path}/secret/**", "*-scratch")
    assert excluding(f"{home.path}/secret/app", patterns)
    assert excluding(f"{home.path}/code/foo-scratch", patterns)
    assert not excluding(f"{home.path}/code/foo", patterns)
    assert not excluding(f"{home.path}/tmp/app-wt", patterns)
    home.write({})
    assert home.ask().excluded_projects == ()


def test_zero_is_a_count(home: Home) -> None:
    """Case zero-observations-means-off."""
    home.write({LIMIT: "0"})
    assert home.ask().limit == 0
    assert home.ask().warnings == ()
    home.write({LIMIT: "5"})
    assert home.ask().limit == 5


@pytest.mark.parametrize(
    ("before", "after", "field", "expected"),
    [
        ({}, {LIMIT: 2}, "limit", 2),
        ({}, {TYPES: "bugfix"}, "types", ("bugfix",)),
        ({}, {CONCEPTS: ["gotcha"]}, "concepts", ("gotcha",)),
        ({}, {EXCLUDED: "/w/*"}, "excluded_projects", ("/w/*",)),
        ({}, {"CLAUDE_MEM_DAEMON_SCOPE": "self"}, "scope", "self"),
        ({LIMIT: 2}, {}, "limit", 50),
        ({OWN_LIMIT: 4}, {OWN_LIMIT: 3}, "limit", 3),
    ],
)
def test_a_change_is_in_the_next_snapshot(
    home: Home, before: dict[str, Any], after: dict[str, Any], field: str, expected: Any
) -> None:
    """Case hot-reload-not-applied."""
    home.write(before)
    old = home.ask()
    home.write(after)
    assert not all_hold(old.dependencies)
    new = home.ask()
    assert getattr(new, field) == expected
    assert new.revision > old.revision


def test_changed_and_changed_back_is_what_it_was(home: Home) -> None:
    """Case hot-reload-not-applied: two changes at once, with and without anybody between."""
    home.write({LIMIT: 3})
    assert home.ask().limit == 3
    home.write({LIMIT: 4})
    home.write({LIMIT: 3})
    assert home.ask().limit == 3
    home.write({LIMIT: 4})
    assert home.ask().limit == 4
    home.write({LIMIT: 3})
    assert home.ask().limit == 3


def test_equal_size_and_times_are_noticed_by_a_reload(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case hot-reload-not-applied: a file system whose stat never tells of a change."""
    home.write({LIMIT: 3})
    freeze_stats(monkeypatch)
    old = home.ask()
    assert old.limit == 3
    home.write({LIMIT: 4})
    assert all_hold(old.dependencies)
    assert home.configuration.reload().revision == 2
    assert not all_hold(old.dependencies), "kept answers fall by the revision"
    assert home.ask().limit == 4
    assert home.configuration.reload().revision == 2, "the same content is no change"


def test_a_mode_file_that_comes_later_is_in_the_next_snapshot(home: Home) -> None:
    """Case hot-reload-not-applied, for the mode."""
    home.write({MODE: "legal"})
    old = home.settled()
    assert old.mode.id == "code"
    home.mode("legal", LEGAL)
    assert not all_hold(old.dependencies)
    assert home.settled().mode.name == "Legal"
    home.mode("legal", LEGAL | {"name": "Law"})
    assert home.ask().mode.name == "Law"


def test_a_reload_reads_the_mode_again_as_well(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mode("legal", LEGAL)
    home.write({MODE: "legal"})
    freeze_stats(monkeypatch)
    home.settled()
    home.mode("legal", LEGAL | {"name": "Law"})
    assert home.ask().mode.name == "Legal"
    home.configuration.reload()
    assert home.ask().mode.name == "Law"


def test_sources_outrank_each_other_in_the_promised_order(tmp_path: Path) -> None:
    home = Home(tmp_path, **{LIMIT: "4", TYPES: ""})
    home.write({LIMIT: 3, TYPES: "bugfix", CONCEPTS: "gotcha"})
    settings = home.ask({LIMIT: "5", CONCEPTS: ""})
    assert (settings.limit, settings.sources[LIMIT].origin) == (5, "caller")
    assert (settings.types, settings.sources[TYPES].origin) == (("bugfix",), "settings")
    assert (settings.concepts, settings.sources[CONCEPTS].origin) == (("gotcha",), "settings")
    assert (home.ask().limit, home.ask().sources[LIMIT].origin) == (4, "daemon")
    home.write({})
    assert home.ask().sources[TYPES].origin == "mode"
    assert home.ask().sources["CLAUDE_MEM_DAEMON_SCOPE"].origin == "default"
    asked = home.ask(limit=1, scope="self", env={LIMIT: "5"})
    assert (asked.limit, asked.scope) == (1, "self")
    assert asked.sources[LIMIT].origin == asked.sources["CLAUDE_MEM_DAEMON_SCOPE"].origin
    assert asked.sources[LIMIT].origin == "request"


def test_a_wrong_variable_gives_way_to_the_next_source(home: Home) -> None:
    home.write({LIMIT: 3})
    settings = home.ask({LIMIT: "many"})
    assert settings.limit == 3
    assert [warning.key for warning in settings.warnings] == [LIMIT]
    assert "'many'" in settings.warnings[0].message


def test_our_own_limit_wins_from_wherever_it_comes(home: Home) -> None:
    home.write({OWN_LIMIT: 9})
    settings = home.ask({LIMIT: "3"})
    assert settings.limit == 9
    assert settings.sources[LIMIT].detail == f"{OWN_LIMIT} in {home.file}"
    assert home.ask({OWN_LIMIT: "2"}).limit == 2


@pytest.mark.parametrize("where", ["file", "caller"])
@pytest.mark.parametrize("name", OWN_NAMES)
def test_every_key_of_our_own_wins_over_claude_mems(home: Home, name: str, where: str) -> None:
    """For this daemon alone, wherever either stands; `config` shows both."""
    own, key = OWN_NAMES[name], KEYS[name]
    theirs: Any = not key.default if isinstance(key.default, bool) else 7
    ours: Any = key.default if isinstance(key.default, bool) else 9
    if name in (TYPES, CONCEPTS):
        theirs, ours = "x", "y"
    elif name == "CLAUDE_MEM_CONTEXT_FULL_FIELD":
        theirs, ours = "narrative", "facts"
    if where == "file":
        home.write({own: ours})
        settings = home.ask({name: str(theirs).lower()})
        assert settings.sources[name].detail == f"{own} in {home.file}"
    else:
        home.write({name: theirs})
        settings = home.ask({own: str(ours).lower()})
        assert settings.sources[name].detail == own
    parsed = key.parse(ours, "/").value
    assert settings.value(name) == settings.value(own) == parsed
    assert settings.sources[name].origin == ("settings" if where == "file" else "caller")
    assert settings.warnings == ()
    home.write({name: theirs})
    assert home.ask().value(own) is None
    assert home.ask().value(name) == key.parse(theirs, "/").value


def test_full_asks_for_everything_and_a_limit_still_counts(home: Home) -> None:
    home.write({LIMIT: 3})
    assert home.ask(full=True).limit == MAX_OBSERVATIONS
    assert home.ask(full=True, limit=2).limit == 2


@pytest.mark.parametrize(
    "raw",
    [
        {"/w/*": ["~/a.db", "/b"], "*": "/c"},
        json.dumps({"/w/*": ["~/a.db", "/b"], "*": "/c"}),
    ],
    ids=["object", "JSON text"],
)
def test_stores_are_an_object_or_its_text(home: Home, raw: Any) -> None:
    home.write({"CLAUDE_MEM_DAEMON_STORES": raw})
    expected = {"/w/*": (f"{home.path}/a.db", "/b"), "*": ("/c",)}
    assert home.ask().stores == expected
    assert home.ask().warnings == ()
    if isinstance(raw, str):
        assert home.ask({"CLAUDE_MEM_DAEMON_STORES": raw}).stores == expected


def test_a_relative_store_is_left_out_and_named(home: Home) -> None:
    home.write({"CLAUDE_MEM_DAEMON_STORES": {"*": ["here.db", "/there.db"]}})
    assert home.ask().stores == {"*": ("/there.db",)}
    assert "'here.db'" in home.named("CLAUDE_MEM_DAEMON_STORES")[0].message


def test_a_settings_file_of_claude_mems_own_has_nothing_wrong(home: Home) -> None:
    """claude-mem fills a new settings.json with all its defaults, empty lists as empty texts."""
    home.write(
        {
            LIMIT: "50",
            TYPES: "",
            CONCEPTS: "",
            EXCLUDED: "",
            MODE: "code",
            DATA_DIR: str(home.folder),
            "CLAUDE_MEM_CONTEXT_FULL_COUNT": "0",
            "CLAUDE_MEM_CONTEXT_FULL_FIELD": "narrative",
            "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "10",
            "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": "true",
            "CLAUDE_MEM_CONTEXT_SHOW_LAST_MESSAGE": "false",
            "CLAUDE_MEM_CONTEXT_SHOW_SAVINGS_PERCENT": "true",
            "CLAUDE_MEM_CHROMA_PORT": "8000",
            "CLAUDE_MEM_TV_TOKEN": "",
        }
    )
    settings = home.ask()
    assert settings.warnings == ()
    assert settings.types == tuple(item.id for item in settings.mode.types)
    assert settings.concepts == tuple(item.id for item in settings.mode.concepts)
    assert len(settings.types) >= 6


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_both_shapes_of_the_file_are_read(home: Home, bom: bytes) -> None:
    home.write(raw=bom + json.dumps({"env": {LIMIT: 6, TYPES: "x"}}).encode())
    assert home.ask().limit == 6
    home.write(raw=bom + json.dumps({LIMIT: 3, "env": {LIMIT: 6, TYPES: "x"}}).encode())
    assert (home.ask().limit, home.ask().types) == (6, ("x",))
    assert home.ask().warnings == ()


def test_a_byte_that_is_no_utf8_costs_no_other_value(home: Home) -> None:
    home.write(
        raw=f'{{"{LIMIT}": 3, "{TYPES}": "x\udcff,bugfix"}}'.encode(errors="surrogateescape")
    )
    settings = home.ask()
    assert (settings.limit, settings.types) == (3, ("x\ufffd", "bugfix"))
    (warning,) = settings.warnings
    assert warning.code == "settings_odd"
    assert "line 1" in warning.message


def test_a_lone_surrogate_becomes_a_character_that_can_be_written(home: Home) -> None:
    home.write(
        raw=rb'{"%s": "\ud800x,\ud83d\ude00", "CLAUDE_MEM_DAEMON_STORES": {"*": "/\udfff"}}'
        % TYPES.encode()
    )
    settings = home.ask()
    assert settings.types == ("\ufffdx", "\U0001f600")
    assert settings.stores == {"*": ("/\ufffd",)}


def test_a_key_given_twice_is_named(home: Home) -> None:
    home.write(raw=f'{{"{LIMIT}": 3, "{LIMIT}": 4}}'.encode())
    settings = home.ask()
    assert settings.limit == 4
    assert [warning.code for warning in settings.warnings] == ["settings_odd"]
    assert LIMIT in settings.warnings[0].message


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b"[]",
        b"7",
        b"None",
        b'{"a": "\xff',
        b'{"a": ' + b"9" * 5000 + b"}",
        b" " * ((1 << 20) + 1),
        b"\xff\xfe{\x00}\x00",
    ],
    ids=["deep", "list", "number", "word", "latin", "digits", "huge", "utf-16"],
)
def test_what_is_no_settings_object_is_refused_in_one_line(home: Home, raw: bytes) -> None:
    home.write({LIMIT: 3})
    assert home.ask().limit == 3
    home.write(raw=raw)
    settings = home.ask()
    assert settings.limit == 3
    (warning,) = settings.warnings
    assert warning.code == "settings_rejected"
    assert str(home.file) in warning.message
    assert "\n" not in warning.message


def test_a_deep_value_is_named_without_being_shown(home: Home) -> None:
    for depth in range(880, 1000, 4):
        home.write(raw=f'{{"{TYPES}": {"[" * depth}{"]" * depth}}}'.encode())
        assert home.ask().types_restricted
        assert len(home.ask().warnings) == 1


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "unreadable", "under a file"])
def test_what_lies_in_the_way_holds_nobody_up(home: Home, kind: str) -> None:
    if kind == "under a file":
        home.folder.write_text("")
    else:
        home.folder.mkdir()
    if kind == "folder":
        home.file.mkdir()
    elif kind == "fifo":
        os.mkfifo(home.file)
    elif kind == "loop":
        home.file.symlink_to(home.file)
    elif kind == "unreadable":
        home.file.write_text("{}")
        home.file.chmod(0)
    settings = home.ask()
    assert settings.limit == 50
    if kind == "unreadable" and os.access(home.file, os.R_OK):
        assert settings.warnings == (), "root reads everything"
    else:
        assert [warning.code for warning in settings.warnings] == ["settings_rejected"]


def test_no_file_is_no_fault_and_nothing_is_created(home: Home) -> None:
    assert home.ask().warnings == ()
    state = home.configuration.state()
    assert (state.exists, state.loaded_at, state.path) == (False, None, str(home.file))
    home.configuration.reload()
    assert home.everything() == set()


def test_a_file_taken_away_means_the_defaults(home: Home) -> None:
    home.write({LIMIT: 3})
    assert home.ask().limit == 3
    home.file.unlink()
    assert home.ask().limit == 50
    assert home.ask().warnings == ()


def test_the_callers_data_dir_has_its_own_settings(home: Home) -> None:
    home.write({LIMIT: 3})
    other = Home(home.path / "other")
    other.write({LIMIT: 8})
    settings = home.ask({DATA_DIR: f"{home.path}/other/.claude-mem"})
    assert (settings.limit, settings.settings_path) == (8, str(other.file))
    assert (settings.data_dir, settings.sources[DATA_DIR].origin) == (str(other.folder), "caller")
    assert home.ask().limit == 3
    other.write({LIMIT: 9})
    assert home.ask({DATA_DIR: str(other.folder)}).limit == 9


def test_the_data_dir_of_the_file_at_home_counts_and_is_hot(home: Home) -> None:
    for name, limit in (("one", 1), ("two", 2)):
        (home.path / name).mkdir()
        (home.path / name / "settings.json").write_text(json.dumps({LIMIT: limit}))
    home.write({DATA_DIR: "~/one", LIMIT: 7})
    assert home.ask().limit == 1
    assert home.configuration.state().data_dir_source.origin == "settings"
    home.write({DATA_DIR: "~/two"})
    assert home.ask().limit == 2
    home.write(raw=b"{")
    assert home.ask().limit == 2, "the last good data dir stands"
    assert [warning.code for warning in home.ask().warnings] == ["settings_rejected"]
    assert home.configuration.state().rejected is not None
    home.write({DATA_DIR: "three"})
    assert home.ask().limit == 2
    assert "last good value '~/two'" in home.named(DATA_DIR)[0].message


def test_a_data_dir_that_is_not_absolute_is_named_and_passed_over(tmp_path: Path) -> None:
    home = Home(tmp_path, **{DATA_DIR: "daemon/dir"})
    settings = home.ask({DATA_DIR: "caller/dir"})
    assert settings.data_dir == str(home.folder)
    assert [warning.key for warning in settings.warnings] == [DATA_DIR, DATA_DIR]


def test_many_data_dirs_are_not_all_remembered(home: Home) -> None:
    home.write({LIMIT: 3})
    home.ask()
    for number in range(300):
        assert home.ask({DATA_DIR: f"/nowhere/{number}"}).limit == 50
    assert len(home.configuration._elsewhere) < 100
    home.write(raw=b"{")
    assert home.ask().limit == 3, "the usual one is never forgotten"


def test_state_names_every_wrong_value(home: Home) -> None:
    home.write({LIMIT: "many", MODE: "../x"})
    warnings = home.configuration.state().warnings
    assert {warning.key for warning in warnings} == {LIMIT, MODE}
    assert all(warning.path == str(home.file) for warning in warnings)


def test_an_unchanged_file_costs_one_stat_and_no_read(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write({LIMIT: 3})
    settings = home.settled()
    looked: list[str] = []
    stat = os.lstat

    def counted(path: str) -> os.stat_result:
        looked.append(path)
        return stat(path)

    def unexpected(path: str, *_: int) -> int:
        raise AssertionError(f"{path} was read")

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", counted)
        patched.setattr(os, "open", unexpected)
        assert home.ask() is settings
    assert looked.count(str(home.file)) == 1
    assert len(looked) == len(set(looked)), "nothing is looked at twice"


def test_threads_see_old_or_new_and_never_half(home: Home) -> None:
    """Each version of the file has one number in three keys."""
    three = (LIMIT, "CLAUDE_MEM_CONTEXT_FULL_COUNT", "CLAUDE_MEM_CONTEXT_SESSION_COUNT")
    home.write(dict.fromkeys(three, 1))
    stop = threading.Event()
    torn: list[tuple[int, ...]] = []

    def reader() -> None:
        while not stop.is_set():
            one = home.ask()
            seen = (one.limit, one.full_count, one.session_count)
            if len(set(seen)) != 1:
                torn.append(seen)

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2, 60):
        home.write(dict.fromkeys(three, number))
    home.configuration.reload()
    stop.set()
    for thread in threads:
        thread.join()
    assert torn == []
    assert home.ask().limit == 59


def test_every_key_of_the_table_is_read_from_the_file(home: Home) -> None:
    """A key that a snapshot forgets is the worst fault there is: a filter without effect."""
    values: dict[str, Any] = {
        "CLAUDE_MEM_MODES_DIR": str(home.path),
        MODE: "code--ja",
        "CLAUDE_MEM_CONTEXT_FULL_FIELD": "facts",
        "CLAUDE_MEM_DAEMON_SCOPE": "parent",
        "CLAUDE_MEM_DAEMON_PROMPT_CONTEXT": "off",
        "CLAUDE_MEM_DAEMON_STORES": {"*": "/s"},
        "CLAUDE_MEM_DAEMON_ALIASES": {"new": ["old"]},
        EXCLUDED: "x",
        TYPES: "x",
        CONCEPTS: "x",
    }
    for name, key in KEYS.items():
        if name not in values:
            values[name] = not key.default if isinstance(key.default, bool) else 777
    home.write(values)
    settings = home.ask()
    assert settings.warnings == ()
    assert {name for name in KEYS if settings.sources[name].origin != "settings"} == set()
