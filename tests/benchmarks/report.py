"""The table, for a terminal and for the documentation."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence

import apsw

from tests.benchmarks.measure import Figure

_HEAD = ("", "rows", "ours", "p99", "floor", "of what", "ratio", "goal", "")


def table(figures: Sequence[Figure]) -> str:
    """Plain text, one block a section."""
    lines = []
    for section in dict.fromkeys(figure.section for figure in figures):
        chosen = [figure for figure in figures if figure.section == section]
        cells = [(section.upper(), *_HEAD[1:]), *(_cells(figure) for figure in chosen)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(_HEAD))]
        for row in cells:
            line = "  ".join(
                cell.ljust(width) if n in (0, 5, 7, 8) else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append(line.rstrip())
        lines += [f"    {_at(figure)}: {figure.note}" for figure in chosen if figure.note]
        lines.append("")
    return "\n".join([*lines, verdict(figures)])


def markdown(figures: Sequence[Figure]) -> str:
    """The same as Markdown tables."""
    lines = [machine(), ""]
    for section in dict.fromkeys(figure.section for figure in figures):
        chosen = [figure for figure in figures if figure.section == section]
        lines += [f"### {section[0].upper()}{section[1:]}", ""]
        lines.append(f"| {' | '.join(('what', *_HEAD[1:]))} |")
        lines.append("|---|--:|--:|--:|--:|---|--:|---|---|")
        lines += [f"| {' | '.join(_cells(figure))} |" for figure in chosen]
        notes = dict.fromkeys(
            f"- {_at(figure)}: {figure.note}." for figure in chosen if figure.note
        )
        lines += ["", *notes, ""] if notes else [""]
    return "\n".join([*lines, verdict(figures), ""])


def machine() -> str:
    """The machine in neutral words."""
    cores = os.cpu_count() or 1
    return (
        f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}, {cores}"
        f" core{'s' if cores > 1 else ''}; Python {platform.python_version()}; SQLite"
        f" {apsw.sqlite_lib_version()} in the daemon and in the floors, {sqlite3.sqlite_version}"
        " in the writer."
    )


def verdict(figures: Sequence[Figure]) -> str:
    """One line; the goals are promised for 1,000,000 rows."""
    judged = [figure for figure in figures if figure.met is not None]
    missed = [_at(figure) for figure in judged if not figure.met]
    if not missed:
        return f"All {len(judged)} goals met."
    return f"{len(judged) - len(missed)} of {len(judged)} goals met; missed: {'; '.join(missed)}."


def _at(figure: Figure) -> str:
    rows = "" if figure.rows is None else f" at {figure.rows:,} rows"
    return f"{figure.section}, {figure.what}{rows}"


def _cells(figure: Figure) -> tuple[str, ...]:
    ratio = figure.ratio
    return (
        figure.what,
        "" if figure.rows is None else f"{figure.rows:,}",
        f"{_number(figure.ours)} {figure.unit}",
        "" if figure.p99 is None else _number(figure.p99),
        "" if figure.floor is None else _number(figure.floor),
        figure.floor_name,
        "" if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}",
        figure.goal,
        "" if figure.met is None else ("ok" if figure.met else "MISSED"),
    )


def _number(value: float) -> str:
    if value == int(value) and value < 1000:
        return str(int(value))
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"
