"""Stores: where they are, whether they may be read, what is in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claudemem_daemon.dependencies import FileDependency
from claudemem_daemon.warning import AnswerWarning

STORE_REASONS: Final = (
    "missing",
    "busy",
    "corrupt",
    "foreign",  # a SQLite file that is no claude-mem store, or no SQLite file at all
    "untrusted",  # named by a checkout and not allowed yet
    "owner",  # belongs to another user
    "hot_journal",  # its writer died in a transaction
    "wal_pending",  # a WAL that cannot be read without write access to the folder
    "io",
    "slow",  # the deadline passed
    "away",  # the server of a database does not answer
    "refused",  # the server of a database does not let us read
    "unreadable",
)


@dataclass(frozen=True, slots=True)
class StoreRef:
    """One store file to read; `rule` says in one line how it was located. Ids are unique in one
    store only: those of every store but the first carry its `letter`."""

    path: str
    rule: str
    letter: str = ""
    url: str | None = field(default=None, repr=False)
    """Of a database; then `path` is the URL without secrets."""


class Located(NamedTuple):
    """The stores of one question, each file once, and those that are left out with the reason."""

    stores: tuple[StoreRef, ...]
    refused: tuple[StoreReport, ...]
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[FileDependency, ...]


class StoreReport(NamedTuple):
    """What an answer says of one store. `reason` is one of STORE_REASONS when not ok."""

    path: str
    ok: bool
    error: str | None
    schema_version: int | None
    rule: str
    reason: str | None = None


class Schema(NamedTuple):
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
    loose_ids: frozenset[str] = frozenset()
    """Tables whose ids are not SQLite's row ids, so that they can be text, NULL or not unique."""
    left_out: str = ""
    """What is there and cannot be read, and why, in one line for the user."""

    def columns(self, table: str) -> frozenset[str]:
        return self.observations if table == "observations" else self.summaries

    def index_on(self, table: str, column: str) -> str | None:
        return self.indexes.get((table, column))

    def by_index(self, table: str, column: str) -> str:
        """The table for SQL, read through its index on the column where there is one."""
        index = self.index_on(table, column)
        return table if index is None else f"{table} INDEXED BY {index}"


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """One state of one store, as a dependency. Equal versions are the same state.

    identity: what tells the store from another one at the same place; of a file device and inode.
    number: another one for each state that was seen, 0 where states cannot be told apart.
    racy: the store could have changed since without a trace, so that the version proves nothing.
    """

    path: str
    identity: tuple[int | str, ...]
    number: int
    racy: bool
    still: Callable[..., bool] = field(compare=False, repr=False)
    """Whether the store is in the state of that number. Waits for nothing; any doubt is a no."""

    @property
    def state_number(self) -> int:
        """By which what is read can be remembered; 0 where it may be of another state."""
        return 0 if self.racy else self.number

    def holds(self) -> bool:
        """Whether the store is in this state now. Costs a few microseconds."""
        return self.state_number > 0 and self.still(self.number)
