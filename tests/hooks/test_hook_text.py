"""The text of a settings file changes where our entries go in or out, and nowhere else."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.commands import (
    python_line,
)
from claudemem_daemon.hookfiles.document import dump
from claudemem_daemon.hookfiles.files import BACKUP, install, installed, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS
from claudemem_daemon.hookfiles.splice import blanked, comments, splice
from tests.hooks.platforms import COMMAND, COMMANDS, JSON_PLATFORMS

entries = st.fixed_dictionaries(
    {
        "type": st.just("command"),
        "command": st.text(max_size=20).filter(lambda t: "claudemem" not in t),
    }
)


flat = st.dictionaries(st.sampled_from(["sessionStart", "stop"]), st.lists(entries, max_size=3))


nested = st.dictionaries(
    st.sampled_from(["SessionStart", "Stop"]),
    st.lists(
        st.fixed_dictionaries({"hooks": st.lists(entries, min_size=1, max_size=3)}), max_size=2
    ),
)


others = st.dictionaries(
    st.text(max_size=6).filter(lambda k: k not in ("hooks", "version")), st.integers()
)


@given(st.sampled_from(JSON_PLATFORMS), flat, nested, others)
def test_merging_keeps_all_else_and_taking_out_restores_it(
    name: str, flat_hooks: dict[str, Any], nested_hooks: dict[str, Any], other: dict[str, Any]
) -> None:
    platform = PLATFORMS[name]
    hooks = flat_hooks if platform.shape == "flat" else nested_hooks
    settings = {**other, "hooks": hooks}
    once = merge.merged(settings, platform, COMMANDS[platform.name], "f")
    assert merge.merged(once, platform, COMMANDS[platform.name], "f") == once
    assert merge.our_commands(once, platform) == [COMMANDS[name]] * len(platform.events)
    back = merge.without(once, platform)

    def filled(value: dict[str, Any]) -> dict[str, Any]:
        return {event: groups for event, groups in value.items() if groups}

    assert filled(back.get("hooks", {})) == filled(hooks)
    assert {k: v for k, v in back.items() if k not in ("hooks", *platform.extra)} == other


HANDMADE = """{
  "permissions": {"allow": ["Bash(ls)", "Read"], "deny": []},
  "n": 1.10,   "e": 1e400,
  "hooks": {
    "Stop": [ {"hooks": [{"type": "command", "command": "theirs"}]} ],
    "UserPromptSubmit": [
      {"hooks": [{"type": "command", "command": "theirs"}]}
    ]
  },
  "u": "\\u00fc"
}"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_all_that_is_not_ours_stays_byte_for_byte(tmp_path: Path, newline: str, start: str) -> None:
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    before = (start + HANDMADE.replace("\n", newline)).encode()
    path.write_bytes(before)
    install("claude-code", environ, COMMAND)
    after = path.read_bytes()
    assert after.count(b"hook claude-code") == 3
    assert after.count(newline.encode()) == after.count(b"\n")
    kept = [line for line in before.splitlines() if line.strip(b" ]},") and b"theirs" not in line]
    assert [line for line in after.splitlines() if line in kept] == kept
    assert after.count(b'{"hooks": [{"type": "command", "command": "theirs"}]}') == 2
    Path(str(path) + BACKUP).unlink()
    uninstall("claude-code", environ)
    assert path.read_bytes() == before


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


layouts = st.sampled_from(
    [{"indent": 2}, {"indent": "\t"}, {"indent": None}, {"separators": (",", ":")}]
)


@given(values, values, layouts, st.booleans())
def test_a_changed_text_says_what_is_wanted(
    before: Any, wanted: Any, layout: dict[str, Any], ascii_only: bool
) -> None:
    """Where keys come in another order it is written anew."""
    text = " " + json.dumps({"k": before}, ensure_ascii=ascii_only, **layout) + "\n"
    made = dump({"k": wanted}, text)
    assert made is not None
    assert json.dumps(json.loads(made)) == json.dumps({"k": wanted})
    assert splice(text, {"k": before}) == text
    longer = splice(text, {"k": before, "new": wanted})
    assert longer is not None
    assert splice(longer, {"k": before}) == text


@given(st.sampled_from(JSON_PLATFORMS), flat, nested, others, layouts)
def test_putting_in_and_taking_out_by_text_alone(
    name: str,
    flat_hooks: dict[str, Any],
    nested_hooks: dict[str, Any],
    other: dict[str, Any],
    layout: dict[str, Any],
) -> None:
    """Without a backup to go back to."""
    platform = PLATFORMS[name]
    hooks = flat_hooks if platform.shape == "flat" else nested_hooks
    settings = {**other, "hooks": {event: groups for event, groups in hooks.items() if groups}}
    settings |= platform.extra
    text = json.dumps(settings, **layout)
    made = splice(text, merge.merged(settings, platform, COMMANDS[platform.name], "f"))
    assert made is not None
    assert ("\n" in made) is ("\n" in text)
    back = splice(made, merge.without(json.loads(made), platform))
    if settings["hooks"]:
        assert back == text
    else:
        assert back is not None
        assert json.loads(back) == {k: v for k, v in settings.items() if k != "hooks"}


