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

from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.watcher import SettingsWatcher, _Handler
from tests.settings.support import DATA_DIR, LIMIT, Home, freeze_stats
from tests.support.daemon import eventually


class Telling(SettingsWatcher):
    """Calls `on_change` after each change that it counts."""

    def __init__(
        self, configuration: Configuration, on_change: Callable[[], None], **how: Any
    ) -> None:
        super().__init__(configuration, **how)
        self._on_change = on_change

    def notice(self, paths: tuple[str, ...]) -> None:
        before = self._reloads
        super().notice(paths)
        if self._reloads != before:
            self._on_change()


class Watched(Home):
    """A home that is watched; `changed` is set by each noticed change."""

    def __init__(self, path: Path, observer: Callable[[], BaseObserver] = Observer) -> None:
        super().__init__(path)
        self.changed = threading.Event()
        self.changes = 0
        self.watcher = Telling(self.configuration, self.on_change, observer=observer)
        self.events = 0

    def on_change(self) -> None:
        self.changes += 1
        self.changed.set()

    def noticed(self) -> None:
        assert self.changed.wait(10), "no change was noticed"
        self.changed.clear()

    def limit(self) -> int:
        return self.ask().limit

    def feed(self, *events: FileSystemEvent) -> None:
        handler = _Handler(self.watcher.notice)
        for event in events:
            handler.on_any_event(event)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.watcher.stop()


def test_an_edit_is_noticed_before_anyone_asks(home: Watched) -> None:
    home.write({LIMIT: 3})
    assert home.limit() == 3
    home.watcher.start()
    assert home.watcher.describe().backend != "stat-per-request"
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    eventually(lambda: home.configuration.state().revision >= 2, "the rewrite is noticed")
    home.write({LIMIT: 5})
    eventually(lambda: home.limit() == 5, "the replacement is noticed")
    home.file.unlink()
    home.changed.clear()
    eventually(lambda: home.limit() == 50, "the removal is noticed")


