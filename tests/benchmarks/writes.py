"""A question after a write, turn by turn with the same rows read by hand after a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.benchmarks.client import inject
from tests.benchmarks.daemon import Daemon
from tests.benchmarks.floors import NARROW, BareSqlite
from tests.benchmarks.measure import interleave
from tests.benchmarks.site import Site, keys_of


@dataclass(frozen=True, slots=True)
class Case:
    """Asks for `project` with `query` after another process has added a row of `written`, the
    project's own unless told, to the store at `path`. The floor reads from all of `stores`, the
    shared one unless told: `limit` rows, whole where `whole`."""

    project: str
    query: Mapping[str, str] = field(default_factory=dict)
    written: str = ""
    path: str | None = None
    stores: Sequence[BareSqlite] = ()
    limit: int = 50
    whole: bool = False


@dataclass(frozen=True, slots=True)
class AfterWrite:
    """Milliseconds of each turn; what was asked for by hand; the answers in which the row was
    missing, or was that of another project."""

    ours: list[float]
    floor: list[float]
    floor_name: str
    wrong: list[str]


def after_write(site: Site, daemon: Daemon, case: Case, rounds: int) -> AfterWrite:
    """The plan by hand meets the page cache emptied by the same kind of write."""
    request = inject(site.cwd(case.project), **case.query)
    keys, columns = keys_of(case.project), "*" if case.whole else NARROW
    stores = case.stores or (site.bare,)
    written = case.written or case.project
    site.write(written, case.path)
    plan = stores[0].best_plan(keys, limit=case.limit)
    wrong: list[str] = []

    def ours() -> float:
        title = site.write(written, case.path)
        reply = daemon.client.ask(request)
        if reply.status != 200 or (title in reply.text) != (written == case.project):
            wrong.append(f"{reply.status} {reply.text[:120]!r}")
        return reply.seconds

    def floor() -> float:
        site.write(written, case.path)
        return sum(store.seconds(plan, keys, limit=case.limit, columns=columns) for store in stores)

    taken = interleave({"ours": ours, "floor": floor}, rounds)
    whole = ", rows read whole" if case.whole else ""
    many = f", {len(stores)} in turn" if len(stores) > 1 else ""
    return AfterWrite(taken["ours"], taken["floor"], f"SQLite, {plan}{whole}{many}", wrong)
