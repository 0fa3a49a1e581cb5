"""Folders and files that this user may not use: each is named with a command that mends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.permissions import access_fix
from tests.support.daemon import DEVELOPING, clean_environ, run_to_end
from tests.support.stores import make_store

BOUND = [*DEVELOPING]
"""The command, for which the permission bits count: root may do everything but for this."""
if os.getuid() == 0:
    BOUND = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *DEVELOPING]
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv here", allow_module_level=True)


def checks(environ: dict[str, str]) -> list[dict[str, Any]]:
    done = run_to_end(environ, "doctor", "--json", program=BOUND)
    found: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
    return found


def paste(command: str, folder: Path) -> None:
    assert subprocess.run(["sh", "-c", command], check=False, cwd=folder).returncode == 0


@pytest.mark.parametrize(
    "what",
    ["parent", "folder", "link", "open", "protected", "closed", "read only", "missing"],
)
def test_doctor_tells_whether_the_state_folder_can_be_made(home: Path, what: str) -> None:
    folder = home / ".claude-mem" / "daemon"
    if what in ("folder", "link", "open", "closed", "read only"):
        folder.parent.mkdir()
    if what == "parent":
        folder.parent.write_text("a file")
    elif what == "folder":
        folder.write_text("a file")
    elif what == "link":
        folder.symlink_to(home)
    elif what == "open":
        folder.mkdir(mode=0o755)
    elif what == "protected":
        home.chmod(0o500)
    elif what == "closed":
        folder.mkdir(mode=0o700)
        folder.parent.chmod(0)
    elif what == "read only":
        folder.mkdir(mode=0o500)
    before = sorted(path.name for path in home.rglob("*"))
    environ = clean_environ(home)
    check = checks(environ)[0]
    assert before == sorted(path.name for path in home.rglob("*"))
    refused = run_to_end(environ, "start", program=BOUND)
    assert (check["name"], check["status"]) == (
        "state folder",
        "ok" if what == "missing" else "failed",
    )
    if what != "missing":
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
        assert check["message"] in refused.stderr
        assert check["fix"] in refused.stderr
        paste(check["fix"], home)
        assert checks(environ)[0]["status"] == "ok"
        assert run_to_end(environ, "start", program=BOUND).returncode == 0
    assert run_to_end(environ, "stop").returncode == 0


@pytest.mark.parametrize("closed", ["data", "data/settings.json", "data/claude-mem.db", "."])
def test_what_cannot_be_read_can_after_the_advice(home: Path, closed: str) -> None:
    data = home / "elsewhere" / "data"
    data.mkdir(parents=True)
    make_store(data / "claude-mem.db")
    (data / "settings.json").write_text("{}")
    (data.parent / closed).chmod(0)
    environ = clean_environ(home, CLAUDE_MEM_DATA_DIR=str(data))
    wrong = {"settings": 0, "store": 0}
    for _ in wrong:
        for check in checks(environ):
            if check["name"] in wrong and check["status"] != "ok":
                wrong[check["name"]] += 1
                paste(check["fix"], home)
    assert any(wrong.values())
    assert [check for check in checks(environ) if "Permission denied" in check["message"]] == []


def test_a_file_of_root_is_to_be_given_to_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of the user's; in root's own it is not to be given away."""
    (tmp_path / "settings.json").touch()
    owner, path = os.geteuid(), f"{tmp_path}/settings.json"
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert access_fix(path, "w") == f"ask user {owner}, whose {path} is, for access"
    if owner == 0:
        os.chown(tmp_path, 4321, -1)
        assert access_fix(path, "w") == f"sudo chown 4321 {path}"


@pytest.mark.parametrize("closed", ["settings.json", "."])
@pytest.mark.parametrize("mode", [0, 0o500])
def test_hooks_can_be_installed_after_the_advice(home: Path, closed: str, mode: int) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    (path.parent / closed).chmod(mode)
    install = ("hooks", "install", "claude-code")
    for _ in range(2):
        done = run_to_end(clean_environ(home), *install, program=BOUND)
        if done.returncode == 0:
            break
        assert "; nothing was changed" in done.stderr
        paste(done.stderr.split("`")[1], home)
    assert run_to_end(clean_environ(home), *install, program=BOUND).returncode == 0
    assert json.loads(path.read_text())["hooks"]


def test_a_relative_path_is_advised_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert access_fix("missing/file") == "chmod u+rwx ."
