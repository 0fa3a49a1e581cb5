"""The text for one selection: header, timeline, summary, prior message, footer. Pure.

Rendering adds no row and drops none; what the size limit takes, `fit` decides and says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo

from claudemem_daemon.context import empty_reasons, sections
from claudemem_daemon.context.budget import Budget, Unit
from claudemem_daemon.context.clock import Clock
from claudemem_daemon.context.draft import Draft, Section, no_section
from claudemem_daemon.context.entries import RenderedEntry, Timeline, timeline
from claudemem_daemon.context.fit import Context, fit
from claudemem_daemon.context.formatter import Formatter, HumanFormatter
from claudemem_daemon.context.options import RenderOptions, origin_labels
from claudemem_daemon.derived import Derived
from claudemem_daemon.resolved import ResolvedQuestion
from claudemem_daemon.selection.model import Selection, Summary
from claudemem_daemon.selection.select import out_of_time
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.checkout import STORE_NAME
from claudemem_daemon.stores.rows import Row
from claudemem_daemon.warning import AnswerWarning


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """All that a context is made of. `zone` is None where it is left to the C library; `cap` is the
    assistant's own limit in `unit`, besides the setting."""

    resolved: ResolvedQuestion
    selection: Selection
    zone: tzinfo | None
    prior_message: str = ""
    cap: int | None = None
    unit: Unit = "utf16"

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def warnings(self) -> tuple[AnswerWarning, ...]:
        return (*self.resolved.warnings, *self.selection.warnings)

    @property
    def news(self) -> bool:
        return self.resolved.question.since is not None

    @property
    def budget(self) -> Budget:
        """A full question knows only the cap."""
        limit = None if self.resolved.question.full else self.settings.context_chars
        if self.cap is not None:
            limit = self.cap if limit is None else min(limit, self.cap)
        return Budget(limit, self.unit)


def make_context(
    request: ContextRequest,
    late: Callable[[], bool] = lambda: False,
    rendered: Derived[Row, RenderedEntry] | None = None,
) -> Context:
    """The context of a selection; empty text where nothing is wanted (an excluded project; limit 0,
    and no session to tell of) or a delta (`question.since`) has nothing new.

    Rows that are not written when it gets `late` are left out, and that is said; entries that were
    `rendered` before are taken again. The text has no "now" in it: equal rows, settings and
    warnings give an equal text.
    """
    selection, settings = request.selection, request.settings
    if not request.resolved.keys.keys or (settings.limit <= 0 and not selection.summaries):
        return Context("", 0, len(selection.observations), 0)
    if request.news and not selection.observations:
        return Context("", 0, 0, 0)
    options = _options(request)
    draft = _draft(request, options, late, Derived() if rendered is None else rendered)
    cut = draft.timeline.late
    warnings = options.lost.warnings()
    if request.news and not (draft.timeline.entries or draft.timeline.rows_beyond):
        return Context("", 0, 0, 0, warnings)
    fitted = fit(draft, options.budget)
    if cut:
        warnings = (*warnings, out_of_time(fitted.observations, settings))
    return fitted._replace(warnings=warnings, complete=not cut)


def _draft(
    request: ContextRequest,
    options: RenderOptions,
    late: Callable[[], bool],
    rendered: Derived[Row, RenderedEntry],
) -> Draft:
    selection, settings = request.selection, request.settings
    summary, apart = _last_section(request, options)
    sessions = () if request.news else selection.summaries[: settings.session_count]
    made = timeline(
        selection.observations,
        [session for session in sessions if session is not apart],
        options,
        late,
        rendered,
    )
    title, lean = _titles(request, options)
    store = f"{settings.data_dir.rstrip('/')}/{STORE_NAME}"
    shared = any(
        entry.store is not None and not entry.store.letter and entry.store.path == store
        for entry in made.entries
    )

    def footer(rows: int, read: int, work: int) -> tuple[str, ...]:
        return () if request.news else sections.footer(rows, read, work, options, shared=shared)

    ours = request.cap is None or request.cap >= settings.context_chars
    message = request.prior_message
    prior = options.lost.attempt("", lambda: sections.prior_message(message, options))
    labelled = apart is not None and bool(summary(0) and options.origin(apart.project))
    warnings = () if request.news else (*options.lost.warnings(), *request.warnings)
    return Draft(
        formatter=options.formatter,
        head=(
            title,
            *_header(request, options, made, labelled),
            *sections.warning_lines(warnings, options),
        ),
        lean_head=(lean, *sections.short_warning(warnings, options)),
        timeline=made,
        summary=summary,
        prior=next(iter(prior), no_section),
        footer=footer,
        advice=sections.advice(options, ours=ours),
    )


def _last_section(
    request: ContextRequest, options: RenderOptions
) -> tuple[Section, Summary | None]:
    """The section of the newest session, if nothing was recorded after it: an older one is no last
    word. And that session where it needs no line of its own: without a word in the section it is a
    line like others."""
    rows, summaries = request.selection.observations, request.selection.summaries
    if request.news or not request.settings.show_last_summary or not summaries:
        return no_section, None
    last = summaries[0]
    newest = rows[0].created_at_epoch if rows else None
    if newest is not None and (last.created_at_epoch or 0) < newest:
        return no_section, None
    for section in options.lost.attempt(last.store, lambda: sections.last_session(last, options)):
        return section, None if section is no_section else last
    return no_section, last


def _titles(request: ContextRequest, options: RenderOptions) -> tuple[str, str]:
    """The title, and the one that has no header below it."""
    if request.news:
        words = "news from other sessions and worktrees"
    elif request.selection.observations:
        words = "recent context"
    else:
        state = empty_reasons.state(request.selection, request.warnings)
        title = sections.title(request.resolved.keys, options, f"recent context: {state}")
        return title, title
    lean = f"{words}: {sections.RECORDED}"
    return (
        sections.title(request.resolved.keys, options, words),
        sections.title(request.resolved.keys, options, lean),
    )


def _header(
    request: ContextRequest, options: RenderOptions, made: Timeline, labelled: bool
) -> Iterator[str]:
    """`labelled`: the last session's section says where it was written."""
    selection = request.selection
    if selection.observations or selection.summaries:
        yield options.formatter.aside(sections.HISTORY)
    zone = _zone_name(selection, options)
    yield from sections.legend(made.entries, zone, options, labelled=labelled)
    if not selection.observations:
        yield from empty_reasons.reasons(selection, request.warnings, options)


def _options(request: ContextRequest) -> RenderOptions:
    resolved, settings = request.resolved, request.settings
    return RenderOptions(
        formatter=HumanFormatter() if resolved.question.human else Formatter(),
        clock=Clock(request.zone),
        origins=origin_labels(resolved.question, resolved.keys, request.selection),
        settings=settings,
        types={item.id.lower(): item for item in settings.mode.types},
        platform=resolved.question.platform_source,
        budget=request.budget,
    )


def _zone_name(selection: Selection, options: RenderOptions) -> str:
    """Named for the newest time that is shown: the offset then is the one of most rows."""
    epochs = [
        *(row.created_at_epoch for row in selection.observations[:1]),
        *(session.created_at_epoch for session in selection.summaries[:1]),
    ]
    return next((name for epoch in epochs if (name := options.clock.name(epoch))), "")