def test_a_line_put_beside_our_entry_stays_when_it_is_updated() -> None:
    platform = PLATFORMS["claude-code"]
    older = python_line("claude-code", "/older/bin/claudemem-daemon")
    entry = {"type": "command", "command": older, "timeout": 60}
    group = {"matcher": "startup", "hooks": [{**entry, "statusMessage": "memory"}]}
    made = merge.merged({"hooks": {"SessionStart": [group]}}, platform, COMMAND, "f")
    assert made["hooks"]["SessionStart"] == [
        {
            "matcher": "startup",
            "hooks": [
                {"type": "command", "command": COMMAND, "timeout": 5, "statusMessage": "memory"}
            ],
        }
    ]


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": -Infinity}', "[" * 100_000])
def test_what_python_reads_and_nobody_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SettingsError):
        install("claude-code", {"HOME": str(tmp_path)}, COMMAND)
    assert path.read_text() == text


COMMENTED = """// mine
{
  // about the theme
  "theme": "x", // "quoted" // twice
  /* "hooks": {} */
  "tools": ["a" /* first, */, "b"] // last
}
// end
"""


def gemini(home: Path, text: str) -> Path:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def without_comments(text: str) -> Any:
    return json.loads(blanked(text))


def test_entries_go_in_and_out_of_a_file_with_comments(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    path = gemini(tmp_path, COMMENTED)
    assert install("gemini-cli", environ, COMMANDS["gemini-cli"]).what == "written"
    inside = path.read_text()
    assert sorted(comments(inside)) == sorted(comments(COMMENTED))
    assert set(without_comments(inside)["hooks"]) == {"SessionStart", "BeforeAgent", "PreCompress"}
    for line in COMMENTED.splitlines()[:5]:
        assert line in inside.splitlines()
    assert installed(PLATFORMS["gemini-cli"], environ).ours
    assert install("gemini-cli", environ, COMMANDS["gemini-cli"]).what == "unchanged"
    assert uninstall("gemini-cli", environ).what == "removed"
    assert path.read_text() == COMMENTED


def test_a_comment_that_came_since_stays(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    path = gemini(tmp_path, '{"theme":"x"}\n')
    install("gemini-cli", environ, COMMANDS["gemini-cli"])
    path.write_text("// mine\n" + path.read_text().replace('"hooks": {', '"hooks": { // ours'))
    path.write_text(path.read_text().replace('"hooks":{', '"hooks":{ /* ours */'))
    before = comments(path.read_text())
    assert len(before) == 2
    assert uninstall("gemini-cli", environ).what == "removed"
    assert comments(path.read_text()) == before
    assert without_comments(path.read_text()) == {"theme": "x"}
    # Nor does a file go that has nothing else left.
    made = {"HOME": str(tmp_path / "other")}
    install("gemini-cli", made, COMMANDS["gemini-cli"])
    other = tmp_path / "other" / ".gemini" / "settings.json"
    other.write_text("// mine\n" + other.read_text())
    uninstall("gemini-cli", made)
    assert comments(other.read_text()) == ["// mine"]


def test_an_assistant_without_comments_keeps_its_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("// mine\n{}\n")
    with pytest.raises(SettingsError, match="not valid JSON"):
        install("claude-code", {"HOME": str(tmp_path)}, COMMAND)
    assert path.read_text() == "// mine\n{}\n"


@given(nested, others, st.integers(0, 2**32), st.sampled_from([None, 2, "\t"]))
@example({"SessionStart": [], "Stop": []}, {}, 350, None)
def test_no_comment_is_lost_wherever_it_stands(
    hooks: dict[str, Any], other: dict[str, Any], seed: int, indent: int | str | None
) -> None:
    platform = PLATFORMS["gemini-cli"]
    chance = random.Random(seed)
    text = json.dumps({**other, "hooks": hooks}, indent=indent, ensure_ascii=False)
    for number, at in enumerate(sorted(_between_tokens(text), reverse=True)):
        if chance.random() < 0.3:
            remark = chance.choice([f"/* {number}, */", f"// {number} ,\n", f"\n// {number}\n"])
            text = text[:at] + remark + text[at:]
    once = merge.merged(without_comments(text), platform, COMMANDS["gemini-cli"], "f")
    with_entries = splice(text, once)
    assert with_entries is not None
    assert without_comments(with_entries) == once
    assert sorted(comments(with_entries)) == sorted(comments(text))
    back = merge.without(once, platform)
    without_entries = splice(with_entries, back)
    assert without_entries is not None
    assert without_comments(without_entries) == back
    assert sorted(comments(without_entries)) == sorted(comments(text))


def _between_tokens(text: str) -> set[int]:
    found = re.finditer(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{}:,"]+|[\[\]{}:,]', text)
    return {end for one in found for end in one.span()}
