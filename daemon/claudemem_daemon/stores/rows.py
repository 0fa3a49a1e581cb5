"""What the cells of a row mean, whatever type a stranger put into them. Pure; never raises.

SQLite columns hold any type whatever they declare, and claude-mem's releases wrote lists as JSON,
as plain text, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

Cell: TypeAlias = str | bytes | int | float | None
"""What SQLite can hand out."""

OBSERVATION_CELLS: Final = (
    "type", "title", "subtitle", "narrative", "text", "facts", "concepts", "files_read",
    "files_modified", "created_at", "discovery_tokens",
)  # fmt: skip
SUMMARY_CELLS: Final = (
    "request", "investigated", "learned", "completed", "next_steps", "notes", "created_at",
    "files_read", "files_edited",
)  # fmt: skip
CELLS: Final = {"observations": OBSERVATION_CELLS, "session_summaries": SUMMARY_CELLS}
"""The cells of a row, by table."""

MAX_PATHS: Final = 500
"""Of one list of files; whose row it is shows long before."""

_TOO_BIG: Final = 2**63
_TINY: Final = 10**8
_SECONDS: Final = 10**11
_MILLISECONDS: Final = 10**14
_MICROSECONDS: Final = 10**17
_TWO_DAYS_MS: Final = 2 * 86_400_000


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Row:
    """One chosen row as it lies in its store: `cells` in the order of OBSERVATION_CELLS or
    SUMMARY_CELLS, undecoded; `epoch` in milliseconds or None."""

    id: int
    project: str
    merged: str | None
    epoch: int | None
    session: str
    platform: str | None
    origin: tuple[str, str] | None
    """(origin_device_id, origin_local_id) of a row that came from another device."""
    cells: tuple[Cell, ...]
    name: str = ""
    """The id as its store has it, where that is text; `id` is then a number that stands for it."""
    large: tuple[tuple[str, int], ...] = ()
    """(column, bytes) of the cells that are left out; a text then says so."""
    size: int = field(init=False, compare=False)
    """Characters of all cells together."""
    paths: tuple[str, ...] = field(init=False, compare=False)
    """The absolute ones that its lists of files name."""

    def __post_init__(self) -> None:
        size = sum([len(cell) for cell in self.cells if type(cell) is str or type(cell) is bytes])
        object.__setattr__(self, "size", size)
        paths = tuple([path for cell in self.cells[7:9] for path in absolute_paths(cell)])
        object.__setattr__(self, "paths", paths)

    @property
    def of_session(self) -> bool:
        return len(self.cells) == len(SUMMARY_CELLS)

    @property
    def created_at(self) -> str:
        return text(self.cells[6 if self.of_session else 9])

    @property
    def shown_at(self) -> int | None:
        """The time that people see, in milliseconds: `created_at` where the epoch is unusable."""
        return self.epoch if self.epoch is not None else iso_ms(self.created_at)


def text(value: Cell) -> str:
    """A cell as text: numbers in digits, bytes as far as they are UTF-8, NULL as nothing.

    Lone surrogates and NUL cannot go through a socket or a terminal whole: U+FFFD stands for them.
    """
    if type(value) is str and value.isascii() and "\0" not in value:
        return value  # nearly always
    if value is None:
        return ""
    if isinstance(value, str):
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\0", "\ufffd")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").replace("\0", "\ufffd")
    return str(value)


def text_list(value: Cell, most: int | None = None) -> tuple[str, ...]:
    """A cell as a list of texts: a JSON array, its members as text; anything else that holds text
    is one item, be it a bare string or a JSON string. Blank items are no items. Of a list only
    the first `most` members are looked at."""
    if value is None or value == "[]":  # nearly always one of a row's lists at least
        return ()
    plain = text(value)
    if not plain.strip():
        return ()
    try:
        parsed: Any = json.loads(plain)
    except (ValueError, RecursionError):
        return (plain,)
    members: Iterable[str]
    if isinstance(parsed, list):
        members = [_member(member) for member in parsed[:most]]
    elif isinstance(parsed, str):
        members = (text(parsed),)
    elif parsed is None or isinstance(parsed, dict):
        members = () if not parsed else (plain,)
    else:
        members = (plain,)
    return tuple([member for member in members if member.strip()])


def _member(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return text(value)
    try:
        return text(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return ""


def absolute_paths(value: Cell) -> list[str]:
    """Those in a list of files."""
    if not may_be_absolute(value):
        return []
    return [path for path in text_list(value, MAX_PATHS) if path.startswith("/")]


def may_be_absolute(value: Cell) -> bool:
    """Whether a list of files can hold an absolute path; told without parsing it, and wrong only in
    saying yes."""
    if not isinstance(value, str):
        return value is not None
    # A JSON text that starts with an escape may start with that of a slash.
    return value.startswith("/") or '"/' in value or '"\\' in value


def concept_list(value: Cell) -> tuple[str, ...]:
    """The concepts of a row, as the query sees them: text members of a JSON array, text values of a
    JSON object, or one JSON string. What is no valid JSON has none."""
    if not isinstance(value, str):
        return ()
    try:
        parsed: Any = _CONCEPTS.decode(value)
    except (ValueError, RecursionError):
        return ()
    members = [parsed] if isinstance(parsed, str) else parsed
    if not isinstance(members, list):
        return ()
    return tuple(text(member) for member in members if isinstance(member, str))


def _values(pairs: list[tuple[str, Any]]) -> list[Any]:
    """Of a JSON object, those of equal names too, as `json_each` has them."""
    return [value for _, value in pairs]


_CONCEPTS: Final = json.JSONDecoder(object_pairs_hook=_values)


def whole_number(value: Cell) -> int:
    """A cell as a count; what is no number that SQLite holds exactly counts nothing."""
    number = _number(value)
    return int(number) if number is not None and abs(number) < _TOO_BIG else 0


def row_id(value: Cell) -> int | None:
    """A cell as a row's id; None where it is no whole number."""
    if type(value) is int:
        return value
    number = _number(value)
    if number is None or abs(number) >= _TOO_BIG or number != int(number):
        return None
    return int(number)


