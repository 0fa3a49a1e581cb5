"""The line of an entry: it harms no prompt, it lasts, and it is told from everybody else's."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from claudemem_daemon.hookfiles.commands import (
    curl_line,
    is_ours,
    lasting_launcher,
    launcher,
    python_line,
)
from claudemem_daemon.hookfiles.files import BACKUP, install, installed, uninstall
from claudemem_daemon.hookfiles.platforms import PLATFORMS, target
from claudemem_daemon.local import socket_path
from tests.cases.world import World
from tests.hooks.platforms import COMMAND, COMMANDS, JSON_PLATFORMS
from tests.support.daemon import clean_environ, command, run_to_end

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
        assert uninstall(name, environ).what == "unchanged"
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
    assert uninstall("copilot-cli", environ).what == "unchanged"
    found = installed(PLATFORMS["copilot-cli"], environ)
    assert found.theirs == (("sessionStart", line), ("postToolUse", line))
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


def test_a_module_that_was_run_is_not_taken_for_the_launcher(tmp_path: Path) -> None:
    """`python -m claudemem_daemon hooks install`: the module's file cannot be run by itself."""
    module = str(tmp_path / "claudemem_daemon" / "__main__.py")
    assert os.access(launcher({"PATH": ""}, module), os.X_OK)
    given = str(tmp_path / "bin" / "claudemem-daemon")
    assert launcher({"PATH": os.environ["PATH"]}, given) == given


def test_the_curl_line_brings_the_same_context(world: World) -> None:
    """Whatever a .curlrc or a proxy would have it do."""
    home = world.home
    daemon = world.daemon
    (home / ".curlrc").write_text('verbose\ninclude\nproxy = "127.0.0.1:9"\n')
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
