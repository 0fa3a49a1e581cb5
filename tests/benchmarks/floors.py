"""What nobody could avoid paying SQLite: the best plan by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

_TYPES: Final = "('bugfix','feature','refactor','discovery','decision','change')"
_CONCEPTS: Final = (
    "how-it-works", "why-it-exists", "what-changed", "problem-solution", "gotcha", "pattern",
    "trade-off",
)  # fmt: skip

_FILTER: Final = (
    f"o.type IN {_TYPES} AND json_valid(o.concepts)"
    " AND EXISTS (SELECT 1 FROM json_each(o.concepts) c WHERE c.value IN"
    " (SELECT value FROM json_each(:concepts)))"
)
_BY_PROJECT: Final = (
    "SELECT id, created_at_epoch AS e FROM observations INDEXED BY idx_observations_project"
    " WHERE project IN (SELECT value FROM json_each(:names))"
    " UNION SELECT id, created_at_epoch FROM observations INDEXED BY idx_observations_project"
    " WHERE project >= :low AND project < :high"
    " UNION SELECT id, created_at_epoch FROM observations INDEXED BY idx_observations_merged_into"
    " WHERE merged_into_project IN (SELECT value FROM json_each(:names))"
)
_IDS: Final = _BY_PROJECT.replace(", created_at_epoch AS e", "").replace(", created_at_epoch", "")

PLANS: Final[Mapping[str, str]] = {
    # Few rows of the project: all of them through the project index, sorted by time, filtered
    # lazily. The LIMIT keeps SQLite from flattening the sort away into the outer query.
    "project index": f"SELECT o.id FROM ({_BY_PROJECT} ORDER BY e DESC LIMIT -1) m"
    f" CROSS JOIN observations o ON o.id = m.id WHERE {_FILTER} LIMIT :limit",
    # A share of the store: newest first, and most rows on the way are the project's.
    "time index": "SELECT o.id FROM observations o INDEXED BY idx_observations_created"
    " WHERE (o.project IN (SELECT value FROM json_each(:names))"
    " OR (o.project >= :low AND o.project < :high)"
    f" OR o.merged_into_project IN (SELECT value FROM json_each(:names))) AND {_FILTER}"
    " ORDER BY o.created_at_epoch DESC LIMIT :limit",
    # In between: the ids from the project index, the order from the time index, and no row read
    # that is neither.
    "both indexes": "SELECT o.id FROM observations o INDEXED BY idx_observations_created"
    f" WHERE +o.id IN ({_IDS}) AND {_FILTER}"
    " ORDER BY o.created_at_epoch DESC LIMIT :limit",
}

NARROW: Final = "id, project, type, title, subtitle, created_at, created_at_epoch, discovery_tokens"
_CHOSEN: Final = (
    "FROM observations WHERE id IN (SELECT value FROM json_each(?)) ORDER BY created_at_epoch DESC"
)
_PATIENCE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one repository's rows: exact ones, and what starts with `<name>/`."""

    name: str
    bare: tuple[str, ...] = ()


class BareSqlite:
    """One connection that stays open on the same file, and the rows of one question by hand.

    Statements are cached by apsw, rows chosen by id and read once: without the narratives, or
    whole with `columns="*"`.
    """

    def __init__(self, path: str) -> None:
        self._db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self._db.set_busy_timeout(5000)

    def ids(
        self,
        plan: str,
        keys: Keys,
        *,
        limit: int = 50,
        concepts: Sequence[str] = _CONCEPTS,
    ) -> list[int]:
        found = self._db.execute(PLANS[plan], _parameters(keys, limit, concepts))
        return [row[0] for row in found]

    def rows(
        self, plan: str, keys: Keys, *, limit: int = 50, columns: str = NARROW
    ) -> list[tuple[Any, ...]]:
        """The answer: chosen and read in one read transaction, closed again."""
        self._db.execute("BEGIN")
        try:
            chosen = self.ids(plan, keys, limit=limit)
            return list(self._db.execute(f"SELECT {columns} {_CHOSEN}", (json.dumps(chosen),)))
        finally:
            self._db.execute("COMMIT")

    def seconds(self, plan: str, keys: Keys, *, limit: int = 50, columns: str = NARROW) -> float:
        began = time.perf_counter()
        self.rows(plan, keys, limit=limit, columns=columns)
        return time.perf_counter() - began

    def best_plan(self, keys: Keys, *, limit: int = 50) -> str:
        """The fastest of PLANS for these keys, by trying; a hopeless one is cut off."""
        taken: dict[str, float] = {}
        for plan in PLANS:
            self._db.set_progress_handler(_until(time.monotonic() + _PATIENCE_SECONDS), 10_000)
            try:
                taken[plan] = min(self.seconds(plan, keys, limit=limit) for _ in range(3))
            except apsw.InterruptError:
                taken[plan] = _PATIENCE_SECONDS
            finally:
                self._db.set_progress_handler(None)
        return min(taken, key=lambda plan: taken[plan])

    def __enter__(self) -> BareSqlite:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()


def _until(end: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > end


def fresh_seconds(path: str, plan: str, keys: Keys) -> float:
    """Open, ask once, close: what a first answer costs SQLite."""
    began = time.perf_counter()
    with BareSqlite(path) as db:
        db.rows(plan, keys)
        return time.perf_counter() - began


def _parameters(keys: Keys, limit: int, concepts: Sequence[str]) -> dict[str, Any]:
    return {
        "names": json.dumps([keys.name, *keys.bare]),
        "low": f"{keys.name}/",
        "high": f"{keys.name}0",  # the character after "/"
        "limit": limit,
        "concepts": json.dumps(list(concepts)),
    }
