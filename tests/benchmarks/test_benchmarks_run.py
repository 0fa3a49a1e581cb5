"""The benchmark itself is kept alive: it runs, and every answer it times is right."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks import pages
from tests.benchmarks.answers import named
from tests.benchmarks.chart import Chart
from tests.benchmarks.floors import PLANS, BareSqlite
from tests.benchmarks.growth import by_rows, by_stores, by_worktrees
from tests.benchmarks.measure import Effort, Figure, interleave
from tests.benchmarks.report import markdown, table
from tests.benchmarks.run import SECTIONS, run
from tests.benchmarks.site import BY_SIZE, Ground, Site, keys_of, prepare_ground
from tests.benchmarks.store import GROVES, build_store, grove
from tests.benchmarks.worst import WRONG
from tests.support.stores import run_sql


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where stores and repositories are built once for all tests here."""
    return os.fspath(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def ground(folder: str) -> Ground:
    return prepare_ground(folder, Effort.quick())


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "beside claude-mem"])
def test_each_section_runs_and_its_answers_are_right(folder: str, section: str) -> None:
    """Case big-store-slow, at the size that a test can afford.

    Before each it compares the daemon's rows with those of a query by hand for every project, and
    an answer after a write fails the run where the row written last is not in it.
    """
    figures = [f for f in run(folder, (10_000,), Effort.quick(), [section]) if f.section == section]
    assert figures
    assert all(figure.ours > 0 for figure in figures if figure.unit in ("ms", "MB"))
    assert [figure.note for figure in figures if figure.note.startswith(WRONG)] == []
    if section not in ("worst cases", "idle"):
        assert [figure.what for figure in figures if not figure.floor] == []
    if section in ("warm", "after a write"):
        names = {*BY_SIZE, *(named(grove(worktrees)) for worktrees in GROVES)}
        assert names <= {figure.what for figure in figures}
    for text in (table(figures), markdown(figures)):
        assert all(figure.what in text for figure in figures)


@pytest.mark.parametrize("project", [*BY_SIZE, *(grove(n) for n in GROVES)])
def test_every_plan_by_hand_finds_the_same_rows(ground: Ground, project: str) -> None:
    """A floor that answers another question would be no floor."""
    with Site(ground, 10_000) as site:
        found = {plan: site.bare.rows(plan, keys_of(project)) for plan in PLANS}
        assert len(found["project index"]) >= 30
        assert found["time index"] == found["project index"] == found["both indexes"]


def test_a_store_used_again_is_as_it_was_built(ground: Ground) -> None:
    with Site(ground, 10_000) as site:
        site.write("rare")
        assert run_sql(site.store, "SELECT count(*) FROM observations") == [(10_001,)]
    assert run_sql(site.store, "SELECT count(*) FROM observations") == [(10_000,)]


def test_the_store_has_forty_projects_and_all_of_claude_mems_indexes(
    tmp_path: os.PathLike[str],
) -> None:
    path = build_store(os.path.join(os.fspath(tmp_path), "s.db"), 10_000)
    keys = run_sql(path, "SELECT DISTINCT project FROM observations WHERE project NOT LIKE '%/%'")
    assert len([key for (key,) in keys if not key.startswith("g1")]) >= 35
    shares = dict(run_sql(path, "SELECT project, count(*) FROM observations GROUP BY 1"))
    assert (shares["huge"], shares["rare"]) == (7000, 100)
    indexes = run_sql(path, "SELECT count(*) FROM sqlite_master WHERE sql LIKE 'CREATE%INDEX%'")
    assert indexes[0][0] >= 24
    with BareSqlite(path) as db:
        assert db.rows("time index", keys_of("huge"))


