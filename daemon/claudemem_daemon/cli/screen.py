"""What people read, in their terminal or through a pipe. rich is imported when something is printed:
`--json` does without it.

A terminal gets colours and tables that fit it. A pipe gets every text whole, without colours.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from claudemem_daemon.cli.options import colours, pasteable, path_text, plain
from claudemem_daemon.stores.rows import iso_ms

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_WIDTH: Final = 100_000
"""Columns where no terminal limits a line."""
PLAIN_SIGNS: Final = str.maketrans({"█": "#", "░": ".", "…": "~"})
"""For terminals that know no others."""
BLANK_END: Final = re.compile(r"(?: |\x1b\[[\d;]*m)+$", re.MULTILINE)
"""Of a line, perhaps with colours that end there."""
COMMAND_END: Final = re.compile(r"`(claudemem-daemon [^`]+)`$")
MIN_FREE: Final = 18
"""Columns that a text which may be folded gets at least."""
FREE: Final = ("TITLE", "PATH", "PROJECT", "KEY", "KEYS", "VALUE", "STORE", "FROM")
"""Columns that may be folded; all others keep their words in one line."""
COUNTS: Final = ("ROWS", "STORES")


def screen(*, errors: bool = False) -> Console:
    """Standard output (or standard error) for people."""
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    terminal = stream.isatty()
    # rich takes a dumb terminal to have 80 columns, whatever it has, unless it is told both.
    width, height = os.get_terminal_size(stream.fileno()) if terminal else (PIPE_WIDTH, 25)
    return Console(
        file=stream,
        width=width or 80,
        height=height or 25,
        force_terminal=terminal,
        no_color=not colours(stream),
        color_system="auto" if colours(stream) else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not terminal,
    )


def say(
    text: str, style: str = "", *, errors: bool = False, whole: bool = False, label: str = ""
) -> None:
    """Print a line, behind its label where it has one. In a terminal it is wrapped at blanks and
    stays behind label and indentation; what is to be copied (`whole`) the terminal wraps itself."""
    from rich.table import Table
    from rich.text import Text

    out = screen(errors=errors)
    lead = label + text[: len(text) - len(text.lstrip(" !"))]
    shown, body = Text(lead, style=style or "dim"), Text(text.lstrip(" !"), style=style)
    if whole or not lead or not text.strip() or out.width <= 2 * len(lead):
        show(out, shown + body, whole=whole)
    else:
        line = Table.grid()
        line.add_column(no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row(shown, body)
        show(out, line)


def headed(head: str, text: str, style: str = "green") -> None:
    """Print a line that is copied whole, its head coloured: what a command did, and to what."""
    from rich.text import Text

    show(screen(), Text.assemble((head, style), " ", text), whole=True)


def show(out: Console, what: RenderableType, *, whole: bool = False) -> None:
    """Print without the blanks at the ends of lines, which fill a table up or were wrapped at."""
    with out.capture() as captured:
        out.print(what, soft_wrap=whole or None, crop=False)
    text = BLANK_END.sub(lambda found: found[0].replace(" ", ""), captured.get())
    # The command itself runs in UTF-8, whatever the terminal takes.
    names = ["LC_ALL", "LC_CTYPE", "LANG"]
    if os.environ.get("LC_CTYPE") == "C.UTF-8":
        names.remove("LC_CTYPE")  # set by Python, where LANG is C
    locale = next((value for name in names if (value := os.environ.get(name))), "UTF-8")
    if not re.search("utf-?8", locale, re.IGNORECASE):
        text = text.translate(PLAIN_SIGNS)
    encoding = getattr(out.file, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(PLAIN_SIGNS).encode(encoding, "replace").decode(encoding)
    click.echo(text, file=out.file, nl=False, color=colours(out.file))


def finding(
    sentence: str, fix: str = "", style: str = "yellow", *, label: str = "! ", errors: bool = False
) -> None:
    """Print what is wrong, and below it what to do, to be copied."""
    terminal = (sys.stderr if errors else sys.stdout).isatty()
    text = plain(sentence, 2000)
    say(home(text) if terminal else text, style, errors=errors, label=label)
    if fix:
        lead = " " * max(2, len(label))
        say(f"{lead}fix: {pasteable(fix)}", "green", errors=errors, whole=True)


def warn(warnings: Iterable[dict[str, str]], *, errors: bool = True) -> None:
    """What goes with an answer, on standard error; a command at the end of a message can be copied."""
    for warning in warnings:
        command = COMMAND_END.search(warning["message"])
        finding(warning["message"], command[1] if command else "", errors=errors)


def causes(shape: dict[str, Any], *, errors: bool = False, told: str = "") -> None:
    """What an explanation found to be wrong, each with what to do, and other warnings after them;
    of what `told` says already, what to do alone."""
    for cause in sorted(shape["causes"], key=lambda cause: cause["sentence"] not in told):
        if cause["sentence"] not in told:
            finding(cause["sentence"], cause["fix"], errors=errors)
        elif cause["fix"]:
            say(f"fix: {pasteable(cause['fix'])}", "green", errors=errors, whole=True)
    told = "\n".join((told, *(cause["sentence"] for cause in shape["causes"])))
    warn((found for found in shape["warnings"] if found["message"] not in told), errors=errors)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns below their names. Long texts fold; where the terminal has no room for the
    columns side by side, each row's long texts go below its short ones."""
    from rich.table import Table
    from rich.text import Text

    out = screen()
    fixed = [number for number, name in enumerate(head) if name not in FREE]
    free = [number for number, name in enumerate(head) if name in FREE]
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    needed = sum(widths[n] + 2 for n in fixed) + sum(min(widths[n], MIN_FREE) + 2 for n in free) - 2
    if needed > out.width:
        _stack(head, rows, out.width)
        return
    columns = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        justify: Literal["left", "right"] = "right" if name in COUNTS else "left"
        columns.add_column(name, justify=justify, no_wrap=name not in FREE, overflow="fold")
    for row in rows:
        columns.add_row(*map(Text, row))
    show(out, columns)


