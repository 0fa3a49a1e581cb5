"""`worktrees`: where this repository's memory is."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import (
    cwd_option,
    json_option,
    make_question,
    plain,
    print_json,
    waiting,
)
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.projects import RowCounts, count_rows
from claudemem_daemon.repository.keys import as_key
from claudemem_daemon.repository.model import Repository, Worktree
from claudemem_daemon.repository.records import around
from claudemem_daemon.repository.worktrees import details
from claudemem_daemon.shapes import warning_shapes

Line = dict[str, Any]
"""path, branch, state, role, and keys with their rows, as `worktrees --json` has them."""
COUNTING_SECONDS: Final = 5.0
NO_PATH: Final = {"removed": "(gone)", "unknown": "(unknown)"}
"""In place of a path, by state."""


@click.command("worktrees")
@cwd_option
@json_option
def worktrees_command(cwd: str | None, as_shape: bool) -> None:
    """List the main checkout and every worktree, removed ones included, with their keys and rows."""
    question = make_question(cwd=cwd)
    with open_pipeline(os.environ) as pipeline:
        resolved = pipeline.resolved(question)
        repository = pipeline.repositories.resolve(question.cwd)
        with waiting("counting rows"):
            counts = count_rows(resolved, pipeline.pool, Deadline.after(COUNTING_SECONDS))
    shape: dict[str, Any] = {
        "resolved_by": repository.resolved_by,
        "worktrees": _lines(repository, counts),
        "left_out": dict(counts.left_out),
        "warnings": warning_shapes((*resolved.warnings, *counts.warnings)),
    }
    if as_shape:
        print_json(shape)
        return
    if repository.kind == "none":
        screen.say(plain(repository.resolved_by, 400), "dim")
    several = len(counts.store_paths) > 1
    head = ["PATH", "BRANCH", "STATE", "KEYS", *["STORES"] * several, "ROWS", "NEWEST"]
    screen.table(head, [_cells(worktree, several=several) for worktree in shape["worktrees"]])
    for key, reason in counts.left_out.items():
        screen.say(f"  key {plain(key, 200)} {plain(reason, 300)}")
    screen.print_stores(counts.store_paths)
    screen.warn(shape["warnings"])


def _cells(worktree: dict[str, Any], *, several: bool) -> list[str]:
    """`several`: there is more than one store."""
    keys, path = worktree["keys"], worktree["path"]
    newest = [key["newest"] for key in keys if key["newest"] is not None]
    return [
        screen.home(path) if path else NO_PATH.get(worktree["state"], "-"),
        plain(worktree["branch"] or "-", 200),
        "-" if worktree["state"] == "none" else worktree["state"],
        ", ".join(plain(key["key"], 200) for key in keys) or "-",
        *[str(len({store for key in keys for store in key["stores"]}))] * several,
        f"{sum(key['rows'] for key in keys):,}",
        age(max(newest)) if newest else "-",
    ]


def _lines(repository: Repository, counts: RowCounts) -> list[Line]:
    """The checkouts of the repository and of those around it, then the keys that have no place."""
    lines: list[Line] = []
    outer: Repository | None = repository
    while outer is not None:
        here = details(outer)
        found = [_of_checkout(tree, counts) for tree in here.checkouts]
        if here.main is None:
            found.insert(0, _without_checkout(here, counts))
        # Of a superproject nobody asked for, as in the scope `self`, nothing is read.
        lines += found if outer is repository else [line for line in found if line["keys"]]
        outer = here.superproject
    shown = {key["key"] for line in lines for key in line["keys"]}
    rest = [(key, known.role) for key, known in counts.keys.items() if key not in shown]
    return lines + [_line(None, None, role, role, [key], counts) for key, role in rest]


def _without_checkout(repository: Repository, counts: RowCounts) -> Line:
    """What has no main checkout, or none that is known."""
    names = dict.fromkeys(map(as_key, (repository.name, *repository.fallback_names)))
    keys = [name for name in names if name in counts.keys]
    if repository.common_dir is None:
        state = repository.kind if os.path.isdir(repository.cwd) else "missing"
        return _line(repository.cwd, None, state, "main", keys, counts)
    keys = [key for key in keys if counts.keys[key].path is None]
    if repository.kind not in ("bare", "dot_bare"):
        return _line(None, None, "unknown", "main", keys, counts)
    path = around(repository.common_dir, repository.kind)
    return _line(path, None, "bare", "main", keys, counts)


def _of_checkout(tree: Worktree, counts: RowCounts) -> Line:
    branch = tree.branch or (f"({tree.head[:9]})" if tree.head else None)
    state = tree.state if tree.locked is None else f"{tree.state}, locked"
    keys = [key for key, known in counts.keys.items() if known.path == tree.path]
    return _line(tree.path, branch, state, "main" if tree.main else "worktree", keys, counts)


def _line(
    path: str | None, branch: str | None, state: str, role: str, keys: list[str], counts: RowCounts
) -> Line:
    shapes = [counts.as_json(key) for key in keys]
    return {"path": path, "branch": branch, "state": state, "role": role, "keys": shapes}
