"""The stores of the benchmark: claude-mem 13.25.3's tables and indexes, filled at speed.

Full-text tables and their triggers are left out: they cost the writer, never the reader.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from tests.support.stores import BASE_EPOCH, iso, make_store, schema_sql

RECIPE: Final = 2
"""Grows when the rows below change, so that a kept store of an older recipe is built anew."""

GROVES: Final = (1, 3, 10, 100, 1000)
"""Repositories by their number of linked worktrees."""

PROJECTS: Final = 40
RARE: Final = "rare"
MIDDLING: Final = "middling"
HUGE: Final = "huge"
DORMANT: Final = "dormant"
"""A twentieth of all rows, and every row of another project is newer."""
IMPORTED: Final = "imported"
"""A fiftieth of all rows, copied in from elsewhere at the end: the highest ids, any time."""

_ROWS_A_SESSION: Final = 50
_STEP_MS: Final = 1000
_SEED: Final = 7
_CONCEPTS: Final = (
    "how-it-works", "why-it-exists", "what-changed", "problem-solution", "gotcha", "pattern",
    "trade-off",
)  # fmt: skip
_TYPES: Final = ("discovery",) * 8 + ("change",) * 5 + ("feature",) * 3 + ("bugfix",) * 3 + (
    "refactor", "decision",
)  # fmt: skip
_WORDS: Final = (
    "socket", "answer", "worktree", "reader", "index", "narrow", "branch", "commit", "project",
    "session", "planner", "threshold", "cache", "revision", "deadline", "probe", "handler",
    "summary", "parser", "window", "budget", "header", "returns", "keeps", "waits", "reads",
    "merges", "drops", "finds", "opens", "closes", "before", "after", "while", "because", "the",
    "without", "inside", "between", "a", "of", "to", "in", "and", "is", "was", "not", "every",
)  # fmt: skip

_OBSERVATION: Final = (
    "INSERT INTO observations (id, memory_session_id, project, type, title, subtitle, facts,"
    " narrative, concepts, files_read, files_modified, prompt_number, created_at,"
    " created_at_epoch, discovery_tokens, content_hash, merged_into_project)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SESSION: Final = (
    "INSERT INTO sdk_sessions (content_session_id, memory_session_id, project, started_at,"
    " started_at_epoch, status) VALUES (?, ?, ?, ?, ?, 'completed')"
)
_SUMMARY: Final = (
    "INSERT INTO session_summaries (memory_session_id, project, request, investigated, learned,"
    " completed, next_steps, created_at, created_at_epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Label:
    """Whose row: its project, and the project it was merged into."""

    project: str
    merged: str | None = None


def grove(worktrees: int) -> str:
    """The project key of the repository with so many worktrees."""
    return f"grove-{worktrees}"


def worktree_name(worktrees: int, number: int) -> str:
    return f"g{worktrees}w{number:04d}"


def worktrees_of(project: str) -> int:
    """The number of linked worktrees of the repository with this project key."""
    before, _, number = project.rpartition("grove-")
    return int(number) if not before and number.isdigit() else 0


def build_store(
    path: str, rows: int, groves: Sequence[int] = GROVES, *, short: bool = False
) -> str:
    """A store of `rows` observations over 40 projects, in WAL mode; returns its path."""
    labels = _labels(rows, groves, random.Random(_SEED))
    return _fill(path, _observations(labels, _Texts(random.Random(_SEED), short=short)))


def build_small_store(path: str, projects: Sequence[str], *, offset: int) -> str:
    """One of many stores: a row for each of `projects`, their times shifted by `offset` ms."""
    texts = _Texts(random.Random(offset), most=len(projects))
    return _fill(path, _observations([Label(name) for name in projects], texts, offset=offset))


def build_wide_store(path: str, project: str, rows: int, narrative_bytes: int) -> str:
    """A store whose rows have narratives of that size."""
    texts = _Texts(random.Random(1))
    narrative = (texts.narratives[0] + " ") * (narrative_bytes // len(texts.narratives[0]) + 1)
    return _fill(
        path,
        (
            (*row[:7], narrative[:narrative_bytes], *row[8:])
            for row in _observations([Label(project)] * rows, texts)
        ),
    )


def new_observation(row_id: int, project: str, title: str) -> tuple[str, list[Any]]:
    """The statement by which another process adds one row, newer than all others."""
    epoch = BASE_EPOCH + 400 * 86_400_000 + row_id * _STEP_MS
    values: list[Any] = [
        row_id, f"{project}-s0", project, "discovery", title, "written meanwhile", "[]",
        "A row of another process. " * 40, '["how-it-works"]', "[]", "[]", 1, iso(epoch), epoch,
        500, f"new-{row_id}", None,
    ]  # fmt: skip
    return _OBSERVATION, values


def _labels(rows: int, groves: Sequence[int], draw: random.Random) -> list[Label]:
    """Whose each row is, oldest first."""
    labels = [Label(HUGE)] * (rows * 7 // 10)
    labels += [Label(MIDDLING)] * min(5000, rows // 20)
    copies = 1 if rows < 100_000 else 2
    for worktrees in groves:
        parent = grove(worktrees)
        labels += [Label(parent)] * 20
        labels += [Label(f"{parent}/gone-{n % 3}", parent) for n in range(15)]
        for number in range(worktrees):
            name = worktree_name(worktrees, number)
            labels += [Label(f"{parent}/{name}"), Label(name)][:copies]
    rare, dormant = min(100, rows // 100), rows // 20
    imported = rows // 50
    others = PROJECTS - 5 - len(groves)
    left = rows - len(labels) - rare - dormant - imported
    ordinary = [Label(f"project-{n:02d}") for n in range(others)]
    labels += [ordinary[n % others] for n in range(left)]
    draw.shuffle(labels)
    for place in sorted(draw.sample(range(len(labels) // 2), rare)):
        labels.insert(place, Label(RARE))
    return [Label(DORMANT)] * dormant + labels + [Label(IMPORTED)] * imported


class _Texts:
    """Texts drawn once and used again: drawing a million would be the whole cost."""

    def __init__(self, draw: random.Random, *, short: bool = False, most: int = 509) -> None:
        def prose(low: int, high: int) -> str:
            size = draw.randint(low, high)
            return " ".join(draw.choices(_WORDS, k=size // 5 + 1))[:size]

        self.narratives = [
            prose(*((20, 40) if short else (500, 2000))) for _ in range(min(most, 509))
        ]
        self.titles = [prose(25, 70) for _ in range(min(most, 499))]
        self.subtitles = [prose(40, 120) for _ in range(min(most, 251))]
        self.facts = [
            json.dumps([prose(40, 110) for _ in range(0 if short else 3)]) for _ in range(241)
        ]
        self.files = [
            json.dumps([f"src/{draw.choice(_WORDS)}/{draw.choice(_WORDS)}.py" for _ in range(2)])
            for _ in range(239)
        ]
        # One row in ten has no concept that a mode knows, as foreign tools write them.
        self.concepts = [
            json.dumps(draw.sample(_CONCEPTS, draw.randint(1, 3)) if n % 10 else ["elsewhere"])
            for n in range(233)
        ]


def _observations(
    labels: list[Label], texts: _Texts, *, offset: int = 0
) -> Iterator[tuple[Any, ...]]:
    seen: Counter[str] = Counter()
    for n, label in enumerate(labels):
        project = label.project
        count = seen[project]
        seen[project] = count + 1
        # Ids and times rise together but for small steps back, as parallel sessions write them.
        place = n + n * 7919 % 11
        if project == IMPORTED:
            place = n * 7919 % len(labels)
        epoch = BASE_EPOCH + offset + place * _STEP_MS + n % _STEP_MS
        yield (
            n + 1,
            f"{project}-s{count // _ROWS_A_SESSION}",
            project,
            _TYPES[n % len(_TYPES)],
            f"{texts.titles[n % len(texts.titles)]} {n}",
            texts.subtitles[n % len(texts.subtitles)],
            texts.facts[n % 241],
            f"Row {n}. {texts.narratives[n % len(texts.narratives)]}",
            texts.concepts[n % 233],
            texts.files[n % 239],
            "[]",
            n % 30,
            iso(epoch),
            epoch,
            300 + n % 4000,
            f"{offset + n:016x}",
            label.merged,
        )


def _fill(path: str, observations: Iterator[tuple[Any, ...]]) -> str:
    """Rows in one transaction without a journal, indexes after, then WAL as claude-mem has it."""
    unfinished = f"{path}.unfinished"
    for name in (path, f"{path}-wal", f"{path}-shm", unfinished):
        if os.path.exists(name):
            os.unlink(name)
    make_store(unfinished, journal="off", indexes=False)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as db:
        for pragma in (
            "journal_mode = off", "synchronous = off", "cache_size = -400000", "temp_store = memory",
            "mmap_size = 17179869184", "foreign_keys = off", "locking_mode = exclusive",
        ):  # fmt: skip
            db.execute(f"PRAGMA {pragma}")
        db.execute("BEGIN")
        db.executemany(_OBSERVATION, observations)
        sessions = db.execute(
            "SELECT memory_session_id, project, max(created_at_epoch) FROM observations GROUP BY 1"
            " ORDER BY 3"
        ).fetchall()
        db.executemany(
            _SESSION, ((f"c-{name}", name, project, iso(at), at) for name, project, at in sessions)
        )
        db.executemany(
            _SUMMARY,
            (
                (name, project, f"Asked in {name}", "Looked at it", "Learned of it", "Did it",
                 "More of it", iso(at + 1), at + 1)
                for name, project, at in sessions
            ),
        )  # fmt: skip
        for statement in schema_sql()[len(schema_sql(indexes=False)) :]:
            db.execute(statement)
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = wal")
    os.replace(unfinished, path)
    return path
