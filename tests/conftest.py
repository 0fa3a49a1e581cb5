"""What every test has: a HOME of its own, and a daemon in it if it asks for one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.cases.world import World, new_world
from tests.support.daemon import Daemon, eventually
from tests.support.leftovers import Leftovers, adopt_orphans

# Speed is no subject of these tests, and they run beside others on small machines.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("patient"), max_examples=5_000)
settings.load_profile("patient")

OURS = ("CLAUDE", "CURSOR", "GEMINI", "COPILOT", "CODEX", "XDG_", "GIT_", "LISTEN_", "NOTIFY_")
MORE = ("INVOCATION_ID", "XPC_SERVICE_NAME")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="sized for minutes instead of seconds")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        settings.load_profile("long")
        config.option.timeout = 3600
    adopt_orphans()
    # A folder of our own, so that what a test leaves in it is its own; pytest's stay elsewhere. Not
    # in TMPDIR: the one of macOS is behind a link, and too long for the address of a socket in it.
    os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.gettempdir()
    folder = os.path.join(os.path.realpath("/tmp"), f"cm-{os.getpid():x}")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed and had our process id
    os.mkdir(folder)
    config.add_cleanup(lambda: os.rmdir(folder))
    os.environ["TMPDIR"] = tempfile.tempdir = folder


@pytest.fixture(autouse=True)
def _clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own assistant, git or service manager decides a test."""
    for name in list(os.environ):
        if name.startswith(OURS) or name in MORE:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nothing_is_left(_clean_environ: None) -> Iterator[None]:
    """A test ends the threads and processes it starts, closes its files and removes its folders."""
    before = Leftovers.now()
    yield
    eventually(
        lambda: not before.added_since(), lambda: f"no {', '.join(before.added_since())}", within=5
    )


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """With a short name: in pytest's own, a HOME soon is too long for the address of its socket."""
    with tempfile.TemporaryDirectory(prefix="cm-") as folder:
        yield Path(folder)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty HOME."""
    with tempfile.TemporaryDirectory(prefix="cm-") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    """One for all tests of a module that only ask, and leave it as it was."""
    with tempfile.TemporaryDirectory(prefix="cm-") as folder, Daemon(folder) as running:
        yield running


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    with Daemon(home) as running:
        yield running


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with new_world(tmp_path) as made:
        yield made
