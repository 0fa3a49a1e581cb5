"""The README's first command does what it says, from an empty HOME, and leaves nothing."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from tests.support.daemon import clean_environ, command


def test_the_demo_holds_its_claims_and_cleans_up(tmp_path: Path) -> None:
    home, tmp = tmp_path / "home", tmp_path / "t"
    home.mkdir()
    tmp.mkdir()
    done = subprocess.run(
        [*command(), "demo"],
        env=clean_environ(home, TMPDIR=str(tmp)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("   ok: ") == 7
    assert "NOT SO" not in done.stdout
    assert "\x1b" not in done.stdout
    for line in done.stdout.splitlines()[-2:]:
        printed = [*shlex.split(line), "--help"]
        subprocess.run(printed, env={"HOME": str(home)}, capture_output=True, check=True)
    assert list(home.iterdir()) == []
    assert list(tmp.iterdir()) == []


def test_without_git_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(), "demo"],
        env={"HOME": str(tmp_path), "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == "claudemem-daemon: demo needs git, and there is none on the PATH: install git\n"
    )