def _stack(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """The short columns in a line, numbers with their names, and the long ones below; a first column
    that is long begins the row."""
    for row in rows:
        cells = list(zip(head, row, strict=True))
        short = [
            f"{name.lower()} {cell}" if name != "ID" and cell.replace(",", "").isdigit() else cell
            for name, cell in cells
            if name not in FREE
        ]
        line = "  ".join(cell for cell in short if cell not in ("", "-"))
        long = [cell for name, cell in cells if name in FREE]
        if head[0] in FREE:
            say(long.pop(0), "bold")
            long.insert(0, line)
        else:
            say(line, "bold")
        together = "  ".join(filter(None, long))
        for cell in [together] if len(together) < width - 4 else long:
            if cell:
                say(f"    {cell}")


def home(path: str) -> str:
    """A path, or a text with paths, as a person reads it: `~` for the home folder, odd bytes escaped."""
    folder = os.environ.get("HOME", "").rstrip("/")
    short = re.sub(rf"(?<![\w./~-]){re.escape(folder)}(?=/)", "~", path) if folder else path
    return path_text(short)


def print_observations(rows: list[dict[str, Any]]) -> None:
    """A line a row, as `query` and `search` have them."""
    cells = [
        [row["ref"], when(row), plain(row["type"], 20), plain(row["project"], 200),
         plain(row["title"] or row["subtitle"] or row["narrative"], 300)]
        for row in rows
    ]  # fmt: skip
    table(["ID", "WHEN", "TYPE", "PROJECT", "TITLE"], cells)


def print_stores(paths: Sequence[str]) -> None:
    """Below a table, whose numbers of stores these are."""
    for number, path in enumerate(paths, 1):
        say(f"store{f' {number}' * (len(paths) > 1)}: {home(path)}", "dim")


def when(row: dict[str, Any]) -> str:
    """Of `created_at` where the epoch is unusable, as in a context."""
    epoch = row["created_at_epoch"]
    at: Any = iso_ms(row["created_at"]) if epoch is None else epoch
    try:
        return f"{datetime.fromtimestamp(at / 1000).astimezone():%Y-%m-%d %H:%M}"
    except (TypeError, ValueError, OverflowError, OSError):
        return "undated"
