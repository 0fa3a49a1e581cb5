"""Hook entries are put into somebody else's file and taken out of it without a trace."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.commands import curl_line, is_ours, launcher, python_line
from claudemem_daemon.hookfiles.files import BACKUP, _dump, install, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS, target
from claudemem_daemon.hookfiles.splice import splice
from claudemem_daemon.hookfiles.twice import double_injection
from tests.cases.world import World
from tests.support.daemon import Daemon, clean_environ

OFF = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 0,
    "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0",
    "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": False,
}
"""claude-mem's own context, as far off as its settings allow."""

COMMAND = python_line("claude-code", "/opt/bin/claudemem-daemon")

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


@given(st.sampled_from(sorted(PLATFORMS)), flat, nested, others)
def test_merging_keeps_all_else_and_taking_out_restores_it(
    name: str, flat_hooks: dict[str, Any], nested_hooks: dict[str, Any], other: dict[str, Any]
) -> None:
    platform = PLATFORMS[name]
    hooks = flat_hooks if platform.shape == "flat" else nested_hooks
    settings = {**other, "hooks": hooks}
    once = merge.merged(settings, platform, COMMAND, "f")
    assert merge.merged(once, platform, COMMAND, "f") == once
    assert merge.our_commands(once, platform) == [COMMAND] * len(platform.events)
    back = merge.without(once, platform)

    def filled(value: dict[str, Any]) -> dict[str, Any]:
        return {event: groups for event, groups in value.items() if groups}

    assert filled(back.get("hooks", {})) == filled(hooks)
    assert {k: v for k, v in back.items() if k not in ("hooks", *platform.extra)} == other


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_the_timeout_is_a_few_seconds_in_the_platforms_own_unit(name: str) -> None:
    """Case hook-timeout-unit."""
    platform = PLATFORMS[name]
    settings = merge.merged({}, platform, COMMAND, "f")
    text = json.dumps(settings)
    seconds = 1000 if name == "gemini-cli" else 1
    assert 2 * seconds <= platform.timeout <= 10 * seconds
    assert text.count(f'"{platform.timeout_key}": {platform.timeout}') == len(platform.events)


@pytest.mark.parametrize("name", sorted(PLATFORMS))
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
    assert install(name, environ, COMMAND).what == "written"
    assert install(name, environ, COMMAND).what == "unchanged"
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
    install(name, environ, COMMAND)
    install("cursor", environ, COMMAND, str(tmp_path / "checkout"))
    uninstall(name, environ)
    assert folder.exists() is there
    uninstall("cursor", environ, str(tmp_path / "checkout"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_others_use_by_now_stays(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    install("copilot-cli", environ, COMMAND)
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
    project = install("cursor", environ, COMMAND, project=str(tmp_path / "p"))
    assert project.path == str(tmp_path / "p" / ".cursor" / "hooks.json")


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
        assert is_ours(line)
        program.unlink(missing_ok=True)
        gone = subprocess.run([shell, "-c", line], capture_output=True, check=False)
        assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")
        program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
        program.chmod(0o755)
        there = subprocess.run([shell, "-c", line], capture_output=True, check=False)
        assert (there.returncode, there.stdout) == (0, f"hook {platform}\n".encode())


def test_the_curl_line_survives_everything_too(tmp_path: Path) -> None:
    line = curl_line("claude-code", {"HOME": str(tmp_path / "a b")})
    assert is_ours(line)
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
    made = _dump({"k": wanted}, text)
    assert json.dumps(json.loads(made)) == json.dumps({"k": wanted})
    assert splice(text, {"k": before}, "  ", ascii_only=ascii_only) == text
    longer = splice(text, {"k": before, "new": wanted}, "  ", ascii_only=ascii_only)
    assert longer is not None
    assert splice(longer, {"k": before}, "  ", ascii_only=ascii_only) == text


@given(st.sampled_from(sorted(PLATFORMS)), flat, nested, others, layouts)
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
    made = splice(text, merge.merged(settings, platform, COMMAND, "f"), "  ", ascii_only=True)
    assert made is not None
    assert ("\n" in made) is ("\n" in text)
    back = splice(made, merge.without(json.loads(made), platform), "  ", ascii_only=True)
    if settings["hooks"]:
        assert back == text
    else:
        assert back is not None
        assert json.loads(back) == {k: v for k, v in settings.items() if k != "hooks"}


def test_a_line_put_beside_our_entry_stays_when_it_is_updated() -> None:
    platform = PLATFORMS["claude-code"]
    entry = {"type": "command", "command": "claudemem-daemon hook claude-code", "timeout": 60}
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


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("claudemem-daemon hook claude-code", True),
        ("'/a b/claudemem-daemon' hook codex", True),
        (curl_line("raw", {"HOME": "/h"}), True),
        ("/src/claudemem-daemon/tools/hook now", False),
        ("cat ~/notes/claudemem-daemon hooks.md", False),
        ("claudemem-daemon status", False),
        ("curl http://localhost/v1/hooks/other", False),
        (5, False),
        (None, False),
    ],
)
def test_our_entries_are_known_and_nobody_elses(command: object, ours: bool) -> None:
    assert is_ours(command) is ours


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
            ["/bin/sh", "-c", curl_line("claude-code", daemon.environ)],
            input=json.dumps(call).encode(),
            env=clean_environ(home, http_proxy="http://127.0.0.1:9", ALL_PROXY="http://[::1]:9"),
            capture_output=True,
            check=False,
        )
        bad = subprocess.run(
            ["/bin/sh", "-c", curl_line("claude-code", daemon.environ)],
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
