"""Modes: where they are looked for, what inherits from what, what stands in for a missing one."""

from __future__ import annotations

from pathlib import Path

import pytest

from claudemem_daemon.settings.modes import CODE, MAX_MODES, ModeFolders
from tests.settings.support import MODE, MODES_DIR, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def mode(name: str, *types: str) -> dict[str, object]:
    return {"name": name, "observation_types": [{"id": one} for one in types]}


@pytest.mark.parametrize(
    ("wanted", "warnings"),
    [
        ("code", 0),
        ("code--ja", 0),
        ("code--xx", 1),
        ("law-study", 1),
        ("unknown", 1),
        ("unknown--ja", 1),
        ("../../etc/passwd", 1),
        ("..", 1),
        (".", 1),
        ("--ja", 1),
        ("a/b", 1),
        ("a\\b", 1),
        ("a\0b", 1),
        ("", 1),
        ("x" * 300, 1),
    ],
)
@pytest.mark.parametrize("folder", [True, False], ids=["modes folder", "no modes folder"])
def test_what_is_no_mode_is_the_built_in_one(
    home: Home, wanted: str, warnings: int, folder: bool
) -> None:
    """Case mode-file-missing."""
    if folder:
        home.mode("law-study", "{not json")
    home.write({MODE: wanted})
    settings = home.ask()
    assert settings.mode.types == CODE.types
    assert settings.types == tuple(item.id for item in CODE.types)
    assert len(settings.warnings) == warnings
    for warning in settings.warnings:
        assert warning.key == MODE
        assert "\n" not in warning.message


def test_not_all_of_very_many_modes_are_read(home: Home) -> None:
    """They are read for an explanation alone, which took longer than its deadline."""
    for number in range(MAX_MODES):
        home.mode(f"m{number}", mode("M", "x"))
        home.mode(f"m{number}--ko", mode("M", "x"))
    folders = ModeFolders(None, str(home.folder), str(home.path))
    assert len(folders.all()) == 1 + MAX_MODES
    home.mode("zz", mode("M", "x"))
    assert len(folders.all()) == 1 + MAX_MODES


def test_no_id_reaches_a_file_outside_the_modes_folders(home: Home) -> None:
    """Case mode-file-missing: no path traversal."""
    home.mode("x", mode("X", "x"))
    (home.folder / "outside.json").write_text('{"observation_types": [{"id": "stolen"}]}')
    home.mode("..", mode("Dots", "stolen"))
    home.mode(".hidden", mode("Hidden", "stolen"))
    looked = {str(getattr(one, "path", "")) for one in home.ask().dependencies}
    for wanted in (
        "../outside",
        str(home.folder / "outside"),
        "x/../../outside",
        "..",
        ".hidden",
    ):
        home.write({MODE: wanted})
        settings = home.ask()
        assert settings.mode == CODE
        assert {str(getattr(one, "path", "")) for one in settings.dependencies} == looked


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"observation_types": []}', '{"observation_types": [{"name": "x"}, 7]}'],
)
def test_a_mode_file_without_types_is_broken(home: Home, content: str) -> None:
    """Case mode-file-missing."""
    path = home.mode("odd", content)
    home.write({MODE: "odd"})
    settings = home.ask()
    assert settings.mode == CODE
    assert str(path) in settings.warnings[0].message


def test_places_outrank_each_other_in_the_promised_order(home: Home) -> None:
    plugins = home.path / ".claude" / "plugins"
    cache = plugins / "cache" / "thedotmack" / "claude-mem"
    places = [
        plugins / "marketplaces" / "thedotmack" / "plugin" / "modes",
        cache / "9.0.0" / "modes",
        cache / "13.2.0" / "modes",
        home.folder / "modes",
        home.path / "own",
    ]
    home.write({MODE: "law"})
    assert home.ask().mode == CODE
    env = {MODES_DIR: "~/own"}
    for number, place in enumerate(places):
        home.settled(env)
        place.mkdir(parents=True)
        (place / "law.json").write_text(
            f'{{"name": "{number}", "observation_types": [{{"id": "t{number}"}}]}}'
        )
        settings = home.ask(env)
        assert settings.mode.name == str(number), place
        assert settings.mode.path == str(place / "law.json")


