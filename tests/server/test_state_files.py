"""Our own files, each of them something else: nothing hangs, and it is put aside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from claudemem_daemon.server.log import MAX_BYTES, Log
from tests.support.daemon import Daemon, clean_environ, run_to_end
from tests.support.stores import make_store

ALL = ("daemon.lock", "daemon.log", "sessions.json", "trusted.json", "folders.json", "hook.log")
WRITTEN_ANEW = ("daemon.lock", "daemon.log", "sessions.json", "trusted.json", "folders.json")


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "another's"])
@pytest.mark.parametrize("suffix", ["", ".new"])
@pytest.mark.parametrize("before", ["", "a folder"])
def test_what_is_no_file_of_ours_hangs_nothing(
    home: Path, kind: str, suffix: str, before: str
) -> None:
    """`before`: what was put aside earlier."""
    state = home / ".claude-mem" / "daemon"
    state.mkdir(mode=0o700, parents=True)
    for name in ALL:
        path = state / (name + suffix)
        if before:
            (state / f"{path}.aside" / "theirs").mkdir(parents=True)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            (path / "theirs").mkdir(parents=True)
        elif kind == "link":
            path.symlink_to(home / "elsewhere" / name)
        else:
            path.write_text("[]")
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
    environ = clean_environ(home)
    store = make_store(home / "store.db")
    call = {"session_id": "s", "cwd": str(home), "hook_event_name": "SessionStart"}
    with Daemon(home) as daemon:
        assert daemon.post("/v1/hooks/claude-code", call).status == 200
        assert run_to_end(environ, "allow", store).returncode == 0
        assert run_to_end(environ, "hooks", "install", "claude-code").returncode == 0
        assert run_to_end(environ, "query", "--cwd", str(home)).returncode == 0
        doctor = run_to_end(environ, "doctor", "--cwd", str(home))
        assert "unexpected" not in doctor.stderr
        assert daemon.stop() == 0
    for name in WRITTEN_ANEW:
        assert (state / name).is_file(), name
        assert not (state / name).is_symlink(), name
        assert (state / name).stat().st_uid == os.geteuid(), name
        aside = state / (name + suffix + ".aside")
        assert suffix or os.path.lexists(f"{aside}2" if before else aside), name
        assert not before or os.listdir(aside) == ["theirs"]
    assert json.loads((state / "trusted.json").read_text())["stores"]
    assert not (home / "elsewhere").exists()
    assert run_to_end(environ, "hooks", "uninstall", "claude-code").returncode == 0


def test_a_full_log_is_moved_where_a_folder_has_the_name(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"x" * MAX_BYTES)
    (tmp_path / "daemon.log.1" / "theirs").mkdir(parents=True)
    Log(str(path)).line("still said")
    assert path.read_text().endswith("still said\n")
    assert (tmp_path / "daemon.log.1").stat().st_size == MAX_BYTES
    assert os.listdir(tmp_path / "daemon.log.1.aside") == ["theirs"]
