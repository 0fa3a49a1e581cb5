"""Stores that are the PostgreSQL database of a claude-mem server."""

from __future__ import annotations

from collections.abc import Iterator

from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.interface import Store
from claudemem_daemon.stores.recent import RecentRows


def make_store(path: str, url: str, numbers: Iterator[int], recent: RecentRows) -> Store:
    """Raises `StoreError` where psycopg is not installed."""
    try:
        from claudemem_daemon.stores.postgres.database import DatabaseStore
    except ImportError:
        raise StoreError(
            f"{path}: PostgreSQL needs psycopg: pipx inject claudemem-daemon 'psycopg[binary]'",
            path=path,
            reason="missing",
        ) from None
    return DatabaseStore(path, url, numbers, recent)
