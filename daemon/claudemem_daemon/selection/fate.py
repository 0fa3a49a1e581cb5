"""What became of one row: the first filter that drops it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from claudemem_daemon.selection.accounting import Accounts, Disposition, reason_of
from claudemem_daemon.selection.by_id import Ref, numbers_of
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.model import Observation, Selection, Summary
from claudemem_daemon.selection.source import Source
from claudemem_daemon.selection.sources import Sources
from claudemem_daemon.stores.failures import as_store_error
from claudemem_daemon.stores.plans import candidate
from claudemem_daemon.stores.rows import Row, content_key
from claudemem_daemon.stores.sql import Wanted


class Fate(NamedTuple):
    """What became of one row in one store; `detail` is one sentence. The row's own values are left
    out for a row of an excluded checkout."""

    id: int
    store: str | None
    disposition: Disposition
    detail: str
    ref: str
    project: str | None = None
    title: str | None = None
    type: str | None = None
    concepts: tuple[str, ...] = ()
    created_at: str = ""
    created_at_epoch: int | None = None
    rank: int | None = None
    """Its place among the rows that pass all filters, 1 for the newest."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells where single rows end, by the accounts that count all rows."""

    sources: Sources
    selection: Selection
    accounts: Accounts

    def fates(self, ref: Ref) -> list[Fate]:
        """A plain number is looked up in every store, one with a letter in its own."""
        opened, failures = self.sources.opened, self.sources.failures
        found: list[Fate] = []
        for source in opened:
            if ref.letter in ("", source.ref.letter):
                path = source.ref.path
                try:
                    found += self._in_store(source, ref)
                except Exception as error:  # noqa: BLE001 - it costs this row alone
                    failures[path] = as_store_error(error, path)
        found += [
            Fate(ref.number, path, "store_unreadable", failure.message, ref.text)
            for path, failure in failures.items()
        ]
        if found:
            return found
        what = "session summary" if ref.of_session else "observation"
        detail = f"no {what} {ref.name or ref.number} in these stores"
        if ref.letter and ref.letter not in {source.ref.letter for source in opened}:
            detail = f"no store that was read has the letter {ref.letter}"
        return [Fate(ref.number, None, "not_found", detail, ref.text)]

    def _in_store(self, source: Source, ref: Ref) -> Iterator[Fate]:
        if not source.reader.has(ref.table):
            return
        store, name = source.ref, str(replace(ref, letter=source.ref.letter))
        candidates = [candidate(number, None, "") for number in numbers_of([ref], source)]
        for row in source.reader.rows(ref.table, candidates):
            if row.project in self.sources.resolved.keys.excluded:
                detail = "it is of an excluded checkout (CLAUDE_MEM_EXCLUDED_PROJECTS)"
                yield Fate(row.id, store.path, "excluded", detail, name)
            elif ref.of_session:
                disposition, detail = self._of_session(source, row)
                title = Summary(row, store).request
                yield Fate(row.id, store.path, disposition, detail, name, row.project, title)
            else:
                shown = Observation(row, store)
                disposition, detail = self._of_row(source, row, shown)
                among = source.reader.among("observations", Wanted((row.project,)), [row.id])
                epoch = among[0].epoch if among else None
                yield Fate(
                    row.id, store.path, disposition, detail, name, row.project, shown.title,
                    shown.type, shown.concepts, row.created_at, epoch, self.accounts.rank(store.path, row.id),
                )  # fmt: skip

    def _of_row(self, source: Source, row: Row, shown: Observation) -> tuple[Disposition, str]:
        admitted, want = source.admitted, self.sources.filters
        if row.project not in admitted.projects and row.merged not in admitted.merged:
            why = admitted.left_out.get(row.project) or self._why_no_key(row.project)
            return "other_project", f"its project is {row.project!r}: {why}"
        if self.accounts.passed.get((source.ref.path, row.id)) == "other_repository":
            return self._among_all(source, row)
        details: dict[Disposition | None, str] = {
            "type_filtered": f"its type {shown.type!r} is not among {', '.join(want.types or ())}",
            "malformed_concepts": "its concepts are not a JSON list, so it has none",
            "concept_filtered": f"none of its concepts is among {', '.join(want.concepts or ())}",
            "platform_filtered": f"it was written by {shown.platform_source}",
        }
        for group in source.reader.groups(self.sources.wanted(source), [row.id]):
            reason = reason_of(group, self.sources.resolved.keys)
            if reason is not None and reason in details:
                return reason, details[reason]
        return self._among_all(source, row)

    def _why_no_key(self, project: str) -> str:
        resolved = self.sources.resolved
        head = resolved.keys.name.partition("/")[0]
        if resolved.settings.scope == "self" and head and project.partition("/")[0] == head:
            return "scope self leaves out the other worktrees, scope all does not"
        return "no key of this repository names it"

    def _among_all(self, source: Source, row: Row) -> tuple[Disposition, str]:
        """For a row that passes all filters on single rows."""
        settings = self.sources.resolved.settings
        ended = self.accounts.passed.get((source.ref.path, row.id))
        if ended == "included":
            return ended, "it is in the answer"
        if ended == "other_repository":
            other = self.sources.ours.other_repository(row)
            return ended, f"its files lie in another repository, {other}"
        if ended == "duplicate_of":
            twin = next((shown for shown in self.selection.observations if _same(shown, row)), None)
            which = f"observation {twin.id} of {twin.store}" if twin is not None else "a newer row"
            return ended, f"the same as {which}"
        if ended == "over_size":
            return ended, f"the context of {settings.context_chars:,} characters is full"
        if ended is None and not self.accounts.full:
            return "not_read", "time was over before it could be compared"
        return "over_limit", f"{settings.limit} newer rows fill the limit"

    def _of_session(self, source: Source, row: Row) -> tuple[Disposition, str]:
        resolved, known = self.sources.resolved, source.summaries
        count = resolved.settings.session_count
        if row.project not in known.projects and row.merged not in known.merged:
            return "other_project", f"its project is {row.project!r}"
        if not self.sources.keeps(Chosen(source, row)):
            return "other_repository", "its session belongs to another repository"
        shown = self.selection.summaries[: max(1, count)]
        if any((session.store, session.id) == (source.ref.path, row.id) for session in shown):
            return "included", "it is in the context"
        return "over_limit", f"only the newest {count} sessions are shown"


def _same(shown: Observation, row: Row) -> bool:
    if content_key(row) is None:
        return False
    return _content(shown) == _content(Observation(row, shown.of))


def _content(shown: Observation) -> tuple[object, ...]:
    return shown.title, shown.subtitle, shown.narrative, shown.facts, shown.created_at