def test_every_other_round_goes_backwards() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return 0.5

    taken = interleave({"a": lambda: turn("a"), "b": lambda: turn("b")}, 2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert taken == {"a": [500.0, 500.0], "b": [500.0, 500.0]}


@pytest.mark.parametrize("measure", [by_rows, by_worktrees, by_stores])
def test_a_curve_is_measured_and_drawn(measure: Callable[..., Chart]) -> None:
    chart = measure(Effort.quick(), lambda line: None)
    head, *rows = chart.rows()
    assert len(rows) == 3
    assert {len(row) for row in rows} == {len(head)}
    drawing = ET.fromstring(chart.svg())
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {chart.title, chart.x_label, *chart.curves} <= set(texts)
    points = list(drawing.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(points) == 2 * len(chart.curves)
    assert all(0 < float(point.attrib["cy"]) < 400 for point in points)
    assert f"]({chart.name}.svg)" in pages.growth([chart])


_STAND_IN = """#!{python}
import http.server, os, socketserver, sqlite3, urllib.parse
home = os.environ["CLAUDE_MEM_DATA_DIR"]
os.makedirs(home, exist_ok=True)
db = sqlite3.connect(os.path.join(home, "claude-mem.db"), check_same_thread=False)
db.execute("CREATE TABLE IF NOT EXISTS user_prompts (id INTEGER)")
db.execute("CREATE TABLE IF NOT EXISTS schema_versions (id, version, applied_at)")
db.commit()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        project = urllib.parse.parse_qs(url.query).get("projects", [""])[0]
        rows = [] if url.path == "/api/readiness" else db.execute(
            "SELECT title FROM observations WHERE project = ? ORDER BY created_at_epoch DESC"
            " LIMIT 50", (project,)).fetchall()
        body = "\\n".join(title for (title,) in rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
port = int(os.environ["CLAUDE_MEM_WORKER_PORT"])
socketserver.ThreadingTCPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def test_claude_mem_is_asked_the_same_on_a_store_of_its_own(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for bun, which serves what claude-mem's worker does, from the store it is given."""
    script = tmp_path / "claude-mem" / "plugin" / "scripts" / "worker-service.cjs"
    script.parent.mkdir(parents=True)
    script.touch()
    bun = tmp_path / "bin" / "bun"
    bun.parent.mkdir()
    bun.write_text(_STAND_IN.replace("{python}", sys.executable))
    bun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bun.parent}{os.pathsep}{os.environ['PATH']}")
    figures = run(
        folder, (10_000,), Effort.quick(), ["beside claude-mem"],
        os.fspath(tmp_path / "claude-mem"),
    )  # fmt: skip
    assert [figure.what for figure in figures] == [
        f"{project}, {how}"
        for project in ("rare", "middling", "huge")
        for how in ("warm", "after a write")
    ]
    assert all(figure.ratio and figure.ratio > 0 for figure in figures)


def test_the_pages_are_renewed_between_their_markers(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/benchmarks.md"):
        shutil.copy(Path(__file__).parents[2] / name, tmp_path / name)
    figures = [
        Figure("warm", "1 worktree", 10_000, 7.25, floor=5.0, floor_name="/healthz", times=1.5),
        Figure("warm", "3 worktrees", 10_000, 8.5, floor=5.0, floor_name="/healthz", times=1.5),
    ]
    chart = Chart("growth-rows", "Rows", "rows", {"warm": {10: 1.0, 1000: 2.0}}, ["one late"])
    for _ in range(2):
        pages.write(os.fspath(tmp_path), figures, [chart])
    readme = (tmp_path / "README.md").read_text()
    page = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "1,000 worktrees | 7.2 to 8.5 ms | 5 ms, an empty HTTP answer" in readme
    assert page.count("| 3 worktrees | 10,000 | 8.500 ms |") == 1
    assert all(text in page for text in ("MISSED", "- one late.", "x 2.0"))
    assert (tmp_path / "docs" / "growth-rows.svg").exists()
    (tmp_path / "README.md").write_text("no markers")
    with pytest.raises(SystemExit, match="is left alone"):
        pages.write(os.fspath(tmp_path), figures, [chart])


@pytest.mark.parametrize(
    ("figure", "goal", "met"),
    [
        (Figure("s", "w", None, 1.9, floor=0.5, times=2, at_most=2), "2 ms or 2 x", True),
        (Figure("s", "w", None, 2.9, floor=1.5, times=2, at_most=2), "2 ms or 2 x", True),
        (Figure("s", "w", None, 2.1, floor=0.5, times=2, at_most=2), "2 ms or 2 x", False),
        (Figure("s", "w", None, 2.1, floor=1.5, times=1.2), "1.2 x", False),
        (Figure("s", "w", None, 2.1, rule=("none", False)), "none", False),
        (Figure("s", "w", None, 2.1), "", None),
    ],
)
def test_a_goal_is_a_number_of_floors_or_milliseconds(
    figure: Figure, goal: str, met: bool | None
) -> None:
    assert (figure.goal, figure.met) == (goal, met)
