"""Edits are noticed by content, wherever they come from and whatever the kernel says of them."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.events import (
    DirModifiedEvent,
    FileClosedNoWriteEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileOpenedEvent,
)
from watchdog.observers.api import BaseObserver

from claudemem_daemon.question import Question
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.watcher import SettingsWatcher, _Handler

LIMIT = "CLAUDE_MEM_CONTEXT_OBSERVATIONS"


class Home:
    """A HOME with a watched settings.json; `changed` is set by each noticed change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / ".claude-mem"
        self.file = self.folder / "settings.json"
        self.configuration = Configuration({"HOME": str(path)})
        self.changed = threading.Event()
        self.changes = 0
        self.watcher = SettingsWatcher(self.configuration, self.on_change)

    def on_change(self) -> None:
        self.changes += 1
        self.changed.set()

    def write(self, limit: int) -> None:
        self.folder.mkdir(exist_ok=True)
        self.file.write_text(json.dumps({LIMIT: limit}))

    def limit(self) -> int:
        return self.configuration.snapshot(Question(cwd="/")).limit

    def noticed(self) -> None:
        assert self.changed.wait(10), "no change was noticed"
        self.changed.clear()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.watcher.stop()


def test_an_edit_is_noticed_before_anyone_asks(home: Home) -> None:
    home.write(3)
    assert home.limit() == 3
    home.watcher.start()
    assert home.watcher.describe().backend != "stat-per-request"
    home.write(4)
    home.noticed()
    replacement = home.folder / "new"
    replacement.write_text(json.dumps({LIMIT: 5}))
    replacement.replace(home.file)
    home.noticed()
    assert home.limit() == 5


def test_a_folder_that_comes_later_is_watched(home: Home) -> None:
    """Case watched-dir-missing-at-start."""
    home.watcher.start()
    assert home.limit() == 50
    assert list(home.path.iterdir()) == [], "starting creates nothing"
    home.write(2)
    home.noticed()
    assert home.limit() == 2


def test_a_folder_that_is_made_again_or_swapped_is_watched(home: Home) -> None:
    """Case watched-dir-recreated."""
    home.write(3)
    home.limit()
    home.watcher.start()
    os.rename(home.folder, home.path / "bak")
    home.noticed()
    home.write(2)
    home.noticed()
    assert home.limit() == 2
    other = home.path / "other"
    other.mkdir()
    (other / "settings.json").write_text(json.dumps({LIMIT: 9}))
    os.rename(home.folder, home.path / "bak2")
    os.rename(other, home.folder)
    home.noticed()
    assert home.limit() == 9
    home.write(10)
    home.noticed()
    assert home.limit() == 10


def test_reading_is_no_change(home: Home) -> None:
    """Case watch-read-events-loop: events of our own reading, and a rewrite with the same text."""
    home.write(3)
    home.limit()
    handler = _Handler(home.watcher.notice)
    before = home.configuration.state().revision
    for _ in range(50):
        handler.on_any_event(FileOpenedEvent(str(home.file)))
        handler.on_any_event(FileClosedNoWriteEvent(str(home.file)))
        handler.on_any_event(FileModifiedEvent(str(home.file)))
    home.write(3)
    handler.on_any_event(FileModifiedEvent(str(home.file)))
    assert home.configuration.state().revision == before
    assert home.changes == 0


def test_odd_events_for_one_save_are_one_reload(home: Home) -> None:
    """Case fsevents-duplicates."""
    home.write(3)
    home.limit()
    handler = _Handler(home.watcher.notice)
    home.write(4)
    path, outside = str(home.file), str(home.path / "elsewhere")
    for event in (
        FileModifiedEvent(path),
        FileModifiedEvent(path),
        FileCreatedEvent(path),
        FileDeletedEvent(path),
        FileMovedEvent(outside, path),
        DirModifiedEvent(str(home.folder)),
        FileModifiedEvent(outside),
    ):
        handler.on_any_event(event)
    assert home.changes == 1
    assert home.limit() == 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_without_watches_every_request_looks(home: Home, code: int) -> None:
    """Cases inotify-limits and no-inotify-events-need-polling."""

    def refused() -> BaseObserver:
        raise OSError(code, os.strerror(code))

    watcher = SettingsWatcher(home.configuration, home.on_change, observer=refused)
    home.write(3)
    assert home.limit() == 3
    watcher.start()
    state = watcher.describe()
    assert state.backend == "stat-per-request"
    assert state.problem is not None
    assert os.strerror(code) in state.problem
    home.write(4)
    assert home.limit() == 4
    watcher.stop()


def test_a_dead_observer_is_started_again(home: Home) -> None:
    home.write(3)
    home.limit()
    home.watcher.start()
    dead = home.watcher._observer
    assert dead is not None
    dead.stop()
    dead.join(10)
    assert home.watcher.describe().backend != "stat-per-request"
    home.write(4)
    home.noticed()


def test_only_the_folder_itself_is_watched(home: Home) -> None:
    """Case inotify-limits: a data dir with many folders in it costs two watches."""
    home.write(3)
    for number in range(200):
        (home.folder / f"d{number}").mkdir()
    home.watcher.start()
    assert set(home.watcher.describe().folders) == {str(home.folder), str(home.path)}