@pytest.mark.parametrize("by_settings", [True, False], ids=["settings.json", "environment"])
def test_a_modes_dir_that_is_no_folder_is_told(home: Home, *, by_settings: bool) -> None:
    folder = home.path / "own"
    env = {} if by_settings else {MODES_DIR: str(folder)}
    home.write({MODES_DIR: str(folder)} if by_settings else {})

    def told() -> list[str]:
        return [one.code for one in home.ask(env).warnings if one.key == MODES_DIR]

    assert told() == ["modes_dir_missing"]
    folder.write_text("a file")
    assert told() == ["modes_dir_missing"]
    folder.unlink()
    folder.mkdir()
    assert told() == []
    home.settled(env)
    folder.rmdir()
    assert told() == ["modes_dir_missing"]
    (warning,) = (one for one in home.ask(env).warnings if one.key == MODES_DIR)
    assert str(folder) in warning.message
    assert warning.path == (str(home.folder / "settings.json") if by_settings else None)


@pytest.mark.parametrize("modes", ["modes", "plugin/modes"])
def test_a_version_without_modes_hides_no_other(home: Home, modes: str) -> None:
    """Half installed, half removed, or no version at all."""
    cache = home.path / ".claude" / "plugins" / "cache" / "thedotmack" / "claude-mem"
    for name in (".orphaned", "20991231", "13.10.0", "14.0.0-beta"):
        (cache / name).mkdir(parents=True)
    place = cache / "13.9.1" / modes
    place.mkdir(parents=True)
    (place / "law.json").write_text('{"observation_types": [{"id": "case"}]}')
    home.write({MODE: "law"})
    assert home.settled().types == ("case",)
    newer = cache / "13.10.0" / modes
    newer.mkdir(parents=True)
    (newer / "law.json").write_text('{"observation_types": [{"id": "brief"}]}')
    assert home.ask().types == ("brief",)


def test_claude_code_may_live_elsewhere(home: Home) -> None:
    place = home.path / "cc" / "plugins" / "marketplaces" / "thedotmack" / "plugin" / "modes"
    place.mkdir(parents=True)
    (place / "law.json").write_text('{"observation_types": [{"id": "case"}]}')
    home.write({MODE: "law"})
    assert home.ask({"CLAUDE_CONFIG_DIR": str(home.path / "cc")}).types == ("case",)
    assert home.ask({"CLAUDE_CONFIG_DIR": "relative"}).mode == CODE


def test_a_variant_is_laid_over_its_parent(home: Home) -> None:
    parent = home.mode("law", {**mode("Law", "case"), "observation_concepts": [{"id": "c"}]})
    variant = home.mode("law--chill", {"name": "Chill"})
    home.write({MODE: "law--chill"})
    settings = home.ask()
    assert (settings.mode.id, settings.mode.name) == ("law--chill", "Chill")
    assert (settings.types, settings.concepts) == (("case",), ("c",))
    assert settings.mode.path == str(variant)
    home.mode("law--chill", mode("Chill", "brief"))
    assert home.ask().types == ("brief",), "a list is replaced as a whole"
    variant.write_text("{")
    broken = home.ask()
    assert (broken.mode.name, broken.mode.path) == ("Law", str(parent))
    assert str(variant) in broken.warnings[0].message
    variant.unlink()
    assert home.ask().mode.name == "Law"
    assert len(home.ask().warnings) == 1


def test_a_variant_of_the_built_in_mode_needs_no_parents_file(home: Home) -> None:
    home.mode("code--team", {"name": "Team", "observation_concepts": [{"id": "gotcha"}]})
    home.write({MODE: "code--team"})
    settings = home.ask()
    assert settings.mode.types == CODE.types
    assert settings.concepts == ("gotcha",)
    assert settings.warnings == ()


def test_labels_and_emojis_stay_in_their_line(home: Home) -> None:
    home.mode(
        "odd",
        {
            "name": "# A\n\n# heading",
            "observation_types": [
                {"id": " Case ", "label": "a\nb\x1b[31m", "emoji": "⚖\n", "work_emoji": 7},
                {"id": "plain"},
            ],
        },
    )
    home.write({MODE: "odd"})
    found = home.ask().mode
    assert found.name == "# A # heading"
    assert [(one.id, one.label, one.emoji, one.work_emoji) for one in found.types] == [
        ("case", "a b [31m", "⚖", ""),
        ("plain", "plain", "", ""),
    ]


def test_the_built_in_mode_has_what_claude_mem_writes() -> None:
    assert {item.id for item in CODE.types} >= {
        "bugfix",
        "feature",
        "refactor",
        "change",
        "discovery",
        "decision",
    }
    assert {item.id for item in CODE.concepts} == {
        "how-it-works",
        "why-it-exists",
        "what-changed",
        "problem-solution",
        "gotcha",
        "pattern",
        "trade-off",
    }
    assert all(item.emoji for item in CODE.types)
