"""Many sorted lists into one, each row once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from claudemem_daemon.selection.merge import BATCH, Chosen, merge
from claudemem_daemon.stores.plans import Candidate, candidate
from claudemem_daemon.stores.rows import OBSERVATION_CELLS, Row

one_row = st.fixed_dictionaries(
    {
        "id": st.integers(1, 6),
        "epoch": st.one_of(st.none(), st.integers(1, 4)),
        "project": st.sampled_from(["a", "b"]),
        "title": st.sampled_from(["x", "y", ""]),
        "narrative": st.sampled_from(["", "long", "else"]),
        "origin": st.one_of(st.none(), st.tuples(st.just("device"), st.sampled_from("123"))),
        "theirs": st.booleans(),
    }
)
lists = st.lists(st.lists(one_row, max_size=8, unique_by=lambda row: row["id"]), max_size=4)


def make(given_row: dict[str, Any]) -> Row:
    texts = {name: given_row.get(name) for name in ("title", "narrative")}
    return Row(
        given_row["id"],
        given_row["project"],
        None,
        given_row["epoch"],
        "theirs" if given_row.get("theirs") else "s",
        None,
        given_row["origin"],
        tuple(texts.get(name) for name in OBSERVATION_CELLS),
    )


def candidate_of(row: Row) -> Candidate:
    return candidate(row.id, row.epoch, row.project)


def included(
    lists: Iterable[tuple[str, Iterable[Candidate]]],
    limit: int,
    read: Callable[[str, list[Candidate]], dict[int, Row]],
    keep: Callable[[Chosen[str]], bool],
    late: Callable[[], bool] = lambda: False,
) -> list[Chosen[str]]:
    merged = merge(lists, limit, read, keep, late)
    return [chosen for chosen, ending in merged if ending == "included"]


def run(
    described: list[list[dict[str, Any]]], limit: int
) -> tuple[list[tuple[int, int]], int, int]:
    stores = [{row["id"]: make(row) for row in rows} for rows in described]
    read: list[int] = []

    def reader(origin: int, chosen: list[Candidate]) -> dict[int, Row]:
        read.extend(one.id for one in chosen)
        return {one.id: stores[origin][one.id] for one in chosen}

    flows = [
        (number, sorted((candidate_of(row) for row in rows.values()), reverse=True))
        for number, rows in enumerate(stores)
    ]

    def keep(chosen: Chosen[int]) -> bool:
        return chosen.row.session != "theirs"

    found = list(merge(flows, limit, reader, keep, lambda: False))
    kept = [chosen for chosen, ending in found if ending == "included"]
    duplicates = sum(ending == "duplicate_of" for _, ending in found)
    return [(chosen.origin, chosen.row.id) for chosen in kept], duplicates, len(read)


def naive(described: list[list[dict[str, Any]]], limit: int) -> list[tuple[int, int]]:
    everything = [
        (candidate_of(make(row)), -number, row)
        for number, rows in enumerate(described)
        for row in rows
        if not row["theirs"]
    ]
    everything.sort(key=lambda one: (one[0], one[1]), reverse=True)
    kept: list[tuple[int, dict[str, Any]]] = []
    for _, minus, row in everything:
        store = -minus
        if not any(same(store, row, other, earlier) for other, earlier in kept):
            kept.append((store, row))
    return [(store, row["id"]) for store, row in kept[:limit]]


def same(store: int, row: dict[str, Any], other: int, earlier: dict[str, Any]) -> bool:
    if row["origin"] is not None and row["origin"] == earlier["origin"]:
        return True
    names = ("title", "narrative", "epoch")
    copy = (row["title"] or row["narrative"]) and all(row[one] == earlier[one] for one in names)
    return bool(copy) and (store != other or row["project"] == earlier["project"])


A_ROW = {"epoch": 1, "title": "x", "narrative": "", "origin": None, "theirs": False}


# Equal content of two projects in one store.
@example([[{**A_ROW, "id": 1, "project": "a"}, {**A_ROW, "id": 2, "project": "b"}]], 12)
@given(lists, st.integers(0, 12))
def test_the_merge_is_what_sorting_and_comparing_everything_gives(
    described: list[list[dict[str, Any]]], limit: int
) -> None:
    rows, _, _ = run(described, limit)
    assert rows == naive(described, limit)


@given(lists)
def test_little_more_is_read_than_the_limit_and_the_duplicates_ask_for(
    described: list[list[dict[str, Any]]],
) -> None:
    ours = [[{**row, "theirs": False} for row in rows] for rows in described]
    rows, duplicates, read = run(ours, 2)
    assert len(rows) + duplicates <= read <= len(rows) + 3 * duplicates


def test_a_dropped_row_makes_room_for_the_next() -> None:
    rows = {
        n: make({"id": n, "epoch": n, "project": "a", "title": "", "origin": None})
        for n in (1, 2, 3)
    }

    def reader(_: str, chosen: list[Candidate]) -> dict[int, Row]:
        return {one.id: rows[one.id] for one in chosen}

    def keep(one: Chosen[str]) -> bool:
        return one.row.id != 3

    flow = [candidate_of(rows[n]) for n in (3, 2, 1)]
    merged = included([("store", flow)], 2, reader, keep)
    assert [one.row.id for one in merged] == [2, 1]


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 5))
def test_when_it_gets_late_the_newest_rows_are_there(rows: int, limit: int, batches: int) -> None:
    """Time is looked at between batches, never before the first."""
    described = {"epoch": 7, "project": "a", "title": "", "origin": None}
    asked: list[bool] = []

    def late() -> bool:
        asked.append(len(asked) == batches - 1)
        return asked[-1]

    def reader(_: str, chosen: list[Candidate]) -> dict[int, Row]:
        return {one.id: make({**described, "id": one.id}) for one in chosen}

    flow = (candidate(n, 7, "a") for n in range(rows, 0, -1))
    merged = included([("store", flow)], limit, reader, lambda _: True, late)
    found = [one.row.id for one in merged]
    assert found == list(range(rows, 0, -1))[: min(limit, batches * BATCH)]
    assert any(asked) == (limit > batches * BATCH <= rows)


def test_a_row_that_is_gone_when_it_is_read_is_left_out() -> None:
    flow = [candidate(1, 5, "a")]
    assert included([("store", flow)], 3, lambda *_: {}, lambda _: True) == []


def test_a_long_run_of_dropped_rows_takes_few_reads() -> None:
    reads: list[int] = []
    rows = {
        n: make({"id": n, "epoch": n, "project": "a", "title": "", "origin": None})
        for n in range(20_000)
    }

    def reader(_: str, wanted: list[Candidate]) -> dict[int, Row]:
        reads.append(len(wanted))
        return {one.id: rows[one.id] for one in wanted}

    flow = sorted((candidate_of(row) for row in rows.values()), reverse=True)
    merged = included([("store", flow)], 2, reader, lambda one: one.row.id in (19_999, 0))
    assert [one.row.id for one in merged] == [19_999, 0]
    assert len(reads) < 60
