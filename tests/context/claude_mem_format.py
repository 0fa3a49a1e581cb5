"""What claude-mem 13.25 writes for a model, line by line, as the measure of what ours may cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.settings.model import ModeItem


def claude_mem_text(
    project: str,
    rows: Sequence[Observation],
    sessions: Sequence[Summary],
    types: Sequence[ModeItem],
    *,
    full_count: int,
) -> str:
    """`rows` and `sessions` newest first; figures and last summary as its defaults have them."""
    read = sum(-(-len(row.title + row.subtitle + row.narrative) // 4) for row in rows)
    work = sum(row.discovery_tokens for row in rows)
    saved = f" | {100 * (work - read) // work}% savings" if work else ""
    lines = [
        f"# [{project}] recent context, 2026-05-12 9:41am UTC",
        "",
        "Legend: 🎯session " + " ".join(f"{item.emoji}{item.id}" for item in types),
        "Format: ID TIME TYPE TITLE",
        "Fetch details: get_observations([IDs]) | Search: mem-search skill",
        "",
        f"Stats: {len(rows)} obs ({read:,}t read) | {work:,}t work{saved}",
        "",
    ]
    marks = {item.id: item.emoji for item in types}
    full = {row.id for row in rows[:full_count]}
    day = last = ""
    last_session = next(iter(sessions), None)
    entries: list[Observation | Summary] = [*rows, *sessions[1:]]
    for entry in sorted(entries, key=lambda one: one.created_at_epoch or 0):
        moment = datetime.fromtimestamp((entry.created_at_epoch or 0) // 1000, UTC)
        if day != f"{moment:%b} {moment.day}, {moment.year}":
            day, last = f"{moment:%b} {moment.day}, {moment.year}", ""
            lines.append(f"### {day}")
        clock = f"{moment.hour % 12 or 12}:{moment:%M}{'a' if moment.hour < 12 else 'p'}"
        if isinstance(entry, Summary):
            lines.append(f"S{entry.id} {entry.request} ({moment:%b} {moment.day}, {clock}m)")
            continue
        time, last = '"' if clock == last else clock, clock
        mark = marks.get(entry.type, "📝")
        if entry.id in full:
            lines.append(f"**{entry.id}** {time} {mark} **{entry.title or 'Untitled'}**")
            lines += [entry.narrative, ""]
        else:
            lines.append(f"{entry.id} {time} {mark} {entry.title or 'Untitled'}")
    newest = max((row.created_at_epoch or 0 for row in rows), default=0)
    if last_session is not None and (last_session.created_at_epoch or 0) > newest:
        for label, value in (
            ("Investigated", last_session.investigated),
            ("Learned", last_session.learned),
            ("Completed", last_session.completed),
            ("Next Steps", last_session.next_steps),
        ):
            lines += [f"**{label}**: {value}", ""] if value else []
    how = "get_observations([IDs]) or mem-search skill"
    lines += ["", f"Access {round(work / 1000)}k tokens of past work via {how}."]
    return "\n".join(lines).rstrip()
