"""Which state a SQLite store is in, as a number that is another one after every change.

SQLite's data_version counts commits. It says nothing of a file that was overwritten in place (cp,
rsync --inplace, a bind mount, another name of a hard link), so the states of the file and its
WAL count as well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import apsw

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import State, state_now
from claudemem_daemon.stores.connection import ChangeCounter, ends_after
from claudemem_daemon.stores.failures import wal_of

MAX_TRIES: Final = 3
RACY_NS: Final = 10_000_000
COARSE_RACY_NS: Final = 2_000_000_000
"""A file that changed so shortly before could change again within the same tick of
the clock: the kernel's ticks every 1 to 10 ms, times of whole milliseconds are by file systems that
know seconds alone."""
LET_GO_SECONDS: Final = 1.0


class _Seen(NamedTuple):
    main: State | None
    wal: State | None
    """None where there is no WAL, or an empty one."""
    commits: int | None
    """SQLite's count on the open counter; None where none is open."""


class SqliteStates:
    """Safe from several threads. `opening` grows whenever connections opened before must go: the
    file was replaced or overwritten, and what SQLite remembers of it is worthless."""

    def __init__(self, path: str, numbers: Iterator[int]) -> None:
        self.opening = 0
        self.last_used = time.monotonic()
        self._path = path
        self._numbers = numbers
        self._lock = threading.Lock()
        """Taken while the counter is asked, which can take long where the store is locked."""
        self._counter: ChangeCounter | None = None
        self._seen: _Seen | None = None
        self._number = 0
        self._settled = False
        """Whether any change since the counter was closed shows in the files' states."""

    @property
    def main(self) -> State | None:
        """The file as it was seen last."""
        return self._seen.main if self._seen is not None else None

    @property
    def wal_is_empty(self) -> bool:
        return self._seen is not None and self._seen.wal is None

    @property
    def is_open(self) -> bool:
        return self._counter is not None

    def number(self, deadline: Deadline) -> tuple[int, bool]:
        """The state now, 0 where it cannot be told, and whether it is racy: a change within the
        same tick of the file system's clock would go unseen. Raises `apsw.BusyError`."""
        self.last_used = time.monotonic()
        if not self._lock.acquire(timeout=deadline.remaining()):
            raise apsw.BusyError("another request waits for this store")
        try:
            for _ in range(MAX_TRIES):
                if self._settled and self._counter is None:
                    number, racy = self._compare(0)
                    if self._settled:
                        return number, racy
                busy_ms = max(1, int(deadline.remaining() * 1000))
                identity = self._open(busy_ms) if self._counter is None else None
                number, racy = self._compare(busy_ms)
                if identity is not None and identity != _identity(self.main):
                    self._close()  # Another file took its place: the counter may be of either.
                if self._counter is not None:
                    return number, racy
            return 0, True
        except apsw.BusyError:
            raise
        except apsw.Error:
            self._close()
            return 0, True
        finally:
            self._lock.release()

    def still(self, number: int) -> bool:
        """Whether the store is in the state of that number. Waits for nothing, opens nothing and keeps
        nothing open; any doubt is a no."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._compare(0)[0] == number
        except apsw.Error:
            return False
        finally:
            self._lock.release()

    def let_go(self) -> None:
        """Close the counter. Where no commit can be on its way that would show in no file's state
        (its frames are in the WAL before its index tells of them), the number stays good until one
        changes."""
        if not self._lock.acquire(timeout=LET_GO_SECONDS):
            return  # It hangs in a file system that does not answer.
        try:
            settled = False
            if self._counter is not None:
                with suppress(apsw.Error):
                    settled = self._settles(self._counter)
                self._close()
                self._settled = settled
        finally:
            self._lock.release()

    def _settles(self, counter: ChangeCounter) -> bool:
        """Whether any change from now on will show in the files' states: neither of them changed in
        this tick of the clock, and the WAL ends with the last commit that its index tells of."""
        before, racy = self._compare(0)
        seen = self._seen
        if racy or seen is None or self._counter is not counter:
            return False
        if seen.wal is None:
            return True
        frames = counter.frames()
        return (
            not _racy(seen.wal)
            and ends_after(wal_of(self._path), frames)
            and self._compare(0)[0] == before
            and self._seen == seen
        )

    def _compare(self, busy_ms: int) -> tuple[int, bool]:
        """Ask the counter, then the files: what is committed in between shows in one of them. The
        caller has the lock."""
        commits = self._counter.commits(busy_ms) if self._counter is not None else None
        main, is_link = state_now(self._path)
        wal = wal_of(self._path) if is_link else f"{self._path}-wal"
        seen, before = _Seen(main, _wal_state(wal), commits), self._seen
        racy = _racy(main)
        if seen == before and (commits is not None or self._settled):
            return self._number, racy
        self._seen = seen
        self._number = next(self._numbers)
        self._settled = False
        if before is not None and (
            (commits is not None and commits == before.commits)
            or _identity(seen.main) != _identity(before.main)
        ):
            self.opening += 1
            self._close()
        return self._number, racy

    def _open(self, busy_ms: int) -> tuple[int, int] | None:
        identity = _identity(state_now(self._path)[0])
        self._counter = ChangeCounter(self._path, busy_ms)
        return identity

    def _close(self) -> None:
        if self._counter is not None:
            with suppress(apsw.Error):
                self._counter.close()
            self._counter = None
        if self._seen is not None:
            # Each counter counts from the start: the next one's numbers say nothing of this one's.
            self._seen = self._seen._replace(commits=None)


def _racy(state: State | None) -> bool:
    if state is None:
        return True
    window = COARSE_RACY_NS if state[4] % 1_000_000 == 0 else RACY_NS
    return abs(time.time_ns() - max(state[4:])) < window


def _identity(state: State | None) -> tuple[int, int] | None:
    return state[:2] if state is not None else None


def _wal_state(path: str) -> State | None:
    """For root without ctime: SQLite, run by root, changes the owner of a WAL whenever it opens one."""
    wal, _ = state_now(path)
    if wal is None or not wal[3]:
        return None
    return wal if os.geteuid() else (wal[0], wal[1], wal[2], wal[3], wal[4], 0)
