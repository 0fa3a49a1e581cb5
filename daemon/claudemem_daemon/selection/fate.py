"""What became of one row: the first filter that drops it, by the accounts that count all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from claudemem_daemon.errors import StoreError
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection import decode
from claudemem_daemon.selection.accounting import Accounts, Disposition, reason_of
from claudemem_daemon.selection.lookup import Ref
from claudemem_daemon.selection.merge import Chosen
from claudemem_daemon.selection.model import Observation, Selection
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.selection.sources import Source, Sources
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.model import StoreRef
from claudemem_daemon.stores.plans import candidate
from claudemem_daemon.stores.rows import Row, content_key
from claudemem_daemon.stores.sql import Table, Wanted


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one row in one store; `detail` is one sentence. The row's own values are there
    where it may be told."""

    id: int
    store: str | None
    disposition: Disposition
    detail: str
    ref: str
    project: str | None = None
    title: str | None = None
    type: str | None = None
    concepts: tuple[str, ...] = ()
    created_at_epoch: int | None = None
    rank: int | None = None
    """Which of the rows that pass all filters it is, the newest being 1."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Says of single rows where they end, by the same accounts that count them."""

    sources: Sources
    selection: Selection
    accounts: Accounts

    @property
    def keys(self) -> ProjectKeys:
        return self.sources.resolved.keys

    @property
    def settings(self) -> Settings:
        return self.sources.resolved.settings

    def fates(self, ref: Ref) -> Iterator[Fate]:
        """A plain number is looked for in every store, one with a letter in its own."""
        found = False
        for source in self.sources.opened:
            if ref.letter not in ("", source.ref.letter):
                continue
            try:
                fate = self._session(source, ref) if ref.of_session else self._row(source, ref)
            except StoreError as error:
                self.sources.failures[source.ref.path] = error
                continue
            if fate is not None:
                found = True
                yield fate
        for path, failure in self.sources.failures.items():
            found = True
            yield Fate(ref.number, path, "store_unreadable", failure.message, ref.text)
        if not found:
            what = "session summary" if ref.of_session else "observation"
            detail = f"no {what} {ref.number} in these stores"
            if ref.letter and ref.letter not in {
                source.ref.letter for source in self.sources.opened
            }:
                detail = f"no store that was read has the letter {ref.letter}"
            yield Fate(ref.number, None, "not_found", detail, ref.text)

    def _row(self, source: Source, ref: Ref) -> Fate | None:
        row = source.reader.wide("observations", [candidate(ref.number, None, "")]).get(ref.number)
        if row is None:
            return None
        store = source.ref
        name = f"{store.letter}{row.id}"
        if row.project in self.keys.excluded:
            detail = "it is of an excluded checkout (CLAUDE_MEM_EXCLUDED_PROJECTS)"
            return Fate(row.id, store.path, "excluded", detail, name)
        shown = decode.observation(row, store, row.project)
        disposition, detail = self._of(source, row, shown)
        told = _epoch(source, row)
        return Fate(
            row.id, store.path, disposition, detail, name, row.project, shown.title, shown.type,
            shown.concepts, told, self.accounts.rank(store.path, row.id),
        )  # fmt: skip

    def _of(self, source: Source, row: Row, shown: Observation) -> tuple[Disposition, str]:
        admitted, want = source.admitted, self.sources.want
        if row.project not in admitted.projects and row.merged not in admitted.merged:
            why = admitted.left_out.get(row.project) or self._why_no_key(row.project)
            return "other_project", f"its project is {row.project!r}: {why}"
        if self.accounts.passed.get((source.ref.path, row.id)) == "other_repository":
            return self._among_all(source, row)
        reason = next(
            (
                reason_of(group, self.keys)
                for group in source.reader.groups(want.of(source), [row.id])
            ),
            None,
        )
        if reason == "type_filtered":
            return reason, f"its type {shown.type!r} is not among {', '.join(want.types or ())}"
        if reason == "malformed_concepts":
            return reason, "its concepts are no JSON list, so it has none"
        if reason == "concept_filtered":
            return reason, f"none of its concepts is among {', '.join(want.concepts or ())}"
        if reason == "platform_filtered":
            return reason, f"it was written by {shown.platform_source}"
        return self._among_all(source, row)

    def _why_no_key(self, project: str) -> str:
        head = self.keys.name.partition("/")[0]
        if self.settings.scope == "self" and head and project.partition("/")[0] == head:
            return "scope self leaves out the other worktrees, scope all does not"
        return "no key of this repository names it"

    def _among_all(self, source: Source, row: Row) -> tuple[Disposition, str]:
        """Of a row that passes every filter on single rows."""
        ended = self.accounts.passed.get((source.ref.path, row.id))
        if ended == "included":
            return ended, "it is in the answer"
        if ended == "other_repository":
            other = Ownership(self.keys).other_repository(row)
            return ended, f"its files lie in another repository, {other}"
        if ended == "duplicate_of":
            twin = next((one for one in self.selection.observations if _same(one, row)), None)
            which = f"observation {twin.id} of {twin.store}" if twin is not None else "a newer row"
            return ended, f"the same as {which}"
        if ended == "over_size":
            return ended, f"the context of {self.settings.context_chars:,} characters is full"
        if ended is None and len(self.accounts.newest) < self.settings.limit:
            return "not_read", "time was over before it could be compared"
        return "over_limit", f"{self.settings.limit} newer rows fill the limit"

    def _session(self, source: Source, ref: Ref) -> Fate | None:
        table: Table = "session_summaries"
        if not source.reader.has(table):
            return None
        row = source.reader.wide(table, [candidate(ref.number, None, "")]).get(ref.number)
        if row is None:
            return None
        shown = decode.summary(row, source.ref)
        place = [(row.store, row.id) for row in self.selection.summaries]
        known = source.summaries
        disposition: Disposition
        if row.project in self.keys.excluded:
            return Fate(
                row.id, source.ref.path, "excluded", "it is of an excluded checkout", shown.ref
            )
        if row.project not in known.projects and row.merged not in known.merged:
            disposition, detail = "other_project", f"its project is {row.project!r}"
        elif not self.sources.keeps(Chosen(source, row), Ownership(self.keys)):
            disposition, detail = "other_repository", "its session belongs to another repository"
        elif (source.ref.path, row.id) in place[: max(1, self.settings.session_count)]:
            disposition, detail = "included", "it is in the context"
        else:
            count = self.settings.session_count
            disposition, detail = "over_limit", f"only the newest {count} sessions are shown"
        return Fate(
            row.id, source.ref.path, disposition, detail, shown.ref, row.project, shown.request,
        )  # fmt: skip


def _epoch(source: Source, row: Row) -> int | None:
    found = source.reader.among("observations", Wanted((row.project,)), [row.id])
    return found[0].epoch if found else None


def _same(one: Observation, row: Row) -> bool:
    if content_key(row) is None:
        return False
    mine = decode.observation(row, StoreRef(one.store, ""), one.key)
    return (one.title, one.subtitle, one.narrative, one.facts, one.created_at) == (
        mine.title,
        mine.subtitle,
        mine.narrative,
        mine.facts,
        mine.created_at,
    )
