"""`explain`: in words first, then the picture, and all detail with --verbose."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import explained
from claudemem_daemon.cli.config import source_text
from claudemem_daemon.cli.options import (
    json_option,
    make_question,
    pasteable,
    path_text,
    plain,
    print_json,
    question_options,
    setting_text,
)
from claudemem_daemon.database_url import is_database
from claudemem_daemon.diagnostics.fixes import LISTS, deciding
from claudemem_daemon.diagnostics.lists import dropped
from claudemem_daemon.permissions import quoted

MAX_VALUES = 12
"""Values that the lists leave out, named without --verbose."""


@click.command("explain")
@question_options
@click.argument("row", required=False, metavar="[ID]")
@click.option("--verbose", "-v", is_flag=True, help="Settings, keys, stores, SQL, plans, time.")
@json_option
def explain_command(row: str | None, as_shape: bool, verbose: bool, **options: Any) -> int:
    """Say why these rows are shown and not others; with ID, what happens to that row.

    First a sentence and what to do, then where the rows of each project end, and which days and
    worktrees they are from. ID is one that query and context print: 12, b7, S3. Exits 1 when no
    readable store has ID.
    """
    question = make_question(**options)
    began = time.perf_counter()
    shape = explained(question, row)
    if as_shape:
        print_json(shape)
    else:
        _print(shape, verbose=verbose, seconds=time.perf_counter() - began)
    found = [fate["disposition"] not in ("not_found", "store_unreadable")
             for fate in shape["observation"]]  # fmt: skip
    return 0 if row is None or any(found) else 1


def _print(shape: dict[str, Any], *, verbose: bool, seconds: float) -> None:
    from claudemem_daemon.cli import picture

    out = screen.screen()
    if shape["observation"]:
        for fate in shape["observation"]:
            _print_fate(fate)
    else:
        if all(cause["sentence"] != shape["verdict"] for cause in shape["causes"]):
            screen.say(plain(shape["verdict"], 2000), "bold")
        screen.causes(shape)
        screen.show(out, picture.funnels(shape, out.width))
        for line in _left_out(shape, verbose=verbose):
            screen.say(f"\n{line}")
        screen.show(out, picture.timeline(shape, out.width))
    if verbose:
        for line in _details(shape):
            screen.say(line, whole=line.startswith(("  sqlite3 ", "  psql ")))
        screen.say(f"\nanswered in {seconds * 1000:.1f} ms")
    elif not shape["observation"]:
        more = "\n`explain ID` is about one row; --verbose adds settings, keys, stores and SQL"
        screen.say(more, "dim")


def _print_fate(fate: dict[str, Any]) -> None:
    inside = fate["disposition"] == "included"
    verb = "is in the answer" if inside else "is not in the answer"
    where = f" of {screen.home(fate['store'])}" if fate["store"] else ""
    why = "" if inside else f": {plain(fate['detail'], 400)}"
    screen.say(f"{fate['ref']}{where} {verb} ({fate['disposition']}){why}", "bold")
    if fate["fix"]:
        screen.say(f"  fix: {pasteable(fate['fix'])}", "green", whole=True)
    if fate["project"] is None:
        return
    screen.say(plain(fate["title"] or "(untitled)", 300), label="  title     ")
    screen.say(plain(fate["project"], 300), label="  project   ")
    if fate["type"] is not None:
        concepts = ", ".join(plain(concept, 80) for concept in fate["concepts"]) or "none"
        screen.say(plain(fate["type"], 80), label="  type      ")
        screen.say(concepts, label="  concepts  ")
        screen.say(screen.when(fate), label="  written   ")


def _left_out(shape: dict[str, Any], *, verbose: bool) -> list[str]:
    """Each value that a list leaves out, with its rows, but for what a cause tells."""
    lines: list[str] = []
    told = "" if verbose else " ".join(cause["sentence"] for cause in shape["causes"])
    for kind, key in LISTS.items():
        values = [found for found in dropped(shape, kind) if f"{found[0]!r} " not in told]
        shown = values if verbose else values[:MAX_VALUES]
        named = [
            f"{plain(value, 60) or '(empty)'} {rows:,}" + (f" ({hint.words})" if hint else "")
            for value, rows, hint in shown
        ]
        if named:
            more = len(values) - len(shown)
            rest = f", and {more:,} more" if more else ""
            lines.append(f"{kind} left out by {deciding(shape, key)}: {', '.join(named)}{rest}")
    return lines


def _details(shape: dict[str, Any]) -> list[str]:
    """How the question was resolved, and the SQL as a shell takes it."""
    lines = [f"\nrepository  {plain(shape['repository']['resolved_by'], 400)}", "\nsettings"]
    lines += [
        f"  {name} = {plain(setting_text(setting['value']), 400) or '-'}"
        f"  ({source_text(name, setting)})"
        for name, setting in shape["settings"].items()
        if setting["origin"] != "default" or name in shape["filters"]["sources"]
    ]
    lines.append("\nkeys")
    lines += [
        f"  {plain(key['key'], 200)}{'...' if key['match'] == 'prefix' else ''}"
        f"  {key['role']}: {plain(key['rule'], 400)}"
        for key in shape["keys"]
    ] or ["  none"]
    lines.append("\nstores")
    lines += [
        f"  {path_text(store['path'])}  ({plain(store['rule'], 200)})"
        + ("" if store["ok"] else f"  {plain(store['error'] or '', 300)}")
        for store in shape["stores"]
    ] or ["  none"]
    for query in shape["queries"]:
        lines += [f"\nquery of {path_text(query['store'])}: plan {query['plan']}"]
        command = _command(query["store"], query["sql"], query["parameters"])
        lines += [f"  {pasteable(command)}"]
        lines += [f"  {plain(step, 200)}" for step in query["query_plan"]]
    return lines


def _command(store: str, sql: str, parameters: list[Any]) -> str:
    """What runs the statement in a shell."""
    literals = [
        "NULL" if value is None else str(value) if isinstance(value, int | float)
        else "'" + str(value).replace("'", "''") + "'"
        for value in parameters
    ]  # fmt: skip
    if is_database(store):
        sql = re.sub(r"\$(\d+)", lambda number: literals[int(number[1]) - 1], sql)
        return f"psql {quoted(store)} -c {quoted(sql)}"
    # The program sqlite3 knows octet_length from 3.43 on; what we bring along always does.
    sql = re.sub(r"octet_length\(([\w.]+)\)", r"length(CAST(\1 AS BLOB))", sql)
    # No text of ours holds a question mark.
    parts = zip(sql.split("?"), [*literals, ""], strict=True)
    return f"sqlite3 -readonly {quoted(store)} {quoted(''.join(map(''.join, parts)))}"
