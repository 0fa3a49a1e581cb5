"""The text for one selection: header, timeline, summary, prior message, footer. Pure.

Rendering adds no row and drops none; what the size limit takes, `fit` decides and says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from claudemem_daemon.context import empty_reasons, sections
from claudemem_daemon.context.entries import timeline
from claudemem_daemon.context.entry import Entry
from claudemem_daemon.context.fit import Context, Draft
from claudemem_daemon.context.request import ContextRequest
from claudemem_daemon.context.sections import NO_SECTION, Section
from claudemem_daemon.selection.model import Summary
from claudemem_daemon.selection.select import out_of_time
from claudemem_daemon.stores.checkout import STORE_NAME


def make_context(request: ContextRequest) -> Context:
    """The context of a selection. The text is empty for an excluded project, for limit 0 without
    sessions, and for news where there are none.

    Rows that are not written in time are left out, and the text says so. The text does not contain
    the present time: equal rows, settings and warnings give an equal text.
    """
    selection, settings = request.selection, request.settings
    if not request.resolved.keys.keys or (settings.limit <= 0 and not selection.summaries):
        return Context("", 0, len(selection.observations), 0)
    if request.news and not selection.observations:
        return Context("", 0, 0, 0)
    draft = _draft(request)
    cut = draft.timeline.late
    warnings = request.lost.warnings()
    if request.news and not (draft.timeline.entries or draft.timeline.rows_beyond):
        return Context("", 0, 0, 0, warnings)
    fitted = draft.fitted()
    if cut:
        warnings = (*warnings, out_of_time(fitted.observations, settings))
    return fitted._replace(warnings=warnings, complete=not cut)


def _draft(request: ContextRequest) -> Draft:
    selection, settings = request.selection, request.settings
    summary, apart = _last_section(request)
    sessions = () if request.news else selection.summaries[: settings.session_count]
    shown = timeline([session for session in sessions if session is not apart], request)
    message = request.prior_message
    prior = request.lost.attempt("", lambda: sections.prior_message(message, request))
    labelled = apart is not None and bool(summary.whole and request.origin(apart.project))
    title = sections.title(_title(request), request)
    warnings = () if request.news else (*request.lost.warnings(), *request.warnings)
    store = f"{settings.data_dir.rstrip('/')}/{STORE_NAME}"
    return Draft(
        request,
        head=(
            title,
            *_header(shown.entries, request, labelled=labelled),
            *sections.warning_lines(warnings, request),
        ),
        least_head=(title, *sections.short_warning(warnings, request)),
        timeline=shown,
        sections=(summary, *prior),
        shared=any(
            entry.store is not None and not entry.store.letter and entry.store.path == store
            for entry in shown.entries
        ),
    )


def _last_section(request: ContextRequest) -> tuple[Section, Summary | None]:
    """The section of the newest session, if no observation is newer; and that session, if it needs no
    line in the timeline because the section shows it."""
    rows, summaries = request.selection.observations, request.selection.summaries
    if request.news or not request.settings.show_last_summary or not summaries:
        return NO_SECTION, None
    last = summaries[0]
    newest = rows[0].created_at_epoch if rows else None
    if newest is not None and (last.created_at_epoch or 0) < newest:
        return NO_SECTION, None
    for section in request.lost.attempt(last.store, lambda: sections.last_session(last, request)):
        return section, last if section.whole else None
    return NO_SECTION, last


def _title(request: ContextRequest) -> str:
    if request.news:
        return "news from other sessions and worktrees"
    if request.selection.observations:
        return "recent context"
    return f"recent context: {empty_reasons.state(request)}"


def _header(entries: Sequence[Entry], request: ContextRequest, *, labelled: bool) -> Iterator[str]:
    """`labelled`: the last session's section says where it was written."""
    selection = request.selection
    if selection.observations or selection.summaries:
        yield request.formatter.aside(sections.HISTORY)
    yield from sections.legend(entries, request, labelled=labelled)
    if not selection.observations:
        yield from empty_reasons.reasons(request)
