"""Hook entries are put into somebody else's file and taken out of it without a trace."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.diagnostics.double_injection import double_injection
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles import merge
from claudemem_daemon.hookfiles.commands import python_line
from claudemem_daemon.hookfiles.files import BACKUP, install, installed, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS, target
from tests.hooks.platforms import COMMAND, COMMANDS, JSON_PLATFORMS
from tests.support.daemon import clean_environ, command, run_to_end
from tests.support.stores import make_store

OFF = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 0,
    "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0",
    "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": False,
}
"""claude-mem's own context, as far off as its settings allow."""

FULL_DISK = (
    sys.executable,
    "-c",
    (
        "import os, resource as r, sys; r.setrlimit(r.RLIMIT_FSIZE, (0, 0));"
        " os.execv(sys.argv[1], sys.argv[1:])"
    ),
)


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
    assert uninstall(name, environ).what == "unchanged"
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


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    path = Path(target(PLATFORMS["claude-code"], environ, None))
    path.parent.mkdir()
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(SettingsError, match="more than 16 MiB"):
        install("claude-code", environ, COMMAND)
    assert path.stat().st_size == 1 << 40


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
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings))
    told = double_injection({"HOME": str(tmp_path)}, str(path))
    assert (told is not None) is twice
    if told is not None:
        pairs = re.fullmatch(f"put (.*) into {path}", told.fix)
        assert pairs is not None
        wanted = json.loads(f"{{{pairs[1]}}}")
        assert wanted["CLAUDE_MEM_DAEMON_OBSERVATIONS"] == "50"
        assert not settings.keys() & wanted.keys()
        path.write_text(json.dumps({**settings, **wanted}))
        assert double_injection({"HOME": str(tmp_path)}, str(path)) is None


def test_claude_mem_as_a_plugin_of_codex_is_told_too(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    config = tmp_path / ".codex" / "config.toml"
    config.write_text('[plugins."claude-mem@thedotmack"]\nenabled = true\n')
    told = double_injection({"HOME": str(tmp_path)}, str(tmp_path / "settings.json"))
    assert told is not None
    assert '"CLAUDE_MEM_DAEMON_SHOW_LAST_SUMMARY": "true"' in told.fix
    config.write_text('[plugins."claude-mem@thedotmack"]\nenabled = false\n')
    assert double_injection({"HOME": str(tmp_path)}, str(tmp_path / "settings.json")) is None


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
    for _ in range(2):
        installing = run_to_end(environ, "hooks", "install", "codex")
        assert "! codex skips our entries for SessionStart, UserPromptSubmit" in installing.stdout
    shape = json.loads(run_to_end(environ, "status", "--json").stdout)
    events = ["SessionStart", "UserPromptSubmit", "SubagentStart"]
    assert shape["hooks_not_allowed"] == {"codex": events}
    page = run_to_end(environ, "status").stdout
    assert "! codex skips our entries for SessionStart, UserPromptSubmit, SubagentStart" in page
    assert "fix: start codex once" in page
    run_to_end(environ, "hooks", "uninstall", "codex")
    assert json.loads(run_to_end(environ, "status", "--json").stdout)["hooks_not_allowed"] == {}


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


@pytest.mark.parametrize("name", ["claude-code", "opencode", "copilot-cli"])
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_nothing_behind(home: Path, name: str, there: bool) -> None:
    """RLIMIT_FSIZE of 0: folders can be made, files cannot grow."""
    path = Path(target(PLATFORMS[name], {"HOME": str(home)}, None))
    if there:
        path.parent.mkdir(parents=True)
    before = sorted(home.rglob("*"))
    for verb in (("hooks", "install", name), ("service", "install")):
        done = run_to_end(clean_environ(home), *verb, program=[*FULL_DISK, *command()])
        assert (done.returncode, done.stdout) == (1, "")
        assert "cannot be written (File too large)" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert sorted(home.rglob("*")) == before


def test_a_full_disk_leaves_the_state_folder_as_it_was(home: Path) -> None:
    environ = clean_environ(home)
    store = make_store(home / "app" / ".claude-mem" / "claude-mem.db")
    assert run_to_end(environ, "allow", store).returncode == 0
    before = {path: path.read_bytes() for path in (home / ".claude-mem" / "daemon").iterdir()}
    assert list(map(str, before)) == [f"{home}/.claude-mem/daemon/trusted.json"]
    done = run_to_end(environ, "deny", store, program=[*FULL_DISK, *command()])
    assert done.returncode == 1
    now = {path: path.read_bytes() for path in (home / ".claude-mem" / "daemon").iterdir()}
    assert now == before
