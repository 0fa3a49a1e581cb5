"""Hook entries are put into somebody else's file and taken out of it without a trace."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.commands import (
    curl_line,
    is_ours,
    lasting_launcher,
    launcher,
    python_line,
)
from claudemem_daemon.hookfiles.document import dump
from claudemem_daemon.hookfiles.double_injection import double_injection
from claudemem_daemon.hookfiles.files import BACKUP, install, installed, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS, target
from claudemem_daemon.hookfiles.splice import blanked, comments, splice
from claudemem_daemon.local import socket_path
from tests.cases.world import World
from tests.support.daemon import Daemon, clean_environ, command, run_to_end

OFF = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 0,
    "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0",
    "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": False,
}
"""claude-mem's own context, as far off as its settings allow."""

JSON_PLATFORMS = [name for name, known in sorted(PLATFORMS.items()) if known.shape != "plugin"]
"""Those whose hooks are entries in a JSON file."""
COMMANDS = {name: python_line(name, "/opt/bin/claudemem-daemon") for name in PLATFORMS}
COMMAND = COMMANDS["claude-code"]

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


@pytest.mark.parametrize("name", JSON_PLATFORMS)
def test_the_timeout_is_a_few_seconds_in_the_platforms_own_unit(name: str) -> None:
    """Case hook-timeout-unit."""
    platform = PLATFORMS[name]
    settings = merge.merged({}, platform, COMMANDS[platform.name], "f")
    text = json.dumps(settings)
    seconds = 1000 if name == "gemini-cli" else 1
    assert 2 * seconds <= platform.timeout <= 10 * seconds
    assert text.count(f'"{platform.timeout_key}": {platform.timeout}') == len(platform.events)


@pytest.mark.parametrize("name", JSON_PLATFORMS)
@pytest.mark.parametrize(
    "before",
    [
        None,
        '{\n    "model": "x",\n    "hooks": {}\n}',
        '{"a":1}',
        '{\n\t"ü": "ü",\n\t"hooks": {"Stop": [], "SessionStart": [{"matcher": "x", "hooks": []}]}\n}\n\n',
    ],
)
def test_uninstall_gives_the_file_back_byte_for_byte(
    tmp_path: Path, name: str, before: str | None
) -> None:
    environ = {"HOME": str(tmp_path)}
    path = Path(target(PLATFORMS[name], environ, None))
    if before is not None:
        path.parent.mkdir(parents=True)
        path.write_text(before, encoding="utf-8")
        path.chmod(0o640)
    assert install(name, environ, COMMANDS[name]).what == "written"
    assert install(name, environ, COMMANDS[name]).what == "unchanged"
    if before is not None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert Path(str(path) + BACKUP).read_text(encoding="utf-8") == before
    assert uninstall(name, environ).what == "removed"
    assert uninstall(name, environ).what == "nothing"
    if before is None:
        assert not path.exists()
    else:
        assert path.read_text(encoding="utf-8") == before
    assert not Path(str(path) + BACKUP).exists()


