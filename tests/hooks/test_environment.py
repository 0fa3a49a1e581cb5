"""The caller's environment belongs to another program: nothing in it stops an answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claudemem_daemon import hook
from claudemem_daemon.hookfiles.commands import python_line
from claudemem_daemon.hookfiles.files import install
from tests.cases.world import World, new_world
from tests.support.daemon import clean_environ, command, run_to_end
from tests.support.stores import make_store

COMMANDS = (["context"], ["query"], ["status"], ["config"], ["worktrees"], ["explain"], ["doctor"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with new_world(tmp_path_factory.mktemp("w")) as made:
        made.repository("app")
        made.row("app", title="THE ROW")
        yield made


def odd_environments(folder: Path) -> dict[str, dict[str, str]]:
    """What other programs hand down, by what it is; `folder` holds modules that end Python when
    they are imported in place of its own."""
    for name in ("types", "re", "os", "sitecustomize", "usercustomize", "click", "encodings"):
        (folder / f"{name}.py").write_text("raise SystemExit(3)\n")
    image = "/tmp/.mount_X/usr/"
    return {
        "AppImage": {"PYTHONHOME": image, "PYTHONPATH": f"{image}share/pyshared/:"},
        "modules": {"PYTHONPATH": str(folder)},
        "another Python": {"PYTHONEXECUTABLE": "/no/python", "__PYVENV_LAUNCHER__": "/no/python"},
        "library folder": {"PYTHONPLATLIBDIR": "lib64x"},
        "values Python refuses": {"PYTHONHASHSEED": "x", "PYTHONUTF8": "x"},
        "encoding": {"PYTHONIOENCODING": "none-such"},
        "words": {"PYTHONWARNINGS": "error", "PYTHONVERBOSE": "1", "PYTHONINSPECT": "1"},
        "locale": {"LC_ALL": "de_DE.ISO-8859-1", "LANG": "C"},
        "C locale": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        "odd names": {
            "CLAUDE_MEM_\udcff": "x",
            "CLAUDE_MEM_ü": "x",
            "CLAUDE_MEM_A: B": "x",
            "CLAUDE_MEM_A\r\nX": "1",
        },
        "40 KB": {f"CLAUDE_MEM_NUMBER_{n}": "ü" * 2000 for n in range(10)},
    }


ODD = (
    "AppImage", "modules", "another Python", "library folder", "values Python refuses", "encoding",
    "words", "locale", "C locale", "odd names", "40 KB",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_the_installed_line_and_every_command_answer(
    world: World, tmp_path: Path, name: str
) -> None:
    odd = odd_environments(tmp_path)[name]
    link = tmp_path / "bin" / "claudemem-daemon"
    link.parent.mkdir()
    link.symlink_to(command()[0])
    environ = clean_environ(world.home) | odd
    call = {"session_id": name, "cwd": str(world.root / "app"), "hook_event_name": "SessionStart"}
    for program in (command()[0], str(link)):
        done = subprocess.run(
            ["sh", "-c", python_line("claude-code", program)],
            input=json.dumps(call | {"session_id": name + program}).encode(),
            env=environ,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"THE ROW" in done.stdout
    for arguments in COMMANDS:
        where = ["--cwd", str(world.root / "app")] if arguments != ["status"] else []
        told = run_to_end(environ, *arguments, *where, program=command())
        assert "Traceback" not in told.stderr
        assert "unexpected" not in told.stderr
        assert told.returncode == 0 or arguments == ["doctor"], (arguments, told.stderr)
        if arguments[0] in ("context", "query"):
            assert "THE ROW" in told.stdout


def installation(folder: Path) -> Path:
    """An environment whose Python can be taken away; its program."""
    bin_folder = folder / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys.executable)}\n")
    program = bin_folder / "claudemem-daemon"
    shutil.copy(command()[0], program)
    return program


def test_a_launcher_without_its_python_says_so(tmp_path: Path) -> None:
    """After an upgrade of Python the link in an environment points nowhere."""
    program = installation(tmp_path)
    state = tmp_path / ".claude-mem" / "daemon"
    state.mkdir(parents=True, mode=0o700)
    environ = clean_environ(tmp_path)
    done = subprocess.run(
        ["sh", "-c", python_line("codex", str(program))],
        env=environ,
        input=b"{}",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    (line,) = (state / "hook.log").read_text().splitlines()
    assert line.split("\t")[1:3] == ["codex", "python"]
    told = subprocess.run([program, "status"], env=environ, capture_output=True, check=False)
    assert told.returncode == 1
    assert b"is gone, or not for this user" in told.stderr
    # Seen by the doctor of another installation.
    install("codex", environ, python_line("codex", str(program)))
    doctor = run_to_end(environ, "doctor", program=command())
    assert doctor.returncode == 1
    assert "is gone, or not for this user" in doctor.stdout
    assert "fix: claudemem-daemon hooks install codex" in doctor.stdout
    (failed,) = (line for line in doctor.stdout.splitlines() if "codex: the program" in line)
    assert failed.startswith("FAILED")


def test_every_reason_of_the_command_is_known() -> None:
    assert "\tpython\t" in Path(command()[0]).read_text().replace("\\t", "\t")
    assert "python" in hook.REASONS


SUDO = (
    ["hook", "claude-code"],
    ["hooks", "install", "claude-code"],
    ["hooks", "install", "codex"],
    ["hooks", "install", "claude-code", "--project"],
    ["hooks", "uninstall", "gemini-cli"],
    ["service", "install"],
    ["service", "uninstall"],
    ["allow", "../store.db"],
    ["run"],
    ["start"],
)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("arguments", SUDO, ids=" ".join)
def test_under_sudo_nothing_is_made_in_the_users_home(tmp_path: Path, arguments: list[str]) -> None:
    checkout = tmp_path / "app"
    subprocess.run(["git", "init", "-q", checkout], check=True)
    make_store(tmp_path / "store.db")
    environ = clean_environ(tmp_path)
    install("gemini-cli", environ, python_line("gemini-cli", command()[0]))
    shutil.rmtree(tmp_path / ".claude-mem", ignore_errors=True)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{}")
    paths = [tmp_path, *tmp_path.rglob("*")]
    for path in paths:
        os.chown(path, 1000, 1000)
    before = {path: path.read_bytes() for path in paths if path.is_file()}
    done = subprocess.run(
        [*command(), *arguments],
        input=b'{"session_id":"s","cwd":"/","hook_event_name":"SessionStart"}',
        env=environ,
        cwd=checkout,
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0, done.stdout) == (arguments[0] == "hook", b"")
    assert b"belongs to user 1000" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert [tmp_path, *tmp_path.rglob("*")] == paths
    assert {path: path.read_bytes() for path in before} == before
    assert {path.stat().st_uid for path in paths} == {1000}
