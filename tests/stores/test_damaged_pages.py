"""One damaged page: every row that another index or another order still gives is shown."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.selection.asking import ask, exact, make_keys, prefix
from tests.support.stores import add_observations, make_store, schema_sql

PAGE: Final = 4096
BREADTHS: Final = {"project": (390, 1), "walk": (1500, 1), "both": (1500, 40)}
"""Plan -> rows, and the projects that they are of."""
INDEXES: Final = ("idx_observations_project", "idx_observations_created")


def root(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,))
    return int(page)


def leaves(data: bytes | bytearray, page: int) -> list[int]:
    """The numbers of all leaf pages below a page of a B-tree, in order."""
    start = (page - 1) * PAGE
    if data[start] not in (2, 5):
        return [page]
    cells = int.from_bytes(data[start + 3 : start + 5])
    at = [int.from_bytes(data[start + 12 + 2 * n : start + 14 + 2 * n]) for n in range(cells)]
    below = [int.from_bytes(data[start + n : start + n + 4]) for n in (*at, 8)]
    return [leaf for one in below for leaf in leaves(data, one)]


def damage(path: Path, name: str, shares: Iterable[float]) -> set[int]:
    """Overwrite the heads of leaves of a table or index, those at these shares of the way through
    it. The numbers of the rows that were there."""
    data = bytearray(path.read_bytes())
    pages = leaves(data, root(path, name))
    assert len(pages) > 1
    lost: set[int] = set()
    for share in shares:
        start = (pages[int(share * (len(pages) - 1))] - 1) * PAGE
        lost |= {int(n) for n in re.findall(rb"number-(\d+);", data[start : start + PAGE])}
        data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    return lost


def filled(path: Path, rows: int, projects: int) -> None:
    make_store(path, journal="delete")
    names = [f"app/{n}" for n in range(projects)] if projects > 1 else ["app"]
    with closing(sqlite3.connect(path)) as db:
        add_observations(
            path,
            [
                {"project": names[n % projects], "title": f"number-{n};" + "x" * 50, "id": n}
                for n in range(1, rows + 1)
            ],
            connection=db,
        )
        db.commit()


def shown(path: Path, limit: int) -> tuple[list[int], list[str]]:
    selection = ask(str(path), keys=make_keys("app", prefix("app/")), limit=limit)
    titles = [row.title for row in selection.observations]
    return [int(title[7:].partition(";")[0]) for title in titles], [
        warning.code for warning in selection.warnings
    ]


@pytest.mark.parametrize("plan", BREADTHS)
@pytest.mark.parametrize("limit", [20, 2000])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_damaged_page_of_rows_costs_its_own_rows(
    tmp_path: Path, plan: str, limit: int, share: float
) -> None:
    path = tmp_path / "s.db"
    rows, projects = BREADTHS[plan]
    filled(path, rows, projects)
    lost = damage(path, "observations", [share])
    numbers, codes = shown(path, limit)
    assert lost
    assert numbers == [n for n in range(rows, 0, -1) if n not in lost][:limit]
    if limit > rows or share == 1:
        assert "store_corrupt" in codes


@pytest.mark.parametrize("plan", BREADTHS)
@pytest.mark.parametrize("limit", [20, 2000])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_damaged_page_of_an_index_costs_no_row(
    tmp_path: Path, plan: str, limit: int, index: str, share: float
) -> None:
    path = tmp_path / "s.db"
    rows, projects = BREADTHS[plan]
    filled(path, rows, projects)
    damage(path, index, [share])
    numbers, codes = shown(path, limit)
    assert numbers == [*range(rows, 0, -1)][:limit]
    assert set(codes) <= {"store_corrupt"}


def test_damage_in_rows_and_index_leaves_what_can_be_read_from_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path, 1500, 1)
    lost = damage(path, "observations", [0.5])
    damage(path, INDEXES[0], [0.3])
    numbers, codes = shown(path, 2000)
    assert numbers == [n for n in range(1500, 0, -1) if n not in lost]
    assert codes == ["store_corrupt"]


def test_a_store_without_indexes_is_read_from_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path, 300, 1)
    with closing(sqlite3.connect(path)) as db:
        for name in re.findall(r"INDEX (\w+)", " ".join(schema_sql())):
            db.execute(f"DROP INDEX {name}")
        db.commit()
    lost = damage(path, "observations", [0.5])
    numbers, codes = shown(path, 2000)
    assert numbers == [n for n in range(300, 0, -1) if n not in lost]
    assert codes == ["store_corrupt"]


@pytest.mark.parametrize("names", [(b"app/\xff",), (b"app/\xff", b"app/\xfe")])
def test_a_project_whose_name_is_no_utf_8_is_found_by_its_prefix(
    tmp_path: Path, names: tuple[bytes, ...]
) -> None:
    path = make_store(tmp_path / "s.db")
    with closing(sqlite3.connect(path)) as db:
        add_observations(
            path,
            [{"project": "app/\ufffd", "title": "its name is right", "id": 1}]
            + [{"title": f"odd {n}", "id": n + 2} for n in range(len(names))]
            + [{"project": "other", "title": "another's"}],
            connection=db,
        )
        for number, name in enumerate(names):
            db.execute(
                "UPDATE observations SET project = CAST(? AS TEXT) WHERE id = ?",
                (name, number + 2),
            )
        db.commit()
    asked = make_keys(exact("app"), prefix("app/"))
    selection = ask(path, keys=asked)
    odd = [f"odd {n}" for n in reversed(range(len(names)))]
    assert [row.title for row in selection.observations] == [*odd, "its name is right"]
    assert [(one.key, one.observations) for one in selection.projects if one.observations] == [
        ("app/\ufffd", len(names) + 1)
    ]
