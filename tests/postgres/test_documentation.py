"""The commands of the page about PostgreSQL are run, in two homes and with one server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from tests.docs.test_documents import BIN, ROOT, commands
from tests.postgres.conftest import make_machine
from tests.support.daemon import clean_environ
from tests.support.postgres import Cluster, add_row, server_folder

BLOCK = re.compile(r"(?<=<!-- tested with a server -->\n```console\n)(.*?)(?=```)", re.S)
PROMPT = "--- prompt ---"


def test_the_commands_of_the_page_print_what_it_says(
    home: Path, cluster: Cluster, database: str, admin: psycopg.Connection[Any]
) -> None:
    add_row(admin, "shop", "Prices are integers")
    for who in ("anna", "ben"):
        (home / who).mkdir()
        machine = make_machine(home / who, cluster.url(database))
        machine.shop.rename(home / who / "shop")
    page = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
    (block,) = BLOCK.findall(page)
    told = list(commands(block))
    # One shell, as a reader has one; a line of our own parts what the commands print.
    script = "".join(f"{line}\necho '{PROMPT}'\n" for line, _ in told)
    script = script.replace("/home/", f"{home}/")
    script = script.replace(
        "postgresql://owner@db.example/claude_mem", f"'{cluster.url(database)}'"
    )
    path = os.pathsep.join((str(BIN), server_folder() or "", os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", script],
        env=clean_environ(home, PATH=path),
        cwd=home,
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    printed = [part.strip() for part in done.stdout.split(PROMPT)[:-1]]
    assert printed == [output.strip() for _, output in told], done.stderr
    assert done.stderr == ""
