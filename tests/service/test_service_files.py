"""What `service` writes, and what it says where there is no service manager to talk to."""

from __future__ import annotations

import os
import plistlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.errors import ServiceError
from claudemem_daemon.service import manage
from claudemem_daemon.service.plan import make_plan
from claudemem_daemon.service.units import (
    PLIST,
    SERVICE,
    SOCKET,
    program_of,
    render_agent,
    render_units,
    unquote,
)
from tests.support.daemon import clean_environ, command

ODD_HOME = "/Users/A & B <x>"
ODD_PATH = "/opt/50%/bin:/a b"

# A property list is XML, which has no form for control characters nor for these two.
paths = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"),
    min_size=1,
    max_size=40,
).map(lambda text: "/" + text)


@given(paths)
def test_systemd_gives_back_what_a_unit_was_given(path: str) -> None:
    """Case unit-escaping."""
    units = render_units(path, "/s.sock", {"PATH": path})
    service = units[SERVICE]
    assert program_of(SERVICE, service.encode()) == path
    line = next(one for one in service.splitlines() if one.startswith("Environment="))
    assert unquote(line.removeprefix("Environment=")) == f"PATH={path}"


@given(paths)
def test_launchd_gives_back_what_an_agent_was_given(path: str) -> None:
    """Case unit-escaping."""
    agent = plistlib.loads(render_agent(path, path, {"PATH": path, "HOME": ODD_HOME}))
    assert agent["ProgramArguments"] == [path, "run"]
    assert agent["EnvironmentVariables"] == {"PATH": path, "HOME": ODD_HOME}
    assert agent["StandardErrorPath"] == path


def test_the_agent_is_started_again_only_after_a_failure() -> None:
    """Case launchd-respawn-loop."""
    agent = plistlib.loads(render_agent("/p", "/l", {}))
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ThrottleInterval"] >= 10
    assert agent["RunAtLoad"] is True
    assert "Sockets" not in agent


def test_the_unit_carries_the_path_it_was_installed_with() -> None:
    """Case launchd-systemd-path-lacks-git."""
    plan = make_plan({"HOME": "/h", "PATH": "/opt/tools/bin:/bin"}, "/p", "linux")
    assert (
        b'Environment="PATH=/opt/tools/bin:/bin"'
        in plan.files[f"/h/.config/systemd/user/{SERVICE}"]
    )
    mac = make_plan({"HOME": ODD_HOME, "PATH": ODD_PATH}, "/p", "darwin")
    (agent,) = mac.files.values()
    assert plistlib.loads(agent)["EnvironmentVariables"] == {"HOME": ODD_HOME, "PATH": ODD_PATH}


def test_a_moved_state_folder_is_the_services_as_well() -> None:
    plan = make_plan(
        {"HOME": "/h", "PATH": "/bin", "CLAUDEMEM_DAEMON_HOME": "/x/50%"}, "/p", "linux"
    )
    folder = "/h/.config/systemd/user/"
    assert b"ListenStream=/x/50%%/daemon.sock" in plan.files[folder + SOCKET]
    assert b'Environment="CLAUDEMEM_DAEMON_HOME=/x/50%%"' in plan.files[folder + SERVICE]


