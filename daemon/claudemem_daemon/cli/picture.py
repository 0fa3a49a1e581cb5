"""The picture of an explanation: where rows end, as bars that add up, and when they were written."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from operator import itemgetter
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from claudemem_daemon.cli.options import plain
from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.verdict import ENDS

MAX_PROJECTS: Final = 8
MAX_BUCKETS: Final = 20
"""Lines of the timeline; more days become weeks, then months, then years."""
MAX_BAR: Final = 80
SHOWN: Final = "█"
LEFT: Final = "░"


def share(counts: list[int], width: int) -> list[int]:
    """Cells of a bar for each count: they add up to `width`, and what is not 0 has one at least
    where there is bar_width for that."""
    total = sum(counts)
    if not total:
        return [0 for _ in counts]
    least = [1 if count else 0 for count in counts]
    if sum(least) > width:
        least = [0 for _ in counts]
    free = width - sum(least)
    ends = [free * sum(counts[: number + 1]) // total for number in range(len(counts))]
    starts = [0, *ends[:-1]]
    return [size + end - start for size, start, end in zip(least, starts, ends, strict=True)]


def funnels(shape: dict[str, Any], width: int) -> Group:
    """For each project its rows, what each filter takes of them, and what is shown."""
    projects: dict[str, Counter[str]] = {}
    for count in shape["counts"]:
        projects.setdefault(count["project"], Counter()).update(count["reasons"])
    ordered = sorted(projects.items(), key=lambda pair: -sum(pair[1].values()))
    lines: list[Text] = []
    rest: Counter[str] = Counter()
    for number, (name, reasons) in enumerate(ordered):
        if number < MAX_PROJECTS:
            lines += _funnel(name, reasons, width)
        else:
            rest.update(reasons)
    if rest:
        lines += _funnel(f"{len(ordered) - MAX_PROJECTS} more projects", rest, width)
    return Group(*lines)


def _funnel(name: str, reasons: Counter[str], width: int) -> list[Text]:
    steps = [("shown", reasons["included"])]
    steps += [(label, reasons[reason]) for reason, (_, label) in reversed(ENDS.items())]
    steps = [step for step in steps if step[1]]
    total = sum(reasons.values())
    label = max(len(words) for words, _ in steps)
    digits = len(f"{total:,}")
    bar_width = max(8, min(MAX_BAR, width - label - digits - 6))
    lines = [Text(f"\n{plain(name, 200)}: {counted(total, 'row')}", style="bold")]
    at = 0
    cells = share([count for _, count in steps], bar_width)
    for (words, count), size in zip(steps, cells, strict=True):
        shown = words == "shown"
        bar = " " * at + (SHOWN if shown else LEFT) * size
        line = Text(f"  {words:<{label}}  {count:>{digits},}  ")
        line.append(bar, style="green" if shown else "yellow")
        lines.append(line)
        at += size
    return lines


def timeline(shape: dict[str, Any], width: int) -> Group:
    """The rows that pass all filters by day, newest first, with the line where the limit cuts."""
    days = [day for day in shape["days"] if day["shown"] or day["beyond"]]
    if not days:
        return Group()
    size = next(
        size
        for size in (10, "week", 7, 4)
        if size == 4 or len({_bucket(day["day"], size) for day in days}) <= MAX_BUCKETS
    )
    buckets: dict[str, list[dict[str, Any]]] = {}
    for day in sorted(days, key=itemgetter("day"), reverse=True):
        buckets.setdefault(_bucket(day["day"], size), []).append(day)
    unit = {10: "day", "week": "week", 7: "month", 4: "year"}[size]
    lines = [Text(f"\nby {unit}: {SHOWN} shown, {LEFT} beyond the limit or the size", style="bold")]
    largest = max(sum(day["shown"] + day["beyond"] for day in found) for found in buckets.values())
    bar_width = max(8, min(MAX_BAR, width // 2 - 14))
    cut = any(day["beyond"] for day in days)
    for number, (bucket, found) in enumerate(buckets.items()):
        shown, beyond = (sum(day[name] for day in found) for name in ("shown", "beyond"))
        later = any(day["shown"] for day in days if _bucket(day["day"], size) < bucket)
        lines.append(_day(bucket, found, (shown, beyond), largest, bar_width, width))
        if cut and beyond and not later:
            cut = False
            limit = shape["filters"]["limit"]
            words = f" the limit of {limit:,} cuts here: older rows are left out "
            words = words if len(words) < width else f" limit {limit:,} "
            lines.append(Text(words.center(min(width, 100), "-"), style="red"))
        if number > 2 * MAX_BUCKETS:
            lines.append(Text(f"{len(buckets) - number - 1} older {unit}s"))
            break
    return Group(*lines)


def _day(
    bucket: str,
    found: list[dict[str, Any]],
    counts: tuple[int, int],
    largest: int,
    bar_width: int,
    width: int,
) -> Text:
    total = sum(counts)
    cells = share(list(counts), max(1, bar_width * total // largest))
    line = Text(f"{bucket or 'undated':<10}  ")
    line.append(SHOWN * cells[0], style="green")
    line.append(LEFT * cells[1], style="yellow")
    line.append(" " * (bar_width - sum(cells)))
    by_project: Counter[str] = Counter()
    for day in found:
        by_project[day["project"]] += day["shown"] + day["beyond"]
    names = ", ".join(f"{plain(name, 60)} {rows:,}" for name, rows in by_project.most_common())
    left = width - len(line.plain) - 2
    line.append("  " + (names if len(names) <= left else names[: max(1, left - 1)] + "…"))
    return line


def _bucket(day: str, size: int | str) -> str:
    if size != "week" or not day:
        return day[: size if isinstance(size, int) else 10]
    date = dt.date.fromisoformat(day)
    return (date - dt.timedelta(days=date.weekday())).isoformat()
