"""The commands in the documentation are run, and print what the documentation says.

A `console` block below the line `<!-- tested -->` is run: each `$ ` line by bash, in a temporary HOME,
in the repository `shop` of the demo. `...` stands for any lines; times, pids, paths and versions
are masked in both. `python -m tests.docs.test_documents FILE` writes what the commands print now.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from claudemem_daemon.demo.sandbox import Sandbox
from claudemem_daemon.selection.accounting import Disposition
from claudemem_daemon.server.app import ROUTES
from claudemem_daemon.settings.model import ALL_KEYS, DATA_DIR
from tests.support.daemon import command

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"(?<=<!-- tested -->\n```console\n)(.*?)(?=```)", re.S)
BIN = Path(command()[0]).parent
INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q . && "
MASKS = (
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"(?<!\d)\d\d:\d\d(:\d\d)?", "TIME"),
    (r"\d+ (s|min|h) ago", "AGO"),
    (r"pid\W*\d+", "PID"),
    (r"[\d.]+ (ms|MB|s)\b", "MEASURED"),
    (r"(version\W*|Python )[\d.]+", "VERSION"),
    (r'"created_at_epoch":\d+', "EPOCH"),
    (r"█+|░+|-{3,}", "BAR"),
    (r" {2,}", "  "),
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        fill(sandbox)
        yield sandbox


def fill(sandbox: Sandbox) -> None:
    """What the documents tell of: three worktrees, one of them removed, and a row of each."""
    sandbox.repository("shop-cart", "shop-search", "shop-old")
    sandbox.row("shop", "decision", "Prices are integers of cents")
    sandbox.row("shop/shop-old", "bugfix", "Old checkout lost the coupon")
    sandbox.row("shop-search", "discovery", "Search index is rebuilt at night")
    sandbox.row("shop/shop-cart", "feature", "Cart survives a login")
    sandbox.git("worktree", "remove", sandbox.path("shop-old"))
    sandbox.start_daemon()


def run(sandbox: Sandbox, line: str) -> str:
    """What the line prints, in the paths of the documents."""
    # First the documents' /src/: this repository may well lie in a folder of that name.
    line = line.removeprefix(INSTALL).replace("/src/", f"{sandbox.root}/")
    line = line.replace(".venv/bin/", f"{BIN}/")
    done = subprocess.run(
        ["bash", "-c", line],
        env={**sandbox.environ, "PATH": f"{BIN}:{sandbox.environ['PATH']}"},
        cwd=sandbox.main, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, timeout=60,
    )  # fmt: skip
    text = done.stdout.replace(sandbox.home, "/home/you").replace(sandbox.root, "/src")
    text = text.replace(f"{BIN}/", "/path/to/.venv/bin/")
    return text if not text or text.endswith("\n") else text + "\n"


def commands(block: str) -> Iterator[tuple[str, str]]:
    """(command, output)"""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        line, _, output = part.partition("\n")
        yield line, output


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if BLOCK.search(p.read_text())], ids=lambda path: path.name
)
def test_the_commands_print_what_the_document_says(sandbox: Sandbox, path: Path) -> None:
    for block in BLOCK.findall(path.read_text(encoding="utf-8")):
        for line, output in commands(block):
            wanted = ".*".join(re.escape(part) for part in masked(output).split("..."))
            printed = masked(run(sandbox, line))
            assert re.fullmatch(wanted, printed, re.S), f"$ {line}\n{printed}"


def test_every_setting_is_described_by_its_whole_name() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(CLAUDE_MEM\w+)`", text, re.M))
    assert told == {*ALL_KEYS, DATA_DIR}


def test_every_word_of_explain_is_described() -> None:
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)`", text, re.M)) == set(get_args(Disposition))


def test_every_route_is_described() -> None:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(?:GET|POST) (/[\w/]+)`", text, re.M))
    assert told == {*ROUTES, "/v1/hooks/PLATFORM"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def rewrite(path: Path) -> None:
    """Put in what the commands print now; blocks with `...` are left to a person."""
    with Sandbox() as sandbox:
        fill(sandbox)

        def anew(found: re.Match[str]) -> str:
            parts = [
                f"$ {line}\n{output if '...' in output else run(sandbox, line)}"
                for line, output in commands(found[0])
            ]
            return "".join(parts)

        path.write_text(BLOCK.sub(anew, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))


def test_the_gate_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    gate = (ROOT / ".ci" / "run").read_text()
    assert readme.count("pip install -q -e '.[dev]' && .venv/bin/pytest\n") == 1
    assert gate.endswith('exec "$venv/bin/pytest" "$@"\n')
    assert "venv=${CI_VENV:-.venv}" in gate
