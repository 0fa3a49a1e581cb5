"""Keys in a store that look like this repository but that no rule matches: renamed folders."""

from __future__ import annotations

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import StoreError
from claudemem_daemon.pipeline import ResolvedQuestion
from claudemem_daemon.selection.admission import admit
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.pool import StorePool
from claudemem_daemon.stores.rows import text_list
from claudemem_daemon.stores.sql import Wanted

NEWEST = 20
MOST_KEYS = 200


def related_keys(resolved: ResolvedQuestion, pool: StorePool) -> dict[str, int]:
    """Key -> how many of its newest rows have files inside our checkouts, or that lie there under
    the same relative name. For `doctor` alone: it reads rows that are not ours to show."""
    if not resolved.keys.checkouts:
        return {}
    deadline = Deadline.after(3)
    found: dict[str, int] = {}
    roots = tuple(path.rstrip("/") + "/" for path in resolved.keys.checkouts)
    for ref in resolved.located.stores:
        try:
            with pool.reading(ref, deadline) as reader:
                names = list(reader.projects())
                admitted = admit(resolved.keys, names, reader.merged())
                known = {*admitted.projects, *resolved.keys.excluded}
                for name in [one for one in names if one not in known][:MOST_KEYS]:
                    hits = _hits(reader, name, roots)
                    if hits:
                        found[name] = found.get(name, 0) + hits
        except StoreError:
            continue
    return found


def _hits(reader: StoreReader, name: str, roots: tuple[str, ...]) -> int:
    page = next(reader.candidates("observations", Wanted((name,)), NEWEST), [])
    rows = reader.wide("observations", page).values()
    return sum(
        any(path.startswith(roots) for path in (*text_list(r.cells[7]), *text_list(r.cells[8])))
        for r in rows
    )
