"""Every row of the stores ends in exactly one reason, and the counts are plain SQL's."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from typing import Any

from hypothesis import HealthCheck, given, settings

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.selection.accounting import account
from claudemem_daemon.selection.sources import ALL, Sources
from tests.selection.asking import (
    QUESTION,
    ask_why,
    exact,
    located,
    make_keys,
    make_settings,
    open_pool,
    prefix,
    resolve,
)
from tests.selection.test_oracle import asked, build, concepts_of, questions, stores
from tests.support.stores import Generation

KEYS = make_keys(exact("app"), exact("app/one"), prefix("app/"), excluded=("app/two",))


def readable(cell: Any) -> bool:
    if cell in (None, "", b""):
        return True
    try:
        json.loads(cell if isinstance(cell, str) else "{")
    except ValueError:
        return False
    return True


def by_sql(path: str, question: dict[str, Any]) -> Counter[str]:
    """What the filters on single rows take, in the plainest way."""
    found: Counter[str] = Counter()
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        for row in db.execute("SELECT * FROM observations"):
            names = [row["project"]]
            if "merged_into_project" in row.keys():  # noqa: SIM118 - a Row is no mapping
                names.append(row["merged_into_project"])
            ours = [
                one for one in names
                if one and (one == "app" or one.startswith("app/")) and one != "app/two"
            ]  # fmt: skip
            types, concepts = question["types"], question["concepts"]
            if not ours:
                found["other_project"] += 1
            elif row["project"] == "app/two":
                found["excluded"] += 1
            elif types is not None and row["type"] not in types:
                found["type_filtered"] += 1
            elif concepts is not None and not concepts_of(row["concepts"]) & set(concepts):
                kind = "concept_filtered" if readable(row["concepts"]) else "malformed_concepts"
                found[kind] += 1
            else:
                found["passed"] += 1
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(described=stores, question=questions)
def test_every_row_ends_in_one_reason(
    described: list[tuple[Generation, list[dict[str, Any]]]], question: dict[str, Any]
) -> None:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in question.items()
        if value is not None
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = build(folder, described)
        explanation = ask_why(*paths, keys=KEYS, **values)
        shape = explanation.as_json()
        for path in paths:
            counted: Counter[str] = Counter()
            for one in shape["counts"]:
                assert sum(one["reasons"].values()) == one["rows"] + one["other_repository"] > 0
                if one["store"] == path:
                    counted.update(one["reasons"])
            counted["other_project"] = shape["others"][path]
            compared = ("included", "over_limit", "duplicate_of", "other_repository")
            counted["passed"] = sum(counted.pop(one, 0) for one in compared)
            assert +counted == by_sql(path, question)
        included = [
            place for place, why in explanation.accounts.passed.items() if why == "included"
        ]
        chosen = [(one.store, one.id) for one in explanation.selection.observations]
        assert included == chosen
        assert asked(paths, question) is not None
        # A single row is told what it was counted as.
        for number in (1, 3, 8):
            for fate in ask_why(*paths, keys=KEYS, observation=number, **values).fates:
                place = (fate.store or "", fate.id)
                known = explanation.accounts.passed.get(place)
                assert known is None or known == fate.disposition


def test_a_list_names_what_it_leaves_out() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"project": "app", "type": kind, "concepts": json.dumps(concepts)}
            for kind, concepts in (
                ("meeting", ["gotcha"]), ("meeting", []), ("bugfix", ["gotcha: x", "other"]),
                ("bugfix", ["gotcha: x"]), ("bugfix", ["gotcha"]), ("bugfix", []),
            )
        ]  # fmt: skip
        (path,) = build(folder, [("13.25.3", rows)])
        shape = ask_why(path, types=("bugfix",), concepts=("gotcha",)).as_json()
        assert shape["dropped"] == {
            "types": {"meeting": 2},
            "concepts": {"gotcha: x": 2, "other": 1},
        }
        (count,) = shape["counts"]
        assert count["reasons"] == {"type_filtered": 2, "concept_filtered": 3, "included": 1}
        assert (count["rows"], count["after_types"], count["after_concepts"]) == (6, 4, 1)


def test_a_store_that_is_too_big_is_not_said_to_be_empty() -> None:
    """The newest are told from the rest, and that the rest was not compared."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = build(folder, [("13.25.3", [])])
        with closing(sqlite3.connect(path)) as db:
            db.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
                " INSERT INTO observations (id, memory_session_id, project, type, title, narrative,"
                " concepts, created_at, created_at_epoch) SELECT i, 's', 'app', 'bugfix', i,"
                " hex(zeroblob(300)), '[\"gotcha\"]', '', 1767225600000 + i FROM n"
            )
            db.commit()
        # Too short for all rows; on a busy machine too short even to open the store.
        for within in (0.12, 0.25, 0.5, 1.0, 2.0):
            why = ask_why(
                path, types=("bugfix",), concepts=("gotcha",), limit=5, within=within
            ).as_json()
            if why["counts"]:
                break
        (count,) = why["counts"]
        assert sum(count["reasons"].values()) == count["rows"] == 60_000
        assert count["reasons"].get("included", 0) in (0, 5)


def test_rows_whose_ids_are_no_numbers_were_not_out_of_time() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (path,) = build(folder, [("13.25.3", [{"project": "app", "title": "good"}])])
        with closing(sqlite3.connect(path)) as db:
            db.execute("ALTER TABLE observations RENAME TO numbered")
            db.execute("CREATE TABLE observations AS SELECT * FROM numbered")
            db.execute("INSERT INTO observations SELECT * FROM numbered")
            db.execute("UPDATE observations SET id = 'x', title = 'bad' WHERE rowid = 2")
            db.commit()
        shape = ask_why(path).as_json()
    (count,) = shape["counts"]
    assert count["reasons"] == {"included": 1, "unreadable": 1}
    assert count["rows"] == 2


class Over(Deadline):
    """Time is over whenever that is asked, though some is left."""

    @property
    def passed(self) -> bool:
        return True


def test_rows_that_were_not_compared_are_said_to_be_just_that() -> None:
    """Time is over before the limit is reached."""
    with tempfile.TemporaryDirectory() as folder, open_pool() as pool:
        rows = [{"project": "app", "title": f"row {n}"} for n in range(600)]
        (path,) = build(folder, [("13.25.3", rows)])
        resolved = resolve(QUESTION, make_settings(limit=1000), make_keys("app"), located(path))
        with Sources(resolved, ALL, pool, Deadline.after(20)) as sources:
            sources.open()
            accounts = account(sources, Over(Deadline.after(20).at))
    reasons = accounts.reasons[path, "app"]
    assert set(reasons) == {"included", "not_read"}
    assert sum(reasons.values()) == 600