def test_what_a_stat_cannot_see_the_watcher_sees(
    home: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case hot-reload-not-applied: equal size and equal times, on a file system that hides it."""
    home.write({LIMIT: 3})
    freeze_stats(monkeypatch)
    assert home.limit() == 3
    home.watcher.start()
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    home.noticed()
    eventually(lambda: home.limit() == 4, "the new content is in force")


def test_a_folder_that_comes_later_is_watched(home: Watched) -> None:
    """Case watched-dir-missing-at-start."""
    home.watcher.start()
    assert home.limit() == 50
    assert home.everything() == set(), "starting creates nothing"
    assert home.watcher.describe().folders == (str(home.path),)
    home.write({LIMIT: 2})
    home.noticed()
    assert home.limit() == 2
    home.changed.clear()
    home.write({LIMIT: 3})
    home.noticed()


def test_a_folder_far_from_existing_is_waited_for(tmp_path: Path) -> None:
    """Case watched-dir-missing-at-start, with several folders missing."""
    home = Watched(tmp_path)
    place = tmp_path / "a" / "b" / "data"
    home.configuration = type(home.configuration)({"HOME": str(tmp_path), DATA_DIR: str(place)})
    home.watcher = Telling(home.configuration, home.on_change)
    home.watcher.start()
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
    home.limit()
    home.watcher.start()
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
    home.changed.clear()
    home.write({LIMIT: 10})
    home.noticed()
    assert home.limit() == 10


def test_reading_makes_no_events_at_all(home: Watched) -> None:
    """Case watch-read-events-loop: the kernel is not even asked for them."""
    home.write({LIMIT: 3})
    home.limit()
    seen: list[FileSystemEvent] = []

    class Listening(_Handler):
        def dispatch(self, event: FileSystemEvent) -> None:
            seen.append(event)
            super().dispatch(event)

    home.watcher._handler = Listening(home.watcher.notice)
    home.watcher.start()
    for _ in range(50):
        home.file.read_bytes()
        os.listdir(home.folder)
        home.configuration.reload()
    # An event of our own making comes after all that the reading may have made.
    home.rewrite(json.dumps({LIMIT: 4}).encode())
    home.noticed()
    assert seen
    assert not [event for event in seen if event.event_type in ("opened", "closed_no_write")]
    assert home.watcher.describe().reloads == home.changes <= 2


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
    assert home.changes == 0


def test_events_of_other_files_are_not_even_looked_at(
    home: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write({LIMIT: 3})
    home.limit()

    def unexpected() -> Any:
        raise AssertionError("a store's writes are no concern of the settings")

    monkeypatch.setattr(home.configuration, "reload", unexpected)
    monkeypatch.setattr(home.configuration, "state", unexpected)
    home.feed(
        FileModifiedEvent(str(home.folder / "claude-mem.db-wal")),
        FileCreatedEvent(str(home.folder / "settings.json.tmp")),
        FileMovedEvent(str(home.folder / "a"), str(home.folder / "b")),
        FileModifiedEvent(str(home.path / ".bash_history")),
    )


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
    assert home.changes == 1
    assert home.watcher.describe().reloads == 1
    assert home.limit() == 4
    home.feed(FileModifiedEvent(path))
    assert home.changes == 1, "an event two seconds late says nothing new"


def test_an_event_of_the_folder_alone_is_enough(home: Watched) -> None:
    """Case fsevents-duplicates: events merged into one of the folder."""
    home.write({LIMIT: 3})
    home.limit()
    home.write({LIMIT: 4})
    home.feed(DirModifiedEvent(str(home.folder)))
    assert home.changes == 1


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
    assert home.changes == 1


class Silent(EventEmitter):
    """A file system that says nothing."""

    def queue_events(self, timeout: float) -> None:
        self.stopped_event.wait()


def test_without_events_every_request_looks(tmp_path: Path) -> None:
    """Case no-inotify-events-need-polling."""
    home = Watched(tmp_path, lambda: BaseObserver(Silent))
    home.write({LIMIT: 3})
    home.watcher.start()
    try:
        assert home.limit() == 3
        home.rewrite(json.dumps({LIMIT: 4}).encode())
        assert home.limit() == 4
        home.write({LIMIT: 5})
        assert home.limit() == 5
        assert home.changes == 0
    finally:
        home.watcher.stop()


def test_one_event_is_enough_to_follow_the_data_dir(tmp_path: Path) -> None:
    """Where a save is one event, the folder that it names is watched after it."""
    home = Watched(tmp_path, lambda: BaseObserver(Silent))
    other = tmp_path / "other"
    other.mkdir()
    home.write({LIMIT: 3})
    home.watcher.start()
    try:
        home.write({DATA_DIR: str(other)})
        home.feed(FileModifiedEvent(str(home.file)))
        assert str(other) in {folder for folder, _ in home.watcher._watches}
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
    state = home.watcher.describe()
    assert (state.backend, state.folders) == ("stat-per-request", ())
    assert state.problem is not None
    assert os.strerror(code) in state.problem
    assert "\n" not in state.problem
    home.write({LIMIT: 4})
    assert home.limit() == 4
    home.watcher.stop()


def test_a_refused_watch_is_asked_for_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case inotify-limits: the desktop is not busy for ever."""
    observers: list[Callable[[], BaseObserver]] = [refused]
    home = Watched(tmp_path, lambda: observers[-1]())
    home.watcher.start()
    observers.append(Observer)
    assert home.watcher.describe().backend == "stat-per-request"
    monkeypatch.setattr("claudemem_daemon.settings.watcher.TRY_AGAIN", 0.0)
    state = home.watcher.describe()
    assert state.backend != "stat-per-request"
    assert state.problem is None
    home.watcher.stop()


def test_only_the_folder_itself_is_watched(home: Watched) -> None:
    """Case inotify-limits: a data dir with many folders in it costs two watches."""
    home.write({LIMIT: 3})
    for number in range(200):
        (home.folder / f"d{number}").mkdir()
    home.watcher.start()
    assert set(home.watcher.describe().folders) == {str(home.folder), str(home.path)}


@pytest.mark.parametrize("part", ["observer", "emitter"])
def test_a_dead_observer_is_replaced_when_somebody_looks(home: Watched, part: str) -> None:
    home.write({LIMIT: 3})
    home.limit()
    home.watcher.start()
    observer = home.watcher._observer
    assert observer is not None
    dead = observer if part == "observer" else next(iter(observer.emitters))
    dead.stop()
    dead.join(10)
    assert home.watcher.describe().backend != "stat-per-request"
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
    assert home.limit() == 3
    home.watcher.start()
    try:
        (dotfiles / "claude-mem.json").write_text(json.dumps({LIMIT: 4}))
        home.noticed()
        eventually(lambda: home.limit() == 4, "the edit behind the links")
        home.changed.clear()
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
    home.limit()
    home.watcher.start()
    home.write({DATA_DIR: str(other)})
    # Asked before the watcher tells of it, the new folder is watched when it does.
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


def test_a_change_may_stop_the_watcher(home: Watched) -> None:
    home.write({LIMIT: 3})
    home.limit()
    stopped = threading.Event()

    def stopping() -> None:
        home.watcher.stop()
        stopped.set()

    home.watcher = Telling(home.configuration, stopping)
    home.watcher.start()
    home.write({LIMIT: 4})
    assert stopped.wait(10)
