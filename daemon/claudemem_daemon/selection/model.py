"""The rows of one answer and the account of how they were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from claudemem_daemon.dependencies import FileIdentity
from claudemem_daemon.question import Scope
from claudemem_daemon.repository.model import Role
from claudemem_daemon.settings.model import Source
from claudemem_daemon.stores.model import StoreReport, StoreVersion
from claudemem_daemon.stores.rows import iso_ms
from claudemem_daemon.warning import AnswerWarning


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Observation:
    """One row, as the contract shows it. Lists hold text only; a bare string counts as one item.

    `created_at_epoch` is in milliseconds, None where the row has no usable time; such rows come
    last. `key` is the project key that admitted the row (differs from `project` when it was merged
    into another or found by a prefix).
    """

    id: int
    project: str
    store: str
    type: str
    title: str
    subtitle: str
    narrative: str
    facts: tuple[str, ...]
    concepts: tuple[str, ...]
    files_read: tuple[str, ...]
    files_modified: tuple[str, ...]
    created_at: str
    created_at_epoch: int | None
    discovery_tokens: int
    memory_session_id: str
    platform_source: str | None
    key: str
    letter: str = ""
    name: str = ""

    @property
    def shown_at(self) -> int | None:
        """The time that its line tells, in milliseconds: `created_at` where the epoch is unusable."""
        return (
            self.created_at_epoch if self.created_at_epoch is not None else iso_ms(self.created_at)
        )

    @property
    def ref(self) -> str:
        """The id by which a person or a model asks for this row again: `12`; `b7` where it is of
        another store than the first; `c:1290252e` of a database, whose ids are text."""
        return row_ref(self.letter, self.id, self.name)


@dataclass(frozen=True, slots=True)
class Summary:
    """One session summary; texts may be empty."""

    id: int
    project: str
    store: str
    request: str
    investigated: str
    learned: str
    completed: str
    next_steps: str
    notes: str
    created_at: str
    created_at_epoch: int | None
    memory_session_id: str
    platform_source: str | None
    letter: str = ""
    name: str = ""

    @property
    def shown_at(self) -> int | None:
        """As `Observation.shown_at`."""
        return (
            self.created_at_epoch if self.created_at_epoch is not None else iso_ms(self.created_at)
        )

    @property
    def ref(self) -> str:
        """As `Observation.ref`: `S3`, `Sb3`, or `Sc:f845c02e`."""
        return "S" + row_ref(self.letter, self.id, self.name)


def row_ref(letter: str, number: int, name: str) -> str:
    """A text id is printed by its beginning, and without what an id does not have: text of a
    stranger stands in it."""
    if not name:
        return f"{letter}{number}"
    return f"{letter}:" + "".join(one for one in name[:8] if one.isascii() and one.isalnum())


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """One key that was asked for: whose it is, where it was looked for, how many rows of this
    answer carry it. A prefix key appears as the concrete keys found under it (role "removed"),
    or not at all when it found none."""

    key: str
    path: str | None
    role: Role
    stores: tuple[str, ...]
    observations: int
    rule: str


@dataclass(frozen=True, slots=True)
class Filters:
    """What was filtered by, and where each value came from (contract key -> source)."""

    types: tuple[str, ...]
    concepts: tuple[str, ...]
    limit: int
    scope: Scope
    platform_source: str | None
    sources: Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class Selection:
    """The one limited list, newest first, and what a reader must know about it.

    rows_exist: at least one row carries one of the keys, whatever the filters say (tells "no
    memory" from "all filtered out"). complete: no deadline cut a query short. high_water: store
    path -> highest observation id at the time, for later news. evidence: what besides the stores
    the rows were chosen by.
    """

    observations: tuple[Observation, ...]
    summaries: tuple[Summary, ...]
    projects: tuple[ProjectReport, ...]
    stores: tuple[StoreReport, ...]
    filters: Filters
    rows_exist: bool
    duplicates: int
    complete: bool
    high_water: Mapping[str, int]
    warnings: tuple[AnswerWarning, ...]
    versions: tuple[StoreVersion, ...]
    dependencies: tuple[FileIdentity, ...] = ()
