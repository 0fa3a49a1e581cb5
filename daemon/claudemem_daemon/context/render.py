"""The text for one selection: header, timeline, summary, prior message, footer.

Rendering adds no row and drops none; what the size limit takes, `fit` decides and says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Final

from claudemem_daemon.context import nothing, sections
from claudemem_daemon.context.agent import AgentStyle
from claudemem_daemon.context.budget import Unit
from claudemem_daemon.context.clock import SYSTEM_ZONE, Clock, local_zone
from claudemem_daemon.context.entries import Look, Timeline, Written, timeline
from claudemem_daemon.context.fit import fit
from claudemem_daemon.context.human import HumanStyle
from claudemem_daemon.context.model import Context
from claudemem_daemon.context.page import Page, Section
from claudemem_daemon.context.places import places
from claudemem_daemon.context.transcript import PriorMessage, prior_message
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.derived import Derived
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection.model import Observation, Selection, Summary
from claudemem_daemon.selection.select import out_of_time
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.warning import AnswerWarning

JOINING: Final = 15e-6
JOINING_TEXT: Final = 8e-9
"""Seconds, about, that each row and each character of it takes from lines to the finished text."""


def make_context(
    question: Question,
    settings: Settings,
    keys: ProjectKeys,
    selection: Selection,
    *,
    warnings: tuple[AnswerWarning, ...],
    zone: tzinfo | None = None,
    cap: int | None = None,
    unit: Unit = "utf16",
    deadline: Deadline | None = None,
    written: Derived[Observation, Written] | None = None,
) -> Context:
    """The context of a selection; empty text where nothing is wanted (an excluded project; limit 0,
    and no session to tell of) or a delta (`question.since`) has nothing new.

    At most `settings.context_chars`, and at most `cap` where the assistant has a limit of its own,
    both counted in `unit`; a full question knows only the cap. `zone` is the local one when None.
    Rows that cannot be written before the `deadline` are left out, and that is said.
    The text has no "now" in it: the same rows give the same text until one of the evidence changes.
    """
    if not keys.keys or (settings.limit <= 0 and not selection.summaries):
        return Context("", 0, len(selection.observations), 0, ())
    if question.since is not None and not selection.observations:
        return Context("", 0, 0, 0, ())
    limit = None if question.full else settings.context_chars
    if cap is not None:
        limit = cap if limit is None else min(limit, cap)
    prior = _prior(question, settings, selection)
    look = _look(question, settings, keys, selection, zone, limit)
    asked = _Asked(question, keys, selection, warnings, limit, cap, unit, prior.text, deadline)
    page = _page(asked, look, written)
    fitted = fit(page, limit, unit)
    return Context(
        text=fitted.text,
        observations=fitted.observations,
        left_out=fitted.left_out,
        trimmed=fitted.trimmed,
        warnings=(out_of_time(fitted.observations, settings),) if page.timeline.late else (),
        dependencies=(*prior.dependencies, *_zone_evidence(zone)),
        complete=not page.timeline.late,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is laid out."""

    question: Question
    keys: ProjectKeys
    selection: Selection
    warnings: tuple[AnswerWarning, ...]
    limit: int | None
    cap: int | None
    unit: Unit
    prior: str
    deadline: Deadline | None

    def writing(self) -> Callable[[], bool]:
        """Tells when no further row may be written, for those that are must still be joined."""
        if self.deadline is None:
            return lambda: False
        left = self.deadline.remaining()
        rows = self.selection.observations
        joining = JOINING * len(rows) + JOINING_TEXT * sum([len(one.narrative) for one in rows])
        until = Deadline(self.deadline.at - min(joining, left / 3))
        return lambda: until.passed

    @property
    def news(self) -> bool:
        return self.question.since is not None


