"""Reading stores without a question around them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import file_state
from claudemem_daemon.stores.model import StoreRef, StoreVersion
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.sql import Wanted

APP = Wanted(projects=("app",))


@contextmanager
def open_pool() -> Iterator[StorePool]:
    pool = StorePool(idle_seconds=60)
    try:
        yield pool
    finally:
        pool.close()


def rows(pool: StorePool, path: str, within: float = 10.0, wanted: Wanted = APP) -> list[int]:
    """Ids of the rows of project `app`, newest first. Raises `StoreError`."""
    with pool.reading(StoreRef(path, "told"), Deadline.after(within)) as reader:
        return [one.id for page in reader.candidates("observations", wanted, 50) for one in page]


def state(pool: StorePool, path: str) -> StoreVersion:
    """The version of the store as it is now, read when it was no longer racy."""
    settle(path)
    with pool.reading(StoreRef(path, "told"), Deadline.after(10)) as reader:
        return reader.version


def settle(path: str) -> None:
    """Wait until a further change of the file is sure to show in its times."""
    while file_state(path).racy:
        time.sleep(0.005)  # it is the clock that has to go on
