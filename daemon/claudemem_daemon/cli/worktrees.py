"""`worktrees`: where this repository's memory is."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import cwd_option, json_option, make_question, plain, waiting
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.projects import RowCounts, count_rows
from claudemem_daemon.repository.keys import as_key
from claudemem_daemon.repository.model import Repository, Worktree
from claudemem_daemon.repository.records import around
from claudemem_daemon.repository.worktrees import details
from claudemem_daemon.shapes import as_json, warning_shapes

NO_PATH: Final = {"removed": "(gone)", "unknown": "(unknown)"}
"""In place of a path, by state."""


@dataclass(frozen=True, slots=True)
class _Line:
    path: str | None
    branch: str | None
    state: str
    role: str
    keys: tuple[str, ...]


@click.command("worktrees")
@cwd_option
@json_option
def worktrees_command(cwd: str | None, as_shape: bool) -> None:
    """The main checkout and every worktree, removed ones included: keys, stores, rows, newest."""
    question = make_question(cwd=cwd)
    with open_pipeline(os.environ) as pipeline:
        resolved = pipeline.resolved(question)
        repository = pipeline.repositories.resolve(question.cwd)
        with waiting("counting rows"):
            counts = count_rows(resolved, pipeline.pool)
    shape: dict[str, Any] = {
        "resolved_by": repository.resolved_by,
        "worktrees": [_shape(line, counts) for line in _lines(repository, counts)],
        "left_out": dict(counts.left_out),
        "warnings": warning_shapes((*resolved.warnings, *counts.warnings)),
    }
    if as_shape:
        click.echo(as_json(shape))
        return
    screen.say(plain(repository.resolved_by, 400), "dim")
    head = ["PATH", "BRANCH", "STATE", "KEYS", "STORES", "ROWS", "NEWEST"]
    screen.table(head, [_cells(worktree) for worktree in shape["worktrees"]])
    for key, reason in counts.left_out.items():
        screen.say(f"  key {plain(key, 200)} {plain(reason, 300)}")
    for number, store in enumerate(counts.store_paths, 1):
        screen.say(f"store {number}: {screen.home(store)}", "dim")
    screen.warn(shape["warnings"])


def _cells(worktree: dict[str, Any]) -> list[str]:
    keys, path = worktree["keys"], worktree["path"]
    newest = [key["newest"] for key in keys if key["newest"] is not None]
    return [
        screen.home(path) if path else NO_PATH.get(worktree["state"], "-"),
        plain(worktree["branch"] or "-", 200),
        worktree["state"],
        ", ".join(plain(key["key"], 200) for key in keys) or "-",
        str(len({store for key in keys for store in key["stores"]})),
        f"{sum(key['rows'] for key in keys):,}",
        age(max(newest)) if newest else "-",
    ]


def _lines(repository: Repository, counts: RowCounts) -> list[_Line]:
    """The checkouts of the repository and of those around it, then the keys that have no place."""
    lines: list[_Line] = []
    outer: Repository | None = repository
    while outer is not None:
        here = details(outer)
        found = [
            _line(tree, "main" if tree.main else "worktree", counts) for tree in here.checkouts
        ]
        if here.main is None:
            found.insert(0, _without_checkout(here, counts))
        # Of a superproject nobody asked for, as in the scope `self`, nothing is read.
        lines += found if outer is repository else [line for line in found if line.keys]
        outer = here.superproject
    shown = {key for line in lines for key in line.keys}
    lines += [
        _Line(None, None, known.role, known.role, (key,))
        for key, known in counts.keys.items()
        if key not in shown
    ]
    return lines


def _without_checkout(repository: Repository, counts: RowCounts) -> _Line:
    """What has no main checkout, or none that is known."""
    names = [as_key(name) for name in (repository.name, *repository.fallback_names)]
    if repository.common_dir is None:
        state = repository.kind if os.path.isdir(repository.cwd) else "missing"
        return _Line(repository.cwd, None, state, "main", _known(names, counts))
    keys = tuple(key for key in _known(names, counts) if counts.keys[key].path is None)
    if repository.kind not in ("bare", "dot_bare"):
        return _Line(None, None, "unknown", "main", keys)
    return _Line(around(repository.common_dir, repository.kind), None, "bare", "main", keys)


def _known(names: list[str], counts: RowCounts) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name in counts.keys)


def _line(tree: Worktree, role: str, counts: RowCounts) -> _Line:
    branch = tree.branch or (f"({(tree.head or '')[:9]})" if tree.detached else None)
    state = tree.state if tree.locked is None else f"{tree.state}, locked"
    keys = tuple(key for key, known in counts.keys.items() if known.path == tree.path)
    return _Line(tree.path, branch, state, role, keys)


def _shape(line: _Line, counts: RowCounts) -> dict[str, Any]:
    return {**asdict(line), "keys": [counts.as_json(key) for key in line.keys]}