def _page(asked: _Asked, look: Look, written: Derived[Observation, Written] | None) -> Page:
    selection, settings = asked.selection, look.settings
    last = _last_summary(asked, look)
    summary = sections.last_session(last, look) if last is not None else Section()
    # As a section it needs no line of its own; without a word in it, it is a line like others.
    apart = last if summary.versions else None
    shown = () if asked.news else selection.summaries[: settings.session_count]
    made = timeline(
        selection.observations,
        [one for one in shown if one is not apart],
        look,
        settings.full_count,
        asked.limit,
        asked.unit,
        asked.writing(),
        written,
    )
    title, lean = _titles(asked, look)

    def footer(rows: int, read: int, work: int) -> tuple[str, ...]:
        return () if asked.news else sections.footer(rows, read, work, look)

    return Page(
        style=look.style,
        head=(title, *_header(asked, look, made, apart)),
        lean_head=(lean,),
        timeline=made,
        summary=summary,
        prior=sections.prior_message(asked.prior, look) if asked.prior else Section(),
        footer=footer,
        advice=sections.advice(look, ours=asked.cap is None or asked.cap >= settings.context_chars),
    )


def _titles(asked: _Asked, look: Look) -> tuple[str, str]:
    """The title, and the one that has to stand alone."""
    if asked.news:
        words = "news from other sessions and worktrees"
    elif asked.selection.observations:
        words = "recent context"
    else:
        words = f"recent context: {nothing.state(asked.selection, asked.warnings)}"
        title = sections.title(asked.keys, look, words)
        return title, title
    lean = f"{words}: {sections.RECORDED}"
    return sections.title(asked.keys, look, words), sections.title(asked.keys, look, lean)


def _header(asked: _Asked, look: Look, made: Timeline, apart: Summary | None) -> Iterator[str]:
    """`apart` is the summary that has a section of its own."""
    selection = asked.selection
    if selection.observations or selection.summaries:
        yield look.style.aside(sections.HISTORY)
    placed = apart is not None and bool(look.place(apart.project))
    yield from sections.legend(made.entries, _zone_name(selection, look), look, placed=placed)
    if not selection.observations:
        yield from nothing.reasons(selection, asked.warnings, look)
    if not asked.news:
        yield from sections.warning_lines(asked.warnings, look)


def _look(
    question: Question,
    settings: Settings,
    keys: ProjectKeys,
    selection: Selection,
    zone: tzinfo | None,
    limit: int | None,
) -> Look:
    return Look(
        style=HumanStyle() if question.human else AgentStyle(),
        clock=Clock(zone if zone is not None else local_zone(os.environ)),
        places=places(question, keys, selection),
        settings=settings,
        types={item.id.lower(): item for item in settings.mode.types},
        stores=_letters(selection),
        most=limit,
    )


def _letters(selection: Selection) -> Mapping[str, str]:
    """Of stores whose ids carry one, where their rows are shown."""
    return {one.store: one.letter for one in selection.observations if one.letter}


def _last_summary(asked: _Asked, look: Look) -> Summary | None:
    """The newest session's, if nothing was recorded after it: an older one is no last word."""
    selection = asked.selection
    if asked.news or not look.settings.show_last_summary or not selection.summaries:
        return None
    last = selection.summaries[0]
    if not any((last.investigated, last.learned, last.completed, last.next_steps)):
        return None
    newest = next((one.created_at_epoch for one in selection.observations), None)
    if newest is not None and (last.created_at_epoch or 0) < newest:
        return None
    return last


def _zone_name(selection: Selection, look: Look) -> str:
    """Named for the newest time that is shown: the offset then is the one of most rows."""
    epochs = [
        *(one.created_at_epoch for one in selection.observations[:1]),
        *(one.created_at_epoch for one in selection.summaries[:1]),
    ]
    return next((name for epoch in epochs if (name := look.clock.name(epoch))), "")


def _zone_evidence(zone: tzinfo | None) -> tuple[FileState, ...]:
    if zone is not None or "TZ" in os.environ:
        return ()
    # Not racy: a zone file is put in place whole, by a link or a rename.
    return (replace(file_state(SYSTEM_ZONE), racy=False),)


def _prior(question: Question, settings: Settings, selection: Selection) -> PriorMessage:
    if not settings.show_last_message or question.since is not None:
        return PriorMessage("", ())
    return prior_message(question, selection.observations, os.environ)
