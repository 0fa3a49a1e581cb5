"""The rows of one answer, and what to know about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.private import list_without_private, without_private
from claudemem_daemon.repository.model import Role
from claudemem_daemon.stores.model import StoreRef, StoreReport, StoreVersion
from claudemem_daemon.stores.rows import (
    OBSERVATION_CELLS,
    SUMMARY_CELLS,
    Cell,
    Row,
    concept_list,
    text,
    text_list,
    whole_number,
)
from claudemem_daemon.stores.sql import Table
from claudemem_daemon.warning import AnswerWarning

T = TypeVar("T")


class _Value(Generic[T]):
    """An attribute that is computed at each access."""

    def __init__(self, of: Callable[[Any], T]) -> None:
        self._of = of

    def __get__(self, row: object, _: type) -> T:
        return self._of(row)


def _cell(name: str, read: Callable[[Cell], T], cells: tuple[str, ...]) -> _Value[T]:
    at = cells.index(name)
    return _Value(lambda shown: read(shown.row.cells[at]))


def _text(name: str, cells: tuple[str, ...] = OBSERVATION_CELLS) -> _Value[str]:
    return _cell(name, lambda cell: without_private(text(cell)), cells)


def _texts(
    name: str, read: Callable[[Cell], tuple[str, ...]] = text_list
) -> _Value[tuple[str, ...]]:
    return _cell(name, lambda cell: list_without_private(read(cell)), OBSERVATION_CELLS)


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a store as the contract has it. Cells are decoded at access, because a context shows
    few of thousands of rows.

    created_at_epoch  in milliseconds; None where the row has no usable time; such rows come last
    """

    row: Row
    of: StoreRef

    id = _Value[int](attrgetter("row.id"))
    name = _Value[str](attrgetter("row.name"))
    project = _Value[str](attrgetter("row.project"))
    store = _Value[str](attrgetter("of.path"))
    created_at_epoch = _Value["int | None"](attrgetter("row.epoch"))
    memory_session_id = _Value[str](attrgetter("row.session"))
    platform_source = _Value["str | None"](attrgetter("row.platform"))
    created_at = _Value[str](attrgetter("row.created_at"))
    shown_at = _Value["int | None"](attrgetter("row.shown_at"))
    prefix = ""
    """Of its ref."""

    @property
    def ref(self) -> str:
        """The id by which a person or a model asks for this row again: `12`; `b7` in a store that is
        not the first; `c:1290252e` in a database, where ids are text; `S3` for a session."""
        return self.prefix + row_ref(self.of.letter, self.row.id, self.row.name)


@dataclass(frozen=True, slots=True)
class Observation(ShownRow):
    """Lists hold text only; a bare string counts as one item."""

    type = _cell("type", text, OBSERVATION_CELLS)
    title = _text("title")
    subtitle = _text("subtitle")
    facts = _texts("facts")
    concepts = _texts("concepts", concept_list)
    files_read = _texts("files_read")
    files_modified = _texts("files_modified")
    discovery_tokens = _cell("discovery_tokens", whole_number, OBSERVATION_CELLS)

    @property
    def narrative(self) -> str:
        """Releases before narratives wrote `text` instead."""
        narrative, older = self.row.cells[3:5]
        return without_private(text(narrative) or text(older))


@dataclass(frozen=True, slots=True)
class Summary(ShownRow):
    """One session summary; texts may be empty."""

    request = _text("request", SUMMARY_CELLS)
    investigated = _text("investigated", SUMMARY_CELLS)
    learned = _text("learned", SUMMARY_CELLS)
    completed = _text("completed", SUMMARY_CELLS)
    next_steps = _text("next_steps", SUMMARY_CELLS)
    notes = _text("notes", SUMMARY_CELLS)
    prefix = "S"


MODELS: Final[Mapping[Table, type[Observation] | type[Summary]]] = {
    "observations": Observation,
    "session_summaries": Summary,
}
"""What a row of each table is shown as."""


def row_ref(letter: str, number: int, name: str) -> str:
    """Of a text id only the first characters, and of these only letters and digits: a stranger
    may have written it."""
    if not name:
        return f"{letter}{number}"
    return f"{letter}:" + "".join(sign for sign in name[:8] if sign.isascii() and sign.isalnum())


class ProjectReport(NamedTuple):
    """One key of the question: its checkout, the stores that have it, the number of its rows in this
    answer. For a prefix key there is a report for each name that it matched (role "removed")."""

    key: str
    path: str | None
    role: Role
    stores: tuple[str, ...]
    observations: int
    rule: str


class Selection(NamedTuple):
    """The one limited list, newest first, and what to know about it.

    rows_exist    whether any row has one of the keys, whatever the filters say: tells "no memory"
                  from "all filtered out"
    complete      whether all stores could be read, and to the end
    high_water    store path -> highest observation id, from which later news are counted
    dependencies  what the choice of rows depends on besides the states of the stores
    """

    observations: tuple[Observation, ...]
    summaries: tuple[Summary, ...]
    projects: tuple[ProjectReport, ...]
    stores: tuple[StoreReport, ...]
    rows_exist: bool
    complete: bool
    high_water: Mapping[str, int]
    warnings: tuple[AnswerWarning, ...]
    versions: tuple[StoreVersion, ...]
    dependencies: tuple[Dependency, ...] = ()
