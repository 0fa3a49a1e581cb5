"""Stores: where they are, whether they may be read, what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from claudemem_daemon.dependencies import FileDependency
from claudemem_daemon.warning import AnswerWarning

STORE_REASONS: Final = (
    "missing",
    "busy",
    "corrupt",
    "foreign",  # a SQLite file that is no claude-mem store, or no SQLite file at all
    "untrusted",  # named by a checkout and not allowed yet
    "owner",  # belongs to another user
    "wal_pending",  # a WAL that cannot be read without write access to the folder
    "io",
    "slow",  # the deadline passed
    "unreadable",
)


@dataclass(frozen=True, slots=True)
class StoreRef:
    """One store file to read; `rule` says in one line how it was located. Ids are unique in one
    store only: those of every store but the first carry its `letter`."""

    path: str
    rule: str
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """The stores of one question, each file once, and those that are left out with the reason."""

    stores: tuple[StoreRef, ...]
    refused: tuple[StoreReport, ...]
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[FileDependency, ...]


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What an answer says of one store. `reason` is one of STORE_REASONS when not ok."""

    path: str
    ok: bool
    error: str | None
    schema_version: int | None
    rule: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns that are there, read from the file and not from a version number."""

    version: int | None
    observations: frozenset[str]
    summaries: frozenset[str]
    sessions: frozenset[str]
    session_column: str
    """`memory_session_id`, or `sdk_session_id` in old stores."""
    indexes: Mapping[tuple[str, str], str]
    """(table, column) -> name, quoted for SQL, of the narrowest index that starts with it; of the
    observations and session_summaries tables."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """Whether a store is still what it was: the file's identity and SQLite's data_version."""

    path: str
    identity: tuple[int, int] | None
    data_version: int
