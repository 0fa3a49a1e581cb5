"""Why these rows and not others: counts at each filter, the SQL and its plan, one row's fate."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.selection import decode
from claudemem_daemon.selection.model import Observation, Selection
from claudemem_daemon.selection.ownership import Ownership
from claudemem_daemon.selection.select import make_want, select
from claudemem_daemon.selection.sources import Source, Sources, Want
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.model import Located, StoreRef
from claudemem_daemon.stores.plans import candidate
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import Row, content_key
from claudemem_daemon.stores.sql import Wanted

DISPOSITIONS: Final = (
    "included",
    "excluded",
    "not_found",
    "store_unreadable",
    "other_project",
    "type_filtered",
    "concept_filtered",
    "malformed_concepts",
    "platform_filtered",
    "other_repository",
    "duplicate_of",
    "over_limit",
)
"""Where a row ends: the first filter, in the order of the selection, that drops it."""


@dataclass(frozen=True, slots=True)
class ProjectCount:
    """Rows of one project in one store, after each filter; `included` is what the answer shows."""

    project: str
    store: str
    key: str
    rule: str
    rows: int
    other_repository: int
    """Rows that are another repository's, whose name is the same; in none of the other numbers."""
    after_types: int
    after_concepts: int
    included: int


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """The query one store was asked, and how SQLite runs it."""

    store: str
    plan: str
    sql: str
    parameters: tuple[str | int | float | None, ...]
    query_plan: tuple[str, ...]
    left_out: dict[str, str]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one observation in one store; `detail` is one sentence."""

    id: int
    store: str | None
    disposition: str
    detail: str
    project: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    counts: tuple[ProjectCount, ...]
    queries: tuple[StoreQuery, ...]
    fates: tuple[Fate, ...]
    selection: Selection

    def as_json(self) -> dict[str, Any]:
        """Without the selection, whose shape is the query's."""
        return {
            "counts": [asdict(one) for one in self.counts],
            "queries": [asdict(one) for one in self.queries],
            "observation": [asdict(one) for one in self.fates],
        }


def explain(
    question: Question,
    settings: Settings,
    keys: ProjectKeys,
    located: Located,
    pool: StorePool,
    deadline: Deadline,
    observation: int | None = None,
) -> Explanation:
    """The same selection, and how it came about. Counting stops at the deadline. For an excluded
    project no store is opened here either."""
    selection = select(question, settings, keys, located, pool, deadline)
    counts: list[ProjectCount] = []
    queries: list[StoreQuery] = []
    fates: list[Fate] = []
    want = make_want(question, settings)
    ours = Ownership(keys)
    shut = _excluded(keys)
    if shut is not None:
        fates = [] if observation is None else [Fate(observation, None, "excluded", shut)]
        return Explanation((), (), tuple(fates), selection)
    with Sources(pool, deadline) as sources:
        sources.open(located, keys, {}, want)
        for source in sources.opened:
            try:
                queries += _queries(source, want, settings.limit)
                counts += _counts(source, want, selection, ours)
                if observation is not None:
                    fates += _fates(source, want, observation, keys, selection)
            except StoreError as error:
                sources.failures[source.ref.path] = error
        if observation is not None:
            fates += [
                Fate(observation, path, "store_unreadable", error.message)
                for path, error in sources.failures.items()
            ]
    if observation is not None and not fates:
        fates.append(
            Fate(observation, None, "not_found", f"no observation {observation} in these stores")
        )
    # Where the answer needed no store, as with a limit of 0, only this look knows them.
    known = {one.path for one in selection.stores}
    more = (one for one in sources.reports(located) if one.path not in known)
    selection = replace(selection, stores=(*selection.stores, *more))
    return Explanation(tuple(counts), tuple(queries), tuple(fates), selection)


def _excluded(keys: ProjectKeys) -> str | None:
    """Why nothing may be read for this question at all."""
    told = (one.message for one in keys.warnings if one.code == "excluded")
    return None if keys.keys else next(told, None)


def _queries(source: Source, want: Want, limit: int) -> list[StoreQuery]:
    wanted = want.of(source)
    return [
        StoreQuery(
            store=source.ref.path,
            plan=query.plan,
            sql=query.text,
            parameters=query.parameters,
            query_plan=query.steps,
            left_out=dict(source.admitted.left_out),
        )
        for query in source.reader.queries(wanted, limit)
    ]


def _counts(
    source: Source, want: Want, selection: Selection, ours: Ownership
) -> list[ProjectCount]:
    found: list[ProjectCount] = []
    admitted = source.admitted
    for name, key in {**admitted.projects, **admitted.merged}.items():
        wanted = Wanted(
            (name,) if name in admitted.projects else (),
            (name,) if name in admitted.merged else (),
            want.types,
            want.concepts,
        )
        others = ours.others_rows(source.reader, wanted)
        rows, typed, both = source.reader.counts(wanted, others)
        included = sum(
            one.key == name and one.store == source.ref.path for one in selection.observations
        )
        found.append(
            ProjectCount(
                name,
                source.ref.path,
                key.key,
                key.rule,
                rows,
                len(others),
                typed,
                both,
                included,
            )
        )
    return found


def _fates(
    source: Source, want: Want, number: int, keys: ProjectKeys, selection: Selection
) -> list[Fate]:
    row = source.reader.wide("observations", [candidate(number, None, "")]).get(number)
    if row is None:
        return []
    if row.project in keys.excluded:
        detail = "it is of an excluded checkout (CLAUDE_MEM_EXCLUDED_PROJECTS)"
        return [Fate(number, source.ref.path, "excluded", detail)]
    shown = decode.observation(row, source.ref, row.project)
    disposition, detail = _judge(source, want, row, shown, keys, selection)
    return [
        Fate(number, source.ref.path, disposition, detail, row.project, shown.title),
    ]


def _judge(
    source: Source,
    want: Want,
    row: Row,
    shown: Observation,
    keys: ProjectKeys,
    selection: Selection,
) -> tuple[str, str]:
    """The first filter that drops the row, and a sentence about it."""
    if any(one.id == row.id and one.store == source.ref.path for one in selection.observations):
        return "included", "it is in the answer"
    admitted = source.admitted
    if row.project not in admitted.projects and row.merged not in admitted.merged:
        why = admitted.left_out.get(row.project, "no key of this repository names it")
        return "other_project", f"its project is {row.project!r}: {why}"
    if want.types is not None and shown.type.lower() not in want.types:
        return "type_filtered", f"its type {shown.type!r} is not among {', '.join(want.types)}"
    if want.concepts is not None:
        raw = row.cells[6]
        if raw and not shown.concepts and raw != "[]":
            return "malformed_concepts", "its concepts are no JSON list, so it has none"
        if not {one.lower() for one in shown.concepts} & set(want.concepts):
            return "concept_filtered", f"none of its concepts is among {', '.join(want.concepts)}"
    if want.platform is not None and (shown.platform_source or "claude").lower() != want.platform:
        return "platform_filtered", f"it was written by {shown.platform_source}"
    other = Ownership(keys).other_repository(row)
    if other is not None:
        return "other_repository", f"its files lie in another repository, {other}"
    twin = next((one for one in selection.observations if _same(one, row)), None)
    if twin is not None:
        return "duplicate_of", f"the same as observation {twin.id} of {twin.store}"
    return "over_limit", f"{selection.filters.limit} newer rows fill the limit"


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