def epoch_ms(value: Cell, created_at: Cell = None) -> int | None:
    """A time in milliseconds since 1970, or None where the cell has no usable time.

    claude-mem writes milliseconds; seconds and microseconds by other hands are told by their
    magnitude, which fits every year from 1973 to 5138. Where `created_at` (ISO text) says the same
    as one reading of the number, it decides. Zero, negative numbers and text without a number are
    no time.
    """
    if type(value) is int and _SECONDS <= value < _MILLISECONDS:
        return value  # nearly always
    number = _number(value)
    if number is None or not 1 <= number < _MILLISECONDS * 10**6:
        return None
    written = iso_ms(created_at)
    as_written = written is not None and abs(number - written) < _TWO_DAYS_MS
    if as_written or number < _TINY or _SECONDS <= number < _MILLISECONDS:
        return int(number)
    if number < _SECONDS:
        return int(number * 1000)
    return int(number) // (1000 if number < _MICROSECONDS else 1_000_000)


def iso_ms(value: Cell) -> int | None:
    """ISO 8601 text as milliseconds, or None; without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _number(value: Cell) -> float | int | None:
    if isinstance(value, str):
        if len(value) > 32:
            return None
        for kind in (int, float):
            with suppress(ValueError):
                value = kind(value)
                break
    if not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not abs(value) < 1e300:  # infinities and NaN too
        return None
    return value


def content_key(row: Row) -> tuple[object, ...] | None:
    """What makes two rows of the same time copies of each other; None for a row without content,
    which is nobody's copy. A row without a usable time is told by its `created_at`."""
    kind, content = (None, row.cells[:6]) if row.of_session else (row.cells[0], row.cells[1:6])
    if not any(content) and not row.large:
        return None
    when: Cell = row.epoch if row.epoch is not None else row.created_at
    return (when, kind, *content, *row.large)
