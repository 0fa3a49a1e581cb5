"""Edits are noticed by content, wherever they come from and whatever the kernel says of them."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.events import (
    DirModifiedEvent,
    FileClosedEvent,
    FileClosedNoWriteEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileOpenedEvent,
    FileSystemEvent,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, EventEmitter, ObservedWatch

from claudemem_daemon.settings.watcher import SettingsWatcher
from tests.settings.support import DATA_DIR, LIMIT, Home, freeze_stats
from tests.support.daemon import eventually


class Silent(EventEmitter):
    """A file system that says nothing."""

    def queue_events(self, timeout: float) -> None:
        self.stopped_event.wait()


class Counting(SettingsWatcher):
    """Counts the checks after which nothing is left to do."""

    checks = 0

    def _check(self) -> None:
        super()._check()
        self.checks += not self._wake.is_set()


class Watched(Home):
    """A home that is watched, by an observer that says nothing for events that are fed to it."""

    def __init__(self, path: Path, observer: Callable[[], BaseObserver] = Observer) -> None:
        super().__init__(path)
        self.watcher = Counting(self.configuration, observer=observer)
        self.told = 0

    def start(self) -> None:
        """Watched from now on."""
        self.limit()
        self.watcher.start()
        eventually(lambda: self.watcher.checks, "folders are watched")

    def noticed(self) -> None:
        """Since this was asked before, there was a change."""
        eventually(lambda: self.watcher.describe().reloads > self.told, "a change is noticed")
        self.told = self.watcher.describe().reloads

    def limit(self) -> int:
        return self.ask().limit

    def feed(self, *events: FileSystemEvent) -> int:
        """What the watcher's thread does after each; how many were worth waking up for."""
        self.watcher._make = lambda: BaseObserver(Silent)
        self.watcher._set_watches()
        woken = 0
        for event in events:
            self.watcher.dispatch(event)
            woken += self.watcher._wake.is_set()
            while self.watcher._wake.is_set():
                self.watcher._check()
        return woken


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.watcher.stop()
    made.watcher._close()


def test_an_edit_is_noticed_before_anyone_asks(home: Watched) -> None:
    home.write({LIMIT: 3})
    home.start()
    assert home.watcher.describe().backend != "stat-per-request"
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    home.noticed()
    home.write({LIMIT: 5})
    home.noticed()
    home.file.unlink()
    home.noticed()
    assert home.limit() == 50


