"""Figures and charts put into the documentation, between the markers of each page."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from tests.benchmarks.chart import Chart
from tests.benchmarks.measure import Figure
from tests.benchmarks.report import markdown

_HEALTHZ: Final = "an empty HTTP answer of the same server"
_BY_HAND: Final = "SQLite by hand"
_PYTHON: Final = "the same line with a bare Python interpreter"
_LIBRARIES: Final = "importing the libraries"
_SPEED: Final = (
    ("warm answer, 1 to 1,000 worktrees", "warm", r"\d+ worktrees?", _HEALTHZ),
    ("warm hook call, session start or prompt without news", "warm", "huge, hook.*", _HEALTHZ),
    ("after a write by claude-mem, rare to huge", "after a write", "rare|middling|huge", _BY_HAND),
    ("after a write, 1 to 10 worktrees", "after a write", "(1|3|10) worktrees?", _BY_HAND),
    ("after a write, 1,000 worktrees", "after a write", "1000 worktrees", _BY_HAND),
    ("after a write, 50 stores", "worst cases", "50 stores", _BY_HAND),
    ("first answer after quiet", "after quiet", "rare|middling|huge", "SQLite opened anew"),
    ("hook, whole process", "hooks", "claudemem-daemon hook.*", _PYTHON),
    ("hook by curl, whole process", "hooks", "curl.*", _PYTHON),
    ("start to first answer", "start", "to first answer", _LIBRARIES),
    ("resident when ready", "memory", "when READY", _LIBRARIES),
    ("resident after the worst cases", "memory", "after all of it", _LIBRARIES),
)
"""A line of README.md each: the figures that it sums up by section and name, and their floor."""


def write(root: str, figures: Sequence[Figure], charts: Sequence[Chart]) -> None:
    """Renews docs/benchmarks.md, its charts beside it, and README.md, all below `root`."""
    page = os.path.join(root, "docs", "benchmarks.md")
    _put(page, "figures", markdown(figures))
    _put(page, "growth", growth(charts))
    _put(os.path.join(root, "README.md"), "speed", speed(figures))
    for chart in charts:
        with open(os.path.join(root, "docs", f"{chart.name}.svg"), "w", encoding="utf-8") as file:
            file.write(chart.svg())


def speed(figures: Sequence[Figure]) -> str:
    """The few figures of the largest store that a reader wants first."""
    lines = ["| | ours | at least |", "|---|--:|---|"]
    for name, section, pattern, of_what in _SPEED:
        chosen = _chosen(figures, section, pattern)
        if chosen:
            ours, floor = _spans(chosen)
            lines.append(f"| {name} | {ours} | {floor}, {of_what} |")
    beside = _chosen(figures, "beside claude-mem", ".*after a write")
    if beside:
        ours, theirs = _spans(beside)
        said = f"On the same store and in the same run, claude-mem's own worker took {theirs}"
        lines += ["", f"{said} after a write, and ours {ours}."]
    return "\n".join(lines)


def _chosen(figures: Sequence[Figure], section: str, pattern: str) -> list[Figure]:
    most = max(figure.rows or 0 for figure in figures)
    place = (section, most)
    return [
        figure
        for figure in figures
        if (figure.section, figure.rows) == place and re.fullmatch(pattern, figure.what)
    ]


def growth(charts: Sequence[Chart]) -> str:
    """Each chart as a picture, its values as a table beneath."""
    lines: list[str] = []
    for chart in charts:
        head, *rows = chart.rows()
        lines += [f"![{chart.title}]({chart.name}.svg)", "", f"| {' | '.join(head)} |"]
        lines += [f"|{'--:|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]
        lines += [f"- {note}." for note in chart.notes] + [""] * bool(chart.notes)
    return "\n".join(lines).rstrip()


def _spans(figures: Sequence[Figure]) -> tuple[str, str]:
    """Of ours and of the floors, from the smallest to the largest."""
    columns = ([figure.ours for figure in figures], [figure.floor or 0.0 for figure in figures])
    ours, floor = (dict.fromkeys((_short(min(column)), _short(max(column)))) for column in columns)
    return f"{' to '.join(ours)} {figures[0].unit}", f"{' to '.join(floor)} {figures[0].unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _put(path: str, name: str, text: str) -> None:
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = f"<!-- {name}: written by the benchmarks -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{path} is left alone: it has no lines {begin} and {end}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{text.rstrip()}\n\n{end}{after}")
