"""`worktrees`: where this repository's memory is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import click

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli.options import cwd_option, make_question, plain
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.row_counts import RowCounts, count_rows
from claudemem_daemon.repository.keys import as_key
from claudemem_daemon.repository.layout import around
from claudemem_daemon.repository.model import Repository, Worktree
from claudemem_daemon.repository.worktrees import details
from claudemem_daemon.shapes import as_json, warning_shapes

NO_PATH: Final = {"removed": "(gone)", "unknown": "(unknown)"}
"""In place of a path, by state."""


@dataclass(frozen=True, slots=True)
class _Line:
    path: str | None
    branch: str
    state: str
    role: str
    keys: tuple[str, ...]


@click.command("worktrees")
@cwd_option
@click.option("--json", "as_shape", is_flag=True, help="As JSON.")
def worktrees_command(cwd: str | None, as_shape: bool) -> None:
    """The main checkout and every worktree, removed ones included: keys, stores, rows, newest."""
    question = make_question(cwd=cwd)
    with open_pipeline(os.environ) as pipeline:
        resolved = pipeline.resolved(question)
        repository = pipeline.repositories.resolve(question.cwd)
        counts = count_rows(resolved, pipeline.pool)
    lines = _lines(repository, counts)
    if as_shape:
        click.echo(as_json(_shape(repository.resolved_by, lines, counts, resolved.warnings)))
        return
    from claudemem_daemon.cli import screen

    screen.say(plain(repository.resolved_by, 400), "dim")
    rows = []
    for line in lines:
        newest = [n for key in line.keys if (n := counts.newest(key)) is not None]
        stores = {s for key in line.keys for s in counts.stores(key)}
        rows.append(
            [
                screen.home(line.path) if line.path else NO_PATH.get(line.state, "-"),
                plain(line.branch, 200),
                line.state,
                ", ".join(plain(key, 200) for key in line.keys) or "-",
                str(len(stores)),
                f"{sum(counts.rows(key) for key in line.keys):,}",
                age(max(newest)) if newest else "-",
            ]
        )
    head = ["PATH", "BRANCH", "STATE", "KEYS", "STORES", "ROWS", "NEWEST"]
    screen.table(head, rows)
    for key, reason in counts.left_out.items():
        screen.say(f"  key {plain(key, 200)} {plain(reason, 300)}")
    for number, store in enumerate(counts.store_paths, 1):
        screen.say(f"store {number}: {screen.home(store)}", "dim")
    screen.warn(warning_shapes((*resolved.warnings, *counts.warnings)))


def _lines(repository: Repository, counts: RowCounts) -> list[_Line]:
    """The checkouts of the repository and of those around it, then the keys that have no place."""
    lines: list[_Line] = []
    outer: Repository | None = repository
    while outer is not None:
        one = details(outer)
        found = [_line(tree, "main" if tree.main else "worktree", counts) for tree in one.checkouts]
        if one.main is None:
            found.insert(0, _without_checkout(one, counts))
        # Of a superproject nobody asked for, as in the scope `self`, nothing is read.
        lines += found if outer is repository else [line for line in found if line.keys]
        outer = one.superproject
    shown = {key for line in lines for key in line.keys}
    lines += [
        _Line(None, "-", one.role, one.role, (key,))
        for key, one in counts.keys.items()
        if key not in shown
    ]
    return lines


def _without_checkout(repository: Repository, counts: RowCounts) -> _Line:
    """What has no main checkout, or none that is known."""
    names = [as_key(one) for one in (repository.name, *repository.fallback_names)]
    if repository.common_dir is None:
        state = repository.kind if os.path.isdir(repository.cwd) else "missing"
        return _Line(repository.cwd, "-", state, "main", _known(names, counts))
    keys = tuple(key for key in _known(names, counts) if counts.keys[key].path is None)
    if repository.kind not in ("bare", "dot_bare"):
        return _Line(None, "-", "unknown", "main", keys)
    return _Line(around(repository.common_dir, repository.kind), "-", "bare", "main", keys)


def _known(names: list[str], counts: RowCounts) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name in counts.keys)


def _line(one: Worktree, role: str, counts: RowCounts) -> _Line:
    branch = one.branch or (f"({(one.head or '')[:9]})" if one.detached else "-")
    state = one.state if one.locked is None else f"{one.state}, locked"
    keys = tuple(key for key, known in counts.keys.items() if known.path == one.path)
    return _Line(one.path, branch, state, role, keys)


def _shape(how: str, lines: list[_Line], counts: RowCounts, warnings: Any) -> dict[str, Any]:
    return {
        "resolved_by": how,
        "worktrees": [
            {
                "path": line.path,
                "branch": None if line.branch == "-" else line.branch,
                "state": line.state,
                "role": line.role,
                "keys": [
                    {
                        "key": key,
                        "rule": counts.keys[key].rule,
                        "stores": counts.stores(key),
                        "rows": counts.rows(key),
                        "newest": counts.newest(key),
                    }
                    for key in line.keys
                    if key in counts.keys
                ],
            }
            for line in lines
        ],
        "left_out": dict(counts.left_out),
        "warnings": warning_shapes((*warnings, *counts.warnings)),
    }