def test_what_a_stat_cannot_see_the_watcher_sees(
    home: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case hot-reload-not-applied: equal size and equal times, on a file system that hides it."""
    home.write({LIMIT: 3})
    home.start()
    freeze_stats(monkeypatch)
    assert home.limit() == 3
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    home.noticed()
    eventually(lambda: home.limit() == 4, "the new content is in force")


def test_a_folder_that_comes_later_is_watched(home: Watched) -> None:
    """Case watched-dir-missing-at-start."""
    home.start()
    assert home.limit() == 50
    assert home.everything() == set(), "starting creates nothing"
    assert home.watcher.describe().folders == (str(home.path),)
    home.write({LIMIT: 2})
    home.noticed()
    assert home.limit() == 2
    home.write({LIMIT: 3})
    home.noticed()


def test_a_folder_far_from_existing_is_waited_for(tmp_path: Path) -> None:
    """Case watched-dir-missing-at-start, with several folders missing."""
    home = Watched(tmp_path)
    place = tmp_path / "a" / "b" / "data"
    home.configuration = type(home.configuration)({"HOME": str(tmp_path), DATA_DIR: str(place)})
    home.watcher = Counting(home.configuration)
    home.start()
    try:
        assert home.watcher.describe().folders == (str(tmp_path),)
        (tmp_path / "a").mkdir()
        eventually(
            lambda: str(tmp_path / "a") in home.watcher.describe().folders, "it follows down"
        )
        place.mkdir(parents=True)
        (place / "settings.json").write_text(json.dumps({LIMIT: 2}))
        eventually(lambda: str(place) in home.watcher.describe().folders, "it arrives")
        assert home.limit() == 2
    finally:
        home.watcher.stop()


def test_a_folder_that_is_made_again_or_swapped_is_watched(home: Watched) -> None:
    """Case watched-dir-recreated."""
    home.write({LIMIT: 3})
    home.start()
    os.rename(home.folder, home.path / "bak")
    home.noticed()
    assert home.limit() == 50
    home.write({LIMIT: 2})
    home.noticed()
    assert home.limit() == 2
    other = home.path / "other"
    other.mkdir()
    (other / "settings.json").write_text(json.dumps({LIMIT: 9}))
    os.rename(home.folder, home.path / "bak2")
    os.rename(other, home.folder)
    eventually(lambda: home.limit() == 9, "the swapped folder counts")
    inode = os.stat(home.folder).st_ino
    eventually(
        lambda: inode in {known for _, (_, known) in list(home.watcher._watches)},
        "the new folder is watched, not the old one by its name",
    )
    home.told = home.watcher.describe().reloads
    home.write({LIMIT: 10})
    home.noticed()
    assert home.limit() == 10


def test_reading_makes_no_events_at_all(home: Watched) -> None:
    """Case watch-read-events-loop: the kernel is not even asked for them."""
    home.write({LIMIT: 3})
    seen: list[FileSystemEvent] = []

    class Listening(Counting):
        def dispatch(self, event: FileSystemEvent) -> None:
            seen.append(event)
            super().dispatch(event)

    home.watcher = Listening(home.configuration)
    home.start()
    for _ in range(50):
        home.file.read_bytes()
        os.listdir(home.folder)
        home.configuration.reload()
    # An event of our own making comes after all that the reading may have made.
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    home.noticed()
    assert seen
    assert not [event for event in seen if event.event_type in ("opened", "closed_no_write")]
    assert home.watcher.describe().reloads <= 2


def test_reading_events_and_a_rewrite_with_the_same_text_are_no_change(home: Watched) -> None:
    """Case watch-read-events-loop."""
    home.write({LIMIT: 3})
    home.limit()
    path = str(home.file)
    before = home.configuration.revision
    for _ in range(50):
        home.feed(FileOpenedEvent(path), FileClosedNoWriteEvent(path), FileModifiedEvent(path))
    home.write({LIMIT: 3})
    home.feed(FileModifiedEvent(path), FileClosedEvent(path))
    assert home.configuration.revision == before
    assert home.watcher.describe().reloads == 0


def test_events_of_other_files_are_not_even_looked_at(home: Watched) -> None:
    """A store's writes are no concern of the settings."""
    home.write({LIMIT: 3})
    home.limit()
    woken = home.feed(
        FileModifiedEvent(str(home.folder / "claude-mem.db-wal")),
        FileCreatedEvent(str(home.folder / "settings.json.tmp")),
        FileMovedEvent(str(home.folder / "a"), str(home.folder / "b")),
        FileModifiedEvent(str(home.path / ".bash_history")),
    )
    assert woken == 0


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after a question saw it"])
def test_odd_events_for_one_save_are_one_reload(home: Watched, late: bool) -> None:
    """Case fsevents-duplicates."""
    home.write({LIMIT: 3})
    home.limit()
    home.write({LIMIT: 4})
    if late:
        assert home.limit() == 4
    path, outside = str(home.file), str(home.path / "elsewhere")
    home.feed(
        DirModifiedEvent(str(home.folder)),
        FileModifiedEvent(path),
        FileModifiedEvent(path),
        FileCreatedEvent(path),
        FileDeletedEvent(path),
        FileModifiedEvent(path),
        FileMovedEvent(outside, path),
        DirModifiedEvent(str(home.folder)),
        FileModifiedEvent(outside),
    )
    assert home.watcher.describe().reloads == 1
    assert home.limit() == 4
    home.feed(FileModifiedEvent(path))
    assert home.watcher.describe().reloads == 1, "an event two seconds late says nothing new"


def test_an_event_of_the_folder_alone_is_enough(home: Watched) -> None:
    """Case fsevents-duplicates: events merged into one of the folder."""
    home.write({LIMIT: 3})
    home.limit()
    home.write({LIMIT: 4})
    home.feed(DirModifiedEvent(str(home.folder)))
    assert home.watcher.describe().reloads == 1


def test_an_event_of_the_folder_by_its_real_name_is_enough(tmp_path: Path) -> None:
    """Case fsevents-duplicates, where the data dir is a link."""
    real = tmp_path / "data"
    real.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".claude-mem").symlink_to(real)
    home = Watched(tmp_path / "home")
    home.write({LIMIT: 3})
    home.limit()
    home.write({LIMIT: 4})
    home.feed(DirModifiedEvent(str(real)))
    assert home.watcher.describe().reloads == 1


def test_without_events_every_request_looks(tmp_path: Path) -> None:
    """Case no-inotify-events-need-polling."""
    home = Watched(tmp_path, lambda: BaseObserver(Silent))
    home.write({LIMIT: 3})
    home.start()
    try:
        home.rewrite(json.dumps({LIMIT: 4}).encode())
        assert home.limit() == 4
        home.write({LIMIT: 5})
        assert home.limit() == 5
        assert home.watcher.describe().reloads == 0
    finally:
        home.watcher.stop()


def test_one_event_is_enough_to_follow_the_data_dir(tmp_path: Path) -> None:
    """Where a save is one event, the folder that it names is watched after it."""
    home = Watched(tmp_path, lambda: BaseObserver(Silent))
    other = tmp_path / "other"
    other.mkdir()
    home.write({LIMIT: 3})
    home.start()
    try:
        home.write({DATA_DIR: str(other)})
        home.watcher.dispatch(FileModifiedEvent(str(home.file)))
        eventually(lambda: str(other) in home.watcher.describe().folders, "it follows")
    finally:
        home.watcher.stop()


