"""`worktrees`: where this repository's memory is, at a glance."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from claudemem_daemon.api import open_corridor
from claudemem_daemon.cli.options import cwd_option, make_question, path_text, plain, table
from claudemem_daemon.diagnostics.age import age
from claudemem_daemon.diagnostics.census import Census, take_census
from claudemem_daemon.repository.model import Worktree
from claudemem_daemon.repository.worktrees import details
from claudemem_daemon.server.shapes import as_json, warning_shapes


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
    with open_corridor(os.environ) as corridor:
        way = corridor.way(question)
        repository = details(corridor.repositories.resolve(question.cwd))
        census = take_census(way, corridor.pool)
    lines = [_line(one, "main" if one.main else "worktree", census) for one in repository.checkouts]
    if not repository.checkouts:
        name = tuple(key.key for key in way.keys.keys if key.match == "exact")[:1]
        lines.append(_Line(repository.cwd, "-", repository.kind, "main", name))
    paths = {line.path for line in lines}
    lines += [
        _Line(None, "-", "removed" if one.role == "removed" else one.role, one.role, (key,))
        for key, one in census.keys.items()
        if one.path is None or one.path not in paths
    ]
    if as_shape:
        click.echo(as_json(_shape(repository.resolved_by, lines, census, way.warnings)))
        return
    click.echo(plain(repository.resolved_by, 400))
    rows = [["PATH", "BRANCH", "STATE", "KEYS", "STORES", "ROWS", "NEWEST"]]
    for line in lines:
        newest = [n for key in line.keys if (n := census.newest(key)) is not None]
        stores = {s for key in line.keys for s in census.stores(key)}
        rows.append(
            [
                path_text(line.path) if line.path else "(gone)",
                plain(line.branch, 40),
                line.state,
                ", ".join(plain(key, 60) for key in line.keys) or "-",
                str(len(stores)),
                str(sum(census.rows(key) for key in line.keys)),
                age(max(newest)) if newest else "-",
            ]
        )
    for text in table(rows):
        click.echo(text)
    for key, reason in census.left_out.items():
        click.echo(f"  key {plain(key, 60)} {plain(reason, 300)}")
    for number, store in enumerate(census.store_paths, 1):
        click.echo(f"store {number}: {path_text(store)}")
    for warning in (*way.warnings, *census.warnings):
        click.echo(f"! {plain(warning.message, 400)}", err=True)


def _line(one: Worktree, role: str, census: Census) -> _Line:
    branch = one.branch or (f"({(one.head or '')[:9]})" if one.detached else "-")
    state = one.state if one.locked is None else f"{one.state}, locked"
    keys = tuple(key for key, known in census.keys.items() if known.path == one.path)
    return _Line(one.path, branch, state, role, keys)


def _shape(how: str, lines: list[_Line], census: Census, warnings: Any) -> dict[str, Any]:
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
                        "rule": census.keys[key].rule,
                        "stores": census.stores(key),
                        "rows": census.rows(key),
                        "newest": census.newest(key),
                    }
                    for key in line.keys
                    if key in census.keys
                ],
            }
            for line in lines
        ],
        "left_out": dict(census.left_out),
        "warnings": warning_shapes((*warnings, *census.warnings)),
    }
