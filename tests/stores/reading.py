"""Reading stores without a question around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.stores.model import StoreRef, StoreState
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.reader import StoreReader
from claudemem_daemon.stores.sql import Wanted

APP = Wanted(projects=("app",))


@contextmanager
def open_pool() -> Iterator[StorePool]:
    pool = StorePool()
    try:
        yield pool
    finally:
        pool.close()


def rows(pool: StorePool, path: str, within: float = 10.0, wanted: Wanted = APP) -> list[int]:
    """Ids of the rows of project `app`, newest first. Raises `StoreError`."""
    with pool.reading(StoreRef(path, "told"), Deadline.after(within)) as reader:
        return [one.id for page in reader.candidates("observations", wanted, 50) for one in page]


def state(pool: StorePool, path: str) -> StoreState:
    """Read the store, and the state it had."""
    with pool.reading(StoreRef(path, "told"), Deadline.after(10)) as reader:
        return state_of(path, reader)


def state_of(path: str, reader: StoreReader) -> StoreState:
    return StoreState(path, reader.identity, reader.data_version or 0)