def fake(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def ours(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(), *arguments],
        env=clean_environ(home, **env),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("present", [True, False])
def test_no_bus_is_explained_and_the_files_stay(tmp_path: Path, present: bool) -> None:
    """Case user-bus-missing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    if present:
        fake(tools, "systemctl", 'echo "Failed to connect to bus: No medium found" >&2; exit 1')
    done = ours(tmp_path, "service", "install", PATH=str(tools))
    assert done.returncode == 1
    assert "cannot reach the user's service manager" in done.stderr
    assert "claudemem-daemon start" in done.stderr
    assert done.stdout.count("wrote") == 2
    status = ours(tmp_path, "service", "status", PATH=str(tools))
    assert status.returncode == 1
    assert "installed" in status.stdout
    gone = ours(tmp_path, "service", "uninstall", PATH=str(tools))
    assert gone.returncode == 0
    assert gone.stdout.count("removed") == 2
    assert "files are in place" not in gone.stdout
    assert "The files are gone" in gone.stdout
    assert "claudemem-daemon stop" in gone.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["tools"]


@pytest.mark.parametrize(
    ("system", "what"),
    [
        (system, what)
        for system in ("linux", "darwin")
        for what in ("mask", "link", "folder", "pipe")
    ]
    + [("linux", "unit"), ("linux", "empty")],
)
def test_what_the_user_put_in_our_place_stays(tmp_path: Path, system: str, what: str) -> None:
    environ: Mapping[str, str] = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    plan = make_plan(environ, "/bin/sh", system)
    unit = Path(list(plan.files)[-1])
    unit.parent.mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.write_bytes(plan.files[str(unit)])
    match what:
        case "mask" | "link":
            unit.symlink_to("/dev/null" if what == "mask" else mine)
        case "folder":
            unit.mkdir()
        case "pipe":
            os.mkfifo(unit)
        case _:
            unit.write_text("[Service]\nExecStart=/bin/mine\n" if what == "unit" else "")
    before = os.lstat(unit)
    for act in (manage.install, manage.uninstall):
        with pytest.raises(ServiceError, match="move it away first"):
            act(plan, environ, lambda verb, path: None)
        assert os.lstat(unit) == before
        assert os.listdir(unit.parent) == [unit.name]


def test_what_was_enabled_is_disabled_without_a_bus(tmp_path: Path) -> None:
    """The links that a manager made, which is not to be reached any more; others' stay."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake(tools, "systemctl", "exit 0")
    assert ours(tmp_path, "service", "install", PATH=str(tools)).returncode == 0
    units = tmp_path / ".config" / "systemd" / "user"
    for target, unit in (("default", SERVICE), ("sockets", SOCKET), ("sockets", "theirs.socket")):
        (units / f"{target}.target.wants").mkdir(exist_ok=True)
        (units / f"{target}.target.wants" / unit).symlink_to(units / unit)
    fake(tools, "systemctl", 'echo "Failed to connect to bus: No medium found" >&2; exit 1')
    assert ours(tmp_path, "service", "uninstall", PATH=str(tools)).returncode == 0
    left = [path.relative_to(units) for path in sorted(units.rglob("*"))]
    assert [str(path) for path in left] == [
        "sockets.target.wants",
        "sockets.target.wants/theirs.socket",
    ]


@pytest.mark.parametrize(("answer", "told"), [("no", True), ("yes", False), (None, True)])
def test_lingering_is_explained_and_left_to_the_user(
    tmp_path: Path, answer: str | None, told: bool
) -> None:
    """Case linger-off-service-dies."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake(tools, "systemctl", "exit 0")
    if answer is not None:
        fake(tools, "loginctl", f'echo "$@" >> {tmp_path}/asked; echo {answer}')
    done = ours(tmp_path, "service", "install", PATH=str(tools))
    assert done.returncode == 0, done.stderr
    assert ("loginctl enable-linger" in done.stdout) is told
    asked = tmp_path / "asked"
    assert not asked.exists() or "enable-linger" not in asked.read_text()


def test_a_vanished_launcher_is_named(tmp_path: Path) -> None:
    """Case interpreter-path-vanishes."""
    versioned = tmp_path / "versions" / "3.11.7"
    versioned.mkdir(parents=True)
    launcher = tmp_path / "bin" / "claudemem-daemon"
    launcher.parent.mkdir()
    (versioned / "claudemem-daemon").write_text("#!/bin/sh\n")
    (versioned / "claudemem-daemon").chmod(0o755)
    launcher.symlink_to(versioned / "claudemem-daemon")
    environ: Mapping[str, str] = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    plan = make_plan(environ, str(launcher), "linux")
    for path, content in plan.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
    good = manage.find_state(plan, environ)
    assert good.state != "broken"
    assert good.files == tuple(plan.files)
    (versioned / "claudemem-daemon").unlink()
    state = manage.find_state(plan, environ)
    assert state.state == "broken"
    assert f"its program is gone ({launcher})" in state.sentence
    assert state.fix == "claudemem-daemon service install"
    # The program is there, and what it runs by is not.
    launcher.unlink()
    launcher.write_text("#!/nonexistent/python\n")
    launcher.chmod(0o755)
    assert "its program cannot run" in manage.find_state(plan, environ).sentence


def test_launchd_is_booted_out_before_it_is_loaded(tmp_path: Path) -> None:
    """launchctl itself is not to be had here; its words are."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake(tools, "launchctl", f'echo "$1" >> {tmp_path}/asked; [ "$1" != bootout ]')
    environ = {"HOME": str(tmp_path), "PATH": f"{tools}:/bin:/usr/bin"}
    plan = make_plan(environ, "/bin/sh", "darwin")
    manage.install(plan, environ, print)
    assert (tmp_path / "asked").read_text().split() == ["bootout", "bootstrap"]
    assert os.path.exists(tmp_path / "Library/LaunchAgents" / PLIST)
    manage.uninstall(plan, environ, print)
    assert not os.path.exists(tmp_path / "Library/LaunchAgents" / PLIST)


def test_print_shows_and_does_nothing(tmp_path: Path) -> None:
    done = ours(tmp_path, "service", "install", "--print")
    assert done.returncode == 0
    assert "ExecStart=" in done.stdout
    assert "$ systemctl --user enable" in done.stdout
    assert list(tmp_path.iterdir()) == []
