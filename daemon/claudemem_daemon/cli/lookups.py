"""`show`, `search`, `projects`: rows by their ids or their words, and the keys there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import looked_up
from claudemem_daemon.cli.options import (
    NUMBER,
    explain_command_line,
    json_option,
    make_question,
    narrowed,
    pasteable,
    place_options,
    plain,
    print_json,
    scope_option,
    since_option,
)
from claudemem_daemon.diagnostics.age import age, counted


@click.command("show")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@place_options
@json_option
def show_command(ids: tuple[str, ...], as_shape: bool, **where: Any) -> int:
    """Show rows in full, by the ids that context, query and search print: 12, b7, S3.

    They may be in any store of the repository, and from any of its worktrees. Exits 1 when an id
    belongs to no row of this repository.
    """
    shape = looked_up("/v1/observations", make_question(**where), ids=",".join(ids))
    if as_shape:
        print_json(shape)
    else:
        _print_rows(shape)
    return 1 if shape["missing"] else 0


@click.command("search")
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@place_options
@scope_option
@click.option(
    "--limit", type=NUMBER, metavar="NUMBER", default=20, show_default=True,
    help="How many rows at most.",
)  # fmt: skip
@since_option
@json_option
def search_command(
    words: tuple[str, ...], since: str | None, as_shape: bool, **options: Any
) -> None:
    """Find this repository's rows that hold every one of these words, newest first.

    The stores' own full-text index is used where there is one; it also finds the beginnings of
    words. Otherwise the rows are compared.
    """
    text = " ".join(words)
    shape = looked_up("/v1/search", make_question(**options), q=text, since=since or "")
    if as_shape:
        print_json(shape)
        return
    rows = shape["observations"]
    if rows:
        screen.print_observations(rows)
    count = counted(len(rows), "row") if rows else f"{narrowed()}no row of this repository"
    verb = "holds" if len(rows) <= 1 else "hold"
    # There may be more where the limit is reached.
    first = f"the newest {count} that" if rows and len(rows) == options["limit"] else count
    screen.say(f"{first} {verb} {plain(text, 100)!r}", "dim", errors=True)
    screen.warn(shape["warnings"])


@click.command("projects")
@place_options
@click.option("--limit", type=NUMBER, metavar="NUMBER", help="How many keys at most.")
@since_option
@json_option
def projects_command(since: str | None, as_shape: bool, **options: Any) -> None:
    """List the project keys in the stores here, with their rows and the newest one's age.

    This repository's own come first (*), then those that look like it (?), with the setting that
    makes them its own.
    """
    shape = looked_up("/v1/projects", make_question(**options), since=since or "")
    if as_shape:
        print_json(shape)
    else:
        _print_projects(shape)


def _print_projects(shape: dict[str, Any]) -> None:
    found = shape["projects"]
    stores = list(dict.fromkeys(project["store"] for project in found))
    rows = [
        [
            "*" if project["ours"] else "?" if project["resembles"] else "",
            plain(project["key"], 200),
            f"{project['rows']:,}",
            age(project["newest"]) if project["newest"] is not None else "-",
            *([str(stores.index(project["store"]) + 1)] if len(stores) > 1 else []),
        ]
        for project in found
    ]
    if rows:
        screen.table(["", "KEY", "ROWS", "NEWEST", "STORE"][: len(rows[0])], rows)
    elif options := narrowed():
        screen.say(f"{options}no project key in the stores here")
    else:
        screen.say(f"no project key in the stores here; `{explain_command_line()}` says why")
    screen.print_stores(stores)
    older = [project for project in found if project["resembles"]]
    if not older and not any(project["ours"] for project in found):
        older = [project for project in found if project["alias"]][:1]
    for project in older:
        why = "no key here is this repository's, whose folder may have had another name"
        if project["resembles"]:
            why = f"looks like {plain(project['resembles'], 200)}: {plain(project['why'], 300)}"
        screen.say(
            f"? {plain(project['key'], 200)}: {why}. To make its rows this repository's, put this"
            f" into settings.json: {pasteable(project['alias'])}",
            "yellow",
        )
    screen.warn(shape["warnings"])


def _print_rows(shape: dict[str, Any]) -> None:
    for row in (*shape["observations"], *shape["summaries"]):
        session = "request" in row
        title = "session summary" if session else plain(row["title"], 1000)
        screen.say(title or "(untitled)", "bold", label=f"{row['ref']}  ")
        facts = [screen.when(row), plain(row["project"], 200)]
        if not session:
            facts += [plain(row["type"], 40), ", ".join(plain(c, 60) for c in row["concepts"])]
        screen.say("    " + " | ".join(fact for fact in facts if fact), "dim")
        for line in _texts(row):
            screen.say(f"    {line}")
        screen.say(f"    store: {screen.home(row['store'])}", "dim")
        screen.say("")
    for ref in shape["missing"]:
        hint = f"`{explain_command_line(ref)}` says why"
        screen.say(f"! {ref}: no row of this repository has this id; {hint}", "yellow", errors=True)
    screen.warn(shape["warnings"])


def _texts(row: dict[str, Any]) -> Iterator[str]:
    """Every text of the row whole, each in a line: they are a stranger's."""
    whole = 1 << 30
    for name in ("subtitle", "narrative", "request", "investigated", "learned", "completed",
                 "next_steps", "notes"):  # fmt: skip
        if row.get(name):
            yield f"{name.replace('_', ' ')}: {plain(row[name], whole)}"
    for fact in row.get("facts", ()):
        yield f"- {plain(fact, whole)}"
    for name in ("files_read", "files_modified"):
        if row.get(name):
            yield f"{name.replace('_', ' ')}: {', '.join(plain(f, whole) for f in row[name])}"