class Full(BaseObserver):
    """An observer whose watches are refused."""

    code = errno.ENOSPC

    def __init__(self) -> None:
        super().__init__(Silent)

    def schedule(self, *_: Any, **__: Any) -> ObservedWatch:
        raise OSError(self.code, os.strerror(self.code))


def refused() -> BaseObserver:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(
    ("observer", "code"), [(Full, errno.ENOSPC), (refused, errno.EMFILE)], ids=["watch", "instance"]
)
def test_without_watches_every_request_looks(
    tmp_path: Path, observer: Callable[[], BaseObserver], code: int
) -> None:
    """Case inotify-limits."""
    home = Watched(tmp_path, observer)
    home.write({LIMIT: 3})
    assert home.limit() == 3
    home.watcher.start()
    eventually(lambda: home.watcher.describe().problem, "the problem is named")
    state = home.watcher.describe()
    assert (state.backend, state.folders) == ("stat-per-request", ())
    assert state.problem is not None
    assert os.strerror(code) in state.problem
    assert "\n" not in state.problem
    home.write({LIMIT: 4})
    assert home.limit() == 4
    home.watcher.stop()


def test_a_refused_watch_is_asked_for_again_when_somebody_looks(tmp_path: Path) -> None:
    """Case inotify-limits: the desktop is not busy for ever."""
    observers: list[Callable[[], BaseObserver]] = [refused]
    home = Watched(tmp_path, lambda: observers[-1]())
    home.watcher.start()
    eventually(lambda: home.watcher.describe().problem, "the problem is named")
    observers.append(Observer)
    eventually(lambda: home.watcher.describe().backend != "stat-per-request", "it watches")
    assert home.watcher.describe().problem is None
    home.watcher.stop()


def test_only_the_folder_itself_is_watched(home: Watched) -> None:
    """Case inotify-limits: a data dir with many folders in it costs two watches."""
    home.write({LIMIT: 3})
    for number in range(200):
        (home.folder / f"d{number}").mkdir()
    home.start()
    assert set(home.watcher.describe().folders) == {str(home.folder), str(home.path)}


@pytest.mark.parametrize("part", ["observer", "emitter"])
def test_a_dead_observer_is_replaced_when_somebody_looks(home: Watched, part: str) -> None:
    home.write({LIMIT: 3})
    home.start()
    observer = home.watcher._observer
    assert observer is not None
    dead = observer if part == "observer" else next(iter(observer.emitters))
    dead.stop()
    dead.join(10)
    eventually(lambda: home.watcher.describe().backend != "stat-per-request", "it watches again")
    assert home.watcher._observer is not observer
    home.write({LIMIT: 4})
    home.noticed()


def test_a_file_behind_links_is_watched_where_it_lies(tmp_path: Path) -> None:
    """A dotfile manager keeps the file elsewhere, an admin the whole folder."""
    real = tmp_path / "disk" / "data"
    dotfiles = tmp_path / "dotfiles"
    real.mkdir(parents=True)
    dotfiles.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".claude-mem").symlink_to(real)
    (real / "settings.json").symlink_to(dotfiles / "claude-mem.json")
    (dotfiles / "claude-mem.json").write_text(json.dumps({LIMIT: 3}))
    home = Watched(tmp_path / "home")
    home.start()
    try:
        (dotfiles / "claude-mem.json").write_text(json.dumps({LIMIT: 4}))
        home.noticed()
        eventually(lambda: home.limit() == 4, "the edit behind the links")
        (real / "settings.json").unlink()
        (real / "settings.json").write_text(json.dumps({LIMIT: 5}))
        eventually(lambda: home.limit() == 5, "the link replaced by a file")
        home.noticed()
    finally:
        home.watcher.stop()


def test_the_watch_follows_the_data_dir(home: Watched) -> None:
    other = home.path / "other"
    other.mkdir()
    home.write({LIMIT: 3})
    home.start()
    home.write({DATA_DIR: str(other)})
    eventually(lambda: str(other) in home.watcher.describe().folders, "the new folder is watched")
    home.noticed()
    (other / "settings.json").write_text(json.dumps({LIMIT: 8}))
    home.noticed()
    home.write({})
    eventually(lambda: str(other) not in home.watcher.describe().folders, "and no longer")


def test_it_stops_amid_a_storm_of_events(home: Watched) -> None:
    """watchdog calls with its lock held; a lock of ours in the other order would hang here."""
    home.write({LIMIT: 0})
    for round_ in range(5):
        home.watcher.start()
        stop = threading.Event()

        def writing(stop: threading.Event = stop, offset: int = round_ * 1000) -> None:
            number = offset
            while not stop.is_set():
                number += 1
                home.write({LIMIT: number})

        writer = threading.Thread(target=writing)
        writer.start()
        home.noticed()
        home.watcher.describe()
        home.watcher.stop()
        stop.set()
        writer.join()
    assert home.watcher.describe().backend == "stat-per-request"
    home.watcher.stop()