@pytest.mark.parametrize("name", sorted(PLATFORMS))
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_goes_again_only_if_install_made_it(
    tmp_path: Path, name: str, there: bool
) -> None:
    """An empty folder that was there before is somebody's."""
    environ = {"HOME": str(tmp_path)}
    folder = Path(target(PLATFORMS[name], environ, None)).parent
    if there:
        folder.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    install(name, environ, COMMANDS[name])
    install("cursor", environ, COMMANDS["cursor"], str(tmp_path / "checkout"))
    uninstall(name, environ)
    assert folder.exists() is there
    uninstall("cursor", environ, str(tmp_path / "checkout"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_others_use_by_now_stays(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    install("copilot-cli", environ, COMMANDS["copilot-cli"])
    (tmp_path / ".copilot" / "theirs.json").touch()
    uninstall("copilot-cli", environ)
    assert [path.name for path in (tmp_path / ".copilot").iterdir()] == ["theirs.json"]


def test_what_changed_meanwhile_stays(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"model": "x"}')
    install("claude-code", environ, COMMAND)
    settings = json.loads(path.read_text())
    settings["model"] = "y"
    settings["hooks"]["Stop"] = [{"hooks": [{"type": "command", "command": "theirs"}]}]
    path.write_text(json.dumps(settings))
    uninstall("claude-code", environ)
    assert json.loads(path.read_text()) == {
        "model": "y",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]},
    }


def test_an_older_entry_is_updated_where_it_stands(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    install("claude-code", environ, python_line("claude-code", "/old/claudemem-daemon"))
    install("claude-code", environ, COMMAND)
    text = (tmp_path / ".claude" / "settings.json").read_text()
    assert "/old/" not in text
    assert text.count("hook claude-code") == 3


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hooks": []}', '{"hooks": {"SessionStart": {}}}', "\xff"]
)
def test_a_malformed_file_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError) as caught:
        install("claude-code", environ, COMMAND)
    assert str(path) in caught.value.message
    assert path.read_bytes() == text.encode("latin-1")
    assert list(path.parent.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    link = tmp_path / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    install("claude-code", environ, COMMAND)
    assert link.is_symlink()
    assert "hook claude-code" in real.read_text()


def test_the_folders_variable_is_honoured(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    assert install("claude-code", environ, COMMAND).path == str(tmp_path / "c" / "settings.json")
    project = install("cursor", environ, COMMANDS["cursor"], project=str(tmp_path / "p"))
    assert project.path == str(tmp_path / "p" / ".cursor" / "hooks.json")


@pytest.mark.parametrize("given", ["relative", "~/c", "./c"])
def test_a_folder_that_is_not_absolute_is_told_and_not_used(tmp_path: Path, given: str) -> None:
    environ = {**clean_environ(tmp_path), "CLAUDE_CONFIG_DIR": given}
    for verb in ("install", "uninstall"):
        done = run_to_end(environ, "hooks", verb, "claude-code")
        assert f"! CLAUDE_CONFIG_DIR is not an absolute path ({given}): ignored\n" in done.stdout
        assert "~/.claude/settings.json" in done.stdout
    other = run_to_end(environ, "hooks", "install", "cursor")
    assert "CLAUDE_CONFIG_DIR" not in other.stdout


SHELLS = [name for name in ("sh", "bash", "dash", "zsh", "fish", "tcsh") if shutil.which(name)]
"""Codex runs the user's own; the others sh or bash."""

ODD_NAMES = ["claudemem-daemon", "a b", "q'uo\"te", "$HOME", "é%", "`x`;&|", "(a)*?[b]{c}~#"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_program_that_is_gone_holds_no_prompt(tmp_path: Path, shell: str, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    program = folder / "claudemem-daemon"
    platforms = ["codex"] if shell in ("zsh", "fish", "tcsh") else sorted(PLATFORMS)
    for platform in platforms:
        line = python_line(platform, str(program))
        assert is_ours(line, platform)
        program.unlink(missing_ok=True)
        gone = subprocess.run([shell, "-c", line], capture_output=True, check=False)
        assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")
        program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
        program.chmod(0o755)
        there = subprocess.run([shell, "-c", line], capture_output=True, check=False)
        assert (there.returncode, there.stdout) == (0, f"hook {platform}\n".encode())


def test_the_curl_line_survives_everything_too(tmp_path: Path) -> None:
    line = curl_line("claude-code", socket_path({"HOME": str(tmp_path / "a b")}))
    assert is_ours(line, "claude-code")
    for environ in ({"PATH": "/nonexistent"}, {"PATH": os.environ["PATH"]}):
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=b"{}", env=environ, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert shlex.split(line.split("||")[0])


def test_the_launcher_is_the_link_on_the_path(tmp_path: Path) -> None:
    """Case interpreter-path-vanishes."""
    real = tmp_path / "versions" / "1" / "claudemem-daemon"
    real.parent.mkdir(parents=True)
    real.write_text("")
    real.chmod(0o755)
    link = tmp_path / "bin" / "claudemem-daemon"
    link.parent.mkdir()
    link.symlink_to(real)
    assert launcher({"PATH": str(link.parent)}, "claudemem-daemon") == str(link)


@pytest.mark.parametrize(
    ("plugins", "settings", "twice"),
    [
        ({"claude-mem@thedotmack": True}, {}, True),
        ({"claude-mem@thedotmack": False}, {}, False),
        ({"claude-mem@thedotmack": True}, {"CLAUDE_MEM_CONTEXT_OBSERVATIONS": "0"}, True),
        ({"claude-mem@thedotmack": True}, OFF, False),
        (["claude-mem@thedotmack"], {}, True),
        ({}, {}, False),
        ("odd", {}, False),
    ],
)
def test_context_that_would_come_twice_is_told(
    tmp_path: Path, plugins: object, settings: dict[str, Any], twice: bool
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": plugins}))
    said = double_injection({"HOME": str(tmp_path)}, settings)
    assert (said is not None) is twice
    if said is not None:
        assert '"CLAUDE_MEM_DAEMON_OBSERVATIONS": "50"' in said
        assert not [name for name in settings if f'"{name}"' in said]


def test_claude_mem_as_a_plugin_of_codex_is_told_too(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    config = tmp_path / ".codex" / "config.toml"
    config.write_text('[plugins."claude-mem@thedotmack"]\nenabled = true\n')
    said = double_injection({"HOME": str(tmp_path)}, {})
    assert said is not None
    assert '"CLAUDE_MEM_DAEMON_SHOW_LAST_SUMMARY": "true"' in said
    config.write_text('[plugins."claude-mem@thedotmack"]\nenabled = false\n')
    assert double_injection({"HOME": str(tmp_path)}, {}) is None


def test_entries_that_codex_was_not_allowed_to_run_are_named(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    change = install("codex", environ, COMMANDS["codex"])
    codex = PLATFORMS["codex"]
    events = list(codex.events)
    assert list(installed(codex, environ).untrusted) == events
    config = tmp_path / ".codex" / "config.toml"
    names = ["session_start", "user_prompt_submit", "subagent_start"]
    lines = [
        f'[hooks.state."{change.path}:{name}:0:0"]\ntrusted_hash = "sha256:00"\n' for name in names
    ]
    config.write_text(lines[0])
    assert list(installed(codex, environ).untrusted) == events[1:]
    config.write_text("\n".join(lines))
    assert installed(codex, environ).untrusted == ()
    # A later install leaves a line that is right as it is: Codex would ask again.
    assert install("codex", environ, COMMANDS["codex"]).what == "unchanged"
    config.write_text("no toml = = ")
    assert list(installed(codex, environ).untrusted) == events


def test_status_names_entries_that_codex_skips(tmp_path: Path) -> None:
    environ = clean_environ(tmp_path)
    assert run_to_end(environ, "hooks", "install", "codex").returncode == 0
    shape = json.loads(run_to_end(environ, "status", "--json").stdout)
    events = ["SessionStart", "UserPromptSubmit", "SubagentStart"]
    assert shape["hooks_not_allowed"] == {"codex": events}
    page = run_to_end(environ, "status").stdout
    assert "! codex skips our entries for SessionStart, UserPromptSubmit, SubagentStart" in page
    assert "fix: start codex once" in page
    run_to_end(environ, "hooks", "uninstall", "codex")
    assert json.loads(run_to_end(environ, "status", "--json").stdout)["hooks_not_allowed"] == {}


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


LINE = "[ -x /b/claudemem-daemon ] && /b/claudemem-daemon hook claude-code 2>/dev/null || true"

THEIRS = [
    "/opt/wrap.sh claudemem-daemon hook claude-code",
    'logger "started claudemem-daemon hook claude-code"',
    "my-claudemem-daemon hook claude-code",
    "claudemem-daemon hook claude-code | tee /tmp/x.log",
    "claudemem-daemon hook claude-code",
    "'/a b/claudemem-daemon' hook claude-code",
    f"{LINE}; notify-send hello",
    f"date; {LINE}",
    f" {LINE}",
    LINE.replace("/b/claudemem-daemon ]", "/c/claudemem-daemon ]"),
    LINE.replace("/b/claudemem-daemon", "/b/claudemem-daemon x"),
    LINE.replace("/b/claudemem-daemon", "$(date)/claudemem-daemon"),
    LINE.replace("/b/", ""),
    LINE.replace("claude-code", "codex"),
    LINE.replace("/dev/null", "/tmp/errors"),
    curl_line("claude-code", socket_path({"HOME": "/h"})).replace("/dev/null", "/tmp/errors"),
    curl_line("claude-code", socket_path({"HOME": "/h"})) + " and more",
    curl_line("codex", socket_path({"HOME": "/h"})),
    "/src/claudemem-daemon/tools/hook now",
    "cat ~/notes/claudemem-daemon hooks.md",
    "claudemem-daemon status",
    "curl http://localhost/v1/hooks/other",
    5,
    None,
]


@pytest.mark.parametrize("command", THEIRS)
def test_what_we_did_not_write_is_not_ours(command: object) -> None:
    assert not is_ours(command, "claude-code")


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_what_every_release_wrote_is_ours(platform: str) -> None:
    for program in ("/b/claudemem-daemon", "/a b/q'uo\"te/$HOME/claudemem-daemon", "/] && x/y"):
        line = python_line(platform, program)
        assert is_ours(line, platform)
        # Until 0.1.0 Codex's had it too.
        assert is_ours(line.replace(" 2>/dev/null", "").replace(" ||", " 2>/dev/null ||"), platform)
    for home in ("/h", "/h h/'", "/h/" + "x" * 200):
        line = curl_line(platform, socket_path({"HOME": home}))
        assert is_ours(line, platform)
        assert is_ours(line.replace("curl -q ", "curl "), platform)


@pytest.mark.parametrize("command", [one for one in THEIRS if isinstance(one, str)])
def test_a_hook_of_the_users_own_stays_whatever_it_runs(home: Path, command: str) -> None:
    """As the only thing in the file, at an event of ours, before, between and after."""
    for name in JSON_PLATFORMS:
        known = PLATFORMS[name]
        mine = command.replace("claude-code", name) if name != "codex" else command
        entry = {"type": "command", known.command_key: mine}
        groups = [entry] if known.shape == "flat" else [{"matcher": "startup", "hooks": [entry]}]
        hooks = {known.events[0]: groups, "Stop": groups}
        if name == "codex" and is_ours(command, name):
            continue
        before = json.dumps({**known.extra, "hooks": hooks}, indent=2)
        environ = {"HOME": str(home)}
        path = Path(target(known, environ, None))
        path.parent.mkdir(parents=True)
        path.write_text(before)
        assert uninstall(name, environ).what == "nothing"
        assert path.read_text() == before
        install(name, environ, COMMANDS[name])
        settings = json.loads(path.read_text())
        assert settings["hooks"][known.events[0]][: len(groups)] == groups
        assert settings["hooks"]["Stop"] == groups
        Path(str(path) + BACKUP).unlink()
        assert uninstall(name, environ).what == "removed"
        assert json.loads(path.read_text()) == json.loads(before)


def test_an_entry_of_ours_elsewhere_is_somebodys(tmp_path: Path) -> None:
    """Under an event that we do not write, or with something beside it to run."""
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".copilot" / "hooks" / "claudemem-daemon.json"
    path.parent.mkdir(parents=True)
    line = python_line("copilot-cli", "/b/claudemem-daemon")
    ours = {"type": "command", "bash": line, "timeoutSec": 5}
    theirs = {
        "sessionStart": [{**ours, "powershell": "theirs.ps1"}],
        "postToolUse": [ours],
    }
    path.write_text(json.dumps({"version": 1, "hooks": theirs}))
    assert uninstall("copilot-cli", environ).theirs == (
        ("sessionStart", line),
        ("postToolUse", line),
    )
    install("copilot-cli", environ, line)
    uninstall("copilot-cli", environ)
    assert json.loads(path.read_text()) == {"version": 1, "hooks": theirs}


def test_an_entry_that_the_user_made_two_of_is_updated_twice(tmp_path: Path) -> None:
    """One for each matcher, as a person may want it."""
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".claude" / "settings.json"
    install("claude-code", environ, python_line("claude-code", "/old/claudemem-daemon"))
    settings = json.loads(path.read_text())
    (group,) = settings["hooks"]["SessionStart"]
    settings["hooks"]["SessionStart"] = [{"matcher": m, **group} for m in ("startup", "resume")]
    path.write_text(json.dumps(settings))
    install("claude-code", environ, COMMAND)
    made = json.loads(path.read_text())["hooks"]["SessionStart"]
    assert [one["matcher"] for one in made] == ["startup", "resume"]
    assert [one["hooks"][0]["command"] for one in made] == [COMMAND, COMMAND]


def test_an_entry_written_by_hand_is_reported(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    entry = {"type": "command", "command": "claudemem-daemon hook claude-code | tee /tmp/x.log"}
    path.write_text(json.dumps({"hooks": {"SessionStart": [{"hooks": [entry]}]}}))
    before = path.read_text()
    said = f"SessionStart: {entry['command']}"
    environ = clean_environ(home)
    nothing = run_to_end(environ, "hooks", "uninstall", "claude-code").stdout
    assert "no entry of ours there" in nothing
    assert said in nothing
    assert path.read_text() == before
    assert said in run_to_end(environ, "hooks", "install", "claude-code").stdout
    doctor = run_to_end(environ, "doctor").stdout
    assert (
        f"an entry at SessionStart asks us too and was not written by us: {entry['command']}"
        in (doctor)
    )
    assert "claude-code: 3 entries" in doctor
    assert said in run_to_end(environ, "hooks", "uninstall", "claude-code").stdout


def test_a_file_that_was_there_before_stays_even_empty(tmp_path: Path) -> None:
    """What else was in it has gone since; a link and what it leads to are the user's as well."""
    environ = {"HOME": str(tmp_path)}
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"model": "x"}')
    install("claude-code", environ, COMMAND)
    settings = json.loads(path.read_text())
    del settings["model"]
    path.write_text(json.dumps(settings))
    uninstall("claude-code", environ)
    assert json.loads(path.read_text()) == {}
    install("claude-code", environ, COMMAND)
    Path(str(path) + BACKUP).unlink()
    path.rename(tmp_path / "real.json")
    path.symlink_to(tmp_path / "real.json")
    uninstall("claude-code", environ)
    assert path.is_symlink()
    assert json.loads(path.read_text()) == {}


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_key_given_twice_is_refused(home: Path, verb: str) -> None:
    """Written again, one of the two would be gone."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    once = json.dumps(merge.merged({}, PLATFORMS["claude-code"], COMMAND, "f"))
    text = once[:-1] + ', "a": {"hooks": 1, "hooks": 2}}'
    path.write_text(text)
    done = run_to_end(clean_environ(home), "hooks", verb, "claude-code")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"{path} has 'hooks' twice" in done.stderr
    assert path.read_text() == text


@pytest.mark.parametrize("what", ["file", "folder", "loop"])
def test_nothing_is_made_behind_a_link_to_nowhere(home: Path, what: str) -> None:
    folder, nowhere = home / ".claude", home / "nowhere"
    link = folder if what == "folder" else folder / "settings.json"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(link if what == "loop" else nowhere / "x.json")
    done = run_to_end(clean_environ(home), "hooks", "install", "claude-code")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"{link} is a link to" in done.stderr
    assert not nowhere.exists()
    assert link.is_symlink()
    assert not (home / ".claude-mem").exists()


@pytest.mark.parametrize("mode", [0o400, 0o444])
def test_a_write_protected_file_is_refused(home: Path, mode: int) -> None:
    environ = clean_environ(home)
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(mode)
    for verb in ("install", "uninstall"):
        before = path.read_text()
        done = run_to_end(environ, "hooks", verb, "claude-code")
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        assert f"{path} is write-protected (mode {mode:04o}); nothing was changed" in done.stderr
        assert path.read_text() == before
        if verb == "install":
            path.chmod(0o600)
            assert run_to_end(environ, "hooks", verb, "claude-code").returncode == 0
            path.chmod(mode)
            # Nothing to change is nothing to refuse.
            assert run_to_end(environ, "hooks", verb, "claude-code").returncode == 0


def test_a_module_that_was_run_is_not_taken_for_the_launcher(tmp_path: Path) -> None:
    """`python -m claudemem_daemon hooks install`: the module's file cannot be run by itself."""
    module = str(tmp_path / "claudemem_daemon" / "__main__.py")
    assert os.access(launcher({"PATH": ""}, module), os.X_OK)
    given = str(tmp_path / "bin" / "claudemem-daemon")
    assert launcher({"PATH": os.environ["PATH"]}, given) == given


def test_the_curl_line_brings_the_same_context(tmp_path: Path) -> None:
    """Whatever a .curlrc or a proxy would have it do."""
    home, root = tmp_path / "home", tmp_path / "w"
    home.mkdir()
    root.mkdir()
    (home / ".curlrc").write_text('verbose\ninclude\nproxy = "127.0.0.1:9"\n')
    with Daemon(home) as daemon:
        world = World(home, root, daemon)
        app = world.repository("app")
        world.row("app", title="by curl")
        call = {"session_id": "s", "cwd": str(app), "hook_event_name": "SessionStart"}
        done = subprocess.run(
            ["/bin/sh", "-c", curl_line("claude-code", socket_path(daemon.environ))],
            input=json.dumps(call).encode(),
            env=clean_environ(home, http_proxy="http://127.0.0.1:9", ALL_PROXY="http://[::1]:9"),
            capture_output=True,
            check=False,
        )
        bad = subprocess.run(
            ["/bin/sh", "-c", curl_line("claude-code", socket_path(daemon.environ))],
            input=b"garbage",
            env=clean_environ(home),
            capture_output=True,
            check=False,
        )
    assert "by curl" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert (done.returncode, done.stderr) == (0, b"")
    assert (bad.returncode, bad.stdout, bad.stderr) == (0, b"", b"")


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


@pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("before", ["{}\n", '{"model":"x"}'])
def test_a_file_that_is_a_mount_point_is_written_in_place(home: Path, before: str) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare -m is refused here")
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    behind = home / "behind.json"
    behind.write_text(before)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    mounted = ["unshare", "-m", "sh", "-c", script, "sh", str(behind), str(path), *command()]
    for verb, wanted in (("install", True), ("uninstall", False)):
        done = subprocess.run(
            [*mounted, "hooks", verb, "claude-code"],
            env=clean_environ(home),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert ("claudemem-daemon" in behind.read_text()) is wanted
        left = {one.name for one in path.parent.iterdir()}
        assert left == {path.name} | ({path.name + BACKUP} if wanted else set())
    assert behind.read_text() == before


@pytest.mark.parametrize(
    "place",
    [
        ".cache/uv/archive-v0/x1/bin",
        "elsewhere/uv/archive-v0/x1/bin",
        ".local/pipx/.cache/5b1/bin",
        "Library/Caches/pipx/5b1/bin",
        "caches/pipx/5b1/bin",
    ],
)
def test_nothing_is_installed_from_a_cache_that_is_pruned(home: Path, place: str) -> None:
    """As `uvx` and `pipx run` do it: the hooks would end with the next prune."""
    folder = home / place
    folder.mkdir(parents=True)
    shutil.copy(command()[0], folder / "claudemem-daemon")
    (folder / "python").symlink_to(os.path.join(os.path.dirname(command()[0]), "python"))
    if place.startswith("elsewhere"):
        (home / "elsewhere/uv/CACHEDIR.TAG").write_text(
            "Signature: 8a477f597d28d172789f06886806bc55"
        )
    environ = clean_environ(home, XDG_CACHE_HOME=str(home / "caches"))
    program = str(folder / "claudemem-daemon")
    (folder.parent / "pyvenv.cfg").write_text("")
    script = (
        f"import sys; sys.argv[0] = {program!r}\n"
        "from claudemem_daemon.__main__ import main\nsys.exit(main())\n"
    )
    for arguments in (["hooks", "install", "claude-code"], ["service", "install"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stdout
        installer = "pipx install" if "pipx" in place else "uv tool install"
        assert f"`{installer} " in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (home / ".claude").exists()
    assert not (home / ".config").exists()


def test_an_environment_made_by_uv_is_no_cache(home: Path) -> None:
    """It has the tag of a cache as well, in itself."""
    program = home / "app" / ".venv" / "bin" / "claudemem-daemon"
    program.parent.mkdir(parents=True)
    (home / "app" / ".venv" / "CACHEDIR.TAG").write_text("")
    shutil.copy(command()[0], program)
    environ = {"HOME": str(home), "PATH": "/bin"}
    assert lasting_launcher(environ, str(program)) == str(program)
