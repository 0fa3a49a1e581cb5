"""The picture of an explanation: where rows end, as bars that add up, and when they were written."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from claudemem_daemon.cli.options import plain
from claudemem_daemon.diagnostics.age import counted
from claudemem_daemon.diagnostics.causes import ENDS

MAX_PROJECTS: Final = 8
MAX_BUCKETS: Final = 20
"""Lines of the timeline; more days become weeks, then months, then years."""
MAX_BAR: Final = 80
SHOWN: Final = "█"
LEFT: Final = "░"


def share(counts: list[int], width: int) -> list[int]:
    """Cells of a bar for each count: they add up to `width`, and what is not 0 has one at least
    where there is room for that."""
    total = sum(counts)
    if not total:
        return [0 for _ in counts]
    least = [1 if count else 0 for count in counts]
    if sum(least) > width:
        least = [0 for _ in counts]
    free = width - sum(least)
    ends = [free * sum(counts[: number + 1]) // total for number in range(len(counts))]
    return [size + end - start for size, start, end in zip(least, [0, *ends], ends, strict=False)]


def funnels(shape: dict[str, Any], width: int) -> Group:
    """For each project its rows, what each filter takes of them, and what is shown; at the end those
    of which all rows are shown."""
    projects: dict[str, Counter[str]] = {}
    for count in shape["counts"]:
        projects.setdefault(plain(count["project"], 200), Counter()).update(count["reasons"])
    ordered = sorted(projects.items(), key=lambda pair: -pair[1].total())
    largest, others = ordered[:MAX_PROJECTS], ordered[MAX_PROJECTS:]
    if others:
        rest: Counter[str] = Counter()
        for _, reasons in others:
            rest.update(reasons)
        largest.append((counted(len(others), "more project"), rest))
    whole = [pair for pair in largest if pair[1].total() == pair[1]["included"]]
    lines = [line for pair in largest if pair not in whole for line in _funnel(*pair, width)]
    lines += [
        Text(f"{name}: {counted(reasons.total(), 'row')}, {'all ' * (reasons.total() > 1)}shown")
        for name, reasons in whole
    ]
    if whole:
        lines.insert(len(lines) - len(whole), Text())
    return Group(*lines)


def _funnel(name: str, reasons: Counter[str], width: int) -> list[Text]:
    steps = [("shown", reasons["included"])]
    steps += [(label, reasons[reason]) for reason, (_, label) in reversed(ENDS.items())]
    steps = [step for step in steps if step[1]]
    total = reasons.total()
    label, digits = max(len(words) for words, _ in steps), len(f"{total:,}")
    lines = [Text(f"\n{name}: {counted(total, 'row')}", style="bold")]
    at = 0
    cells = share([count for _, count in steps], max(8, min(MAX_BAR, width - label - digits - 6)))
    for (words, count), size in zip(steps, cells, strict=True):
        sign, style = (SHOWN, "green") if words == "shown" else (LEFT, "yellow")
        head = f"  {words:<{label}}  {count:>{digits},}  "
        lines.append(Text.assemble(head, (" " * at + sign * size, style)))
        at += size
    return lines


def timeline(shape: dict[str, Any], width: int) -> Group:
    """The rows that pass all filters by day, newest first, with the line where the limit cuts."""
    days = [day for day in shape["days"] if day["shown"] or day["beyond"]]
    if not days:
        return Group()
    unit = next(
        unit
        for unit in ("day", "week", "month", "year")
        if unit == "year" or len({_bucket(day["day"], unit) for day in days}) <= MAX_BUCKETS
    )
    buckets: dict[str, Counter[str]] = {}
    projects: dict[str, Counter[str]] = {}
    for day in sorted(days, key=lambda day: str(day["day"]), reverse=True):
        name = _bucket(day["day"], unit)
        counts = {"shown": day["shown"], "beyond": day["beyond"]}
        buckets.setdefault(name, Counter()).update(counts)
        projects.setdefault(name, Counter())[day["project"]] += sum(counts.values())
    lines = [Text(f"\nby {unit}: {SHOWN} shown, {LEFT} beyond the limit or the size", style="bold")]
    largest = max(counts.total() for counts in buckets.values())
    last_shown = max((n for n, counts in enumerate(buckets.values()) if counts["shown"]), default=0)
    cut = next((n for n, c in enumerate(buckets.values()) if c["beyond"] and n >= last_shown), None)
    for number, (name, counts) in enumerate(buckets.items()):
        lines.append(_day(name, counts, projects[name], largest, width))
        if number == cut:
            # Rows that are left out for the size are newer than those beyond the limit.
            size = any(count["reasons"].get("over_size") for count in shape["counts"])
            cause = "size" if size else f"limit of {shape['filters']['limit']:,}"
            words = f" the {cause} cuts here: older rows are left out "
            words = words if len(words) < width else f" {cause} "
            lines.append(Text(words.center(min(width, 100), "-"), style="red"))
        if number > 2 * MAX_BUCKETS:
            lines.append(Text(f"{len(buckets) - number - 1} older {unit}s"))
            break
    return Group(*lines)


def _day(name: str, counts: Counter[str], projects: Counter[str], largest: int, width: int) -> Text:
    bar = max(8, min(MAX_BAR, width // 2 - 14))
    shown, beyond = share(
        [counts["shown"], counts["beyond"]], max(1, bar * counts.total() // largest)
    )
    line = Text.assemble(
        f"{name or 'undated':<10}  ", (SHOWN * shown, "green"), (LEFT * beyond, "yellow"),
        " " * (bar - shown - beyond),
    )  # fmt: skip
    names = ", ".join(f"{plain(key, 60)} {rows:,}" for key, rows in projects.most_common())
    left = width - len(line.plain) - 2
    return line.append("  " + (names if len(names) <= left else names[: max(1, left - 1)] + "…"))


def _bucket(day: str, unit: str) -> str:
    if unit == "week" and day:
        date = dt.date.fromisoformat(day)
        return (date - dt.timedelta(days=date.weekday())).isoformat()
    return day[: {"month": 7, "year": 4}.get(unit, 10)]
