"""Rows as the answer shows them. Pure."""

from __future__ import annotations

from claudemem_daemon.private import list_without_private, without_private
from claudemem_daemon.selection.model import Observation, Summary
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.rows import Row, concept_list, text, text_list, whole_number


def observation(row: Row, store: StoreRef, key: str) -> Observation:
    """An observation; what releases before narratives called `text` is its narrative."""
    (kind, title, subtitle, narrative, older, facts, concepts, read, modified, created, work) = (
        row.cells
    )
    return Observation(
        id=row.id,
        project=row.project,
        store=store.path,
        type=text(kind),
        title=without_private(text(title)),
        subtitle=without_private(text(subtitle)),
        narrative=without_private(text(narrative) or text(older)),
        facts=list_without_private(text_list(facts)),
        concepts=list_without_private(concept_list(concepts)),
        files_read=list_without_private(text_list(read)),
        files_modified=list_without_private(text_list(modified)),
        created_at=text(created),
        created_at_epoch=row.epoch,
        discovery_tokens=whole_number(work),
        memory_session_id=row.session,
        platform_source=row.platform,
        key=key,
        letter=store.letter,
        name=row.name,
    )


def summary(row: Row, store: StoreRef) -> Summary:
    request, investigated, learned, completed, next_steps, notes, created = row.cells[:7]
    return Summary(
        id=row.id,
        project=row.project,
        store=store.path,
        request=without_private(text(request)),
        investigated=without_private(text(investigated)),
        learned=without_private(text(learned)),
        completed=without_private(text(completed)),
        next_steps=without_private(text(next_steps)),
        notes=without_private(text(notes)),
        created_at=text(created),
        created_at_epoch=row.epoch,
        memory_session_id=row.session,
        platform_source=row.platform,
        letter=store.letter,
        name=row.name,
    )
