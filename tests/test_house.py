"""The house keeps its walls: who may import what, and how a request may walk."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import claudemem_daemon

PACKAGE = Path(claudemem_daemon.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

PIPELINE = ("settings", "repository", "stores", "selection", "context")
"""Top to bottom. A room may use the values of rooms above it, never anything of one below."""


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Dotted names that a module imports; with `top_level` only those its import runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute here"
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("apsw", {"stores"}),
        ("watchdog", {"settings", "server"}),
        ("starlette", {"server"}),
        ("uvicorn", {"server"}),
        ("httptools", {"server"}),
        ("click", {"cli"}),
        ("rich", {"cli"}),
        ("sqlite3", {"demo"}),
    ],
)
def test_a_library_has_its_room(library: str, rooms: set[str]) -> None:
    users = {
        room(path)
        for path in MODULES
        if any(name == library or name.startswith(library + ".") for name in imports(path))
    }
    assert users <= rooms


@pytest.mark.parametrize("name", PIPELINE)
def test_no_room_reaches_down_the_corridor(name: str) -> None:
    below = {
        *PIPELINE[PIPELINE.index(name) + 1 :],
        "server",
        "cli",
        "pipeline",
        "api",
        "diagnostics",
    }
    for path in (PACKAGE / name).rglob("*.py"):
        reached = {
            dotted.split(".")[1]
            for dotted in imports(path)
            if dotted.startswith("claudemem_daemon.")
        }
        assert not reached & below, f"{path.relative_to(PACKAGE)} reaches {reached & below}"


OUTSIDE = frozenset({"io", "locale", "os", "pathlib", "platform", "shutil", "socket", "subprocess",
                     "sys", "tempfile", "time", "claudemem_daemon.deadline"})  # fmt: skip
"""Modules by which code reads its environment, files or a clock."""
READING = frozenset({"open", "now", "utcnow", "today", "monotonic", "environ", "getenv", "input"})


def outside_reads(source: str) -> set[str]:
    """Names in a module by which it would read its environment, a file or a clock."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name.split(".")[0] in OUTSIDE)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(OUTSIDE & {node.module, node.module.split(".")[0]})
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            found.update(READING & {name})
    return found


def test_context_reads_no_environment_file_or_clock() -> None:
    found = {
        path.name: outside_reads(path.read_text(encoding="utf-8"))
        for path in (PACKAGE / "context").glob("*.py")
    }
    assert {name: reads for name, reads in found.items() if reads} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "import os",
        "import os.path as paths",
        "from time import monotonic",
        "from pathlib import Path",
        "def f():\n    import time",
        "text = open('file').read()",
        "from datetime import datetime\nnow = datetime.now()",
        "from datetime import date\nday = date.today()",
        "from claudemem_daemon.deadline import Deadline",
    ],
)
def test_a_module_that_reads_one_of_them_is_noticed(planted: str) -> None:
    clean = (PACKAGE / "context" / "clock.py").read_text(encoding="utf-8")
    assert outside_reads(f"{clean}\n{planted}\n")


def test_commands_and_diagnostics_do_not_reach_into_the_server() -> None:
    reaching = {
        str(path.relative_to(PACKAGE))
        for name in ("cli", "diagnostics")
        for path in (PACKAGE / name).rglob("*.py")
        if any(one.startswith("claudemem_daemon.server") for one in imports(path))
    }
    assert reaching == set()


def test_the_hook_client_imports_only_what_all_share() -> None:
    reached = imports(PACKAGE / "hook.py", top_level=True)
    assert {n for n in reached if n.startswith("claudemem") and n.count(".") == 1} == {
        "claudemem_daemon.local"
    }
    assert not {name for name in imports(PACKAGE / "local.py") if "claudemem" in name}


def test_every_module_can_be_imported_first() -> None:
    """A circular import shows only from one side; so each module is once the first."""
    names = [
        ".".join(
            ("claudemem_daemon", *path.relative_to(PACKAGE).with_suffix("").parts)
        ).removesuffix(".__init__")
        for path in MODULES
        if path.name != "__main__.py"
    ]
    script = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for known in [m for m in sys.modules if m.split('.')[0] == 'claudemem_daemon']:\n"
        "        del sys.modules[known]\n"
        "    importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=150)
