"""Cells of a size that no honest row has cost themselves, not the answer or the memory."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import psycopg
import pytest

from claudemem_daemon.database_url import CREATE_INDEX
from claudemem_daemon.stores.bounds import MAX_LIST, MAX_TEXT
from tests.hostile.test_large_cells import ask
from tests.postgres.conftest import Machine
from tests.support.daemon import Daemon
from tests.support.postgres import add_row

Admin = psycopg.Connection[Any]

MIB: Final = 1 << 20
FEW: Final = 32 * 1024
"""KiB that the daemon may take beyond what it has when idle: psycopg, an answer's text."""
LARGE: Final = {
    "narrative": ("narrative", "repeat('words ', 4 * 1024 * 1024 / 6)"),
    "title": ("title", "repeat('wörd ', 1024 * 1024)"),
    "discovery_tokens": ("discovery_tokens", "repeat('9', 4 * 1024 * 1024)"),
    "huge": ("metadata", "repeat('words ', 200 * 1024 * 1024 / 6)"),
}
"""What is said to be too large, and how the server makes it; to send it would take its time."""
NUMBERED: Final = (
    "(SELECT jsonb_agg('{}' || n) || '\"how-it-works\"' FROM generate_series(1, {}) AS n)"
)
LISTS: Final = {
    "concepts": ("concepts", NUMBERED.format("concept number ", 18_000)),
    "facts": ("facts", NUMBERED.format("fact number ", 18_000)),
    "files_read": ("files_read", NUMBERED.format("/elsewhere/place", 18_000)),
    "deep": (
        "metadata",
        f"('[' || repeat('{'[' * 900 + ']' * 900},', 200) || '1]')::jsonb",
    ),
    "many concepts": ("metadata", NUMBERED.format("concept number ", 1_500_000)),
}


def said(answer: Any) -> list[tuple[str, str]]:
    return [(one["code"], one["key"]) for one in answer["warnings"]]


def put(admin: Admin, identity: str, name: str, value: str) -> None:
    """`value` is SQL."""
    admin.execute(
        f"UPDATE observations SET metadata = jsonb_set(metadata, '{{{name}}}', to_jsonb({value}))"
        f" WHERE id = '{identity}'"
    )


@pytest.mark.parametrize("which", LARGE)
def test_a_large_text_is_left_out_and_said(machine: Machine, admin: Admin, which: str) -> None:
    for number in range(20):
        add_row(admin, "shop", f"Row {number}")
    large = add_row(admin, "shop", "Large", at="2100-01-01T00:00:00Z")
    # Without it, the server unpacks each row for its project.
    admin.execute(CREATE_INDEX)
    name, value = LARGE[which]
    put(admin, large, "narrative" if name == "metadata" else name, value)
    with Daemon(machine.home) as daemon:
        idle = daemon.memory_kb()
        answer = ask(daemon, machine.shop)
        assert len(answer["observations"]) == 22
        assert said(answer) == [("cell_too_large", name)]
        row = answer["observations"][0]
        if name in row and name != "discovery_tokens":
            assert re.fullmatch(r"\[left out: [0-9,]+ bytes\]", row[name])
        assert daemon.memory_kb("VmHWM") - idle < FEW


@pytest.mark.parametrize("which", LISTS)
def test_a_large_list_is_left_out_and_said(machine: Machine, admin: Admin, which: str) -> None:
    large = add_row(admin, "shop", "Large", at="2100-01-01T00:00:00Z")
    name, value = LISTS[which]
    put(admin, large, "concepts" if name == "metadata" else name, value)
    with Daemon(machine.home) as daemon:
        idle = daemon.memory_kb()
        answer = ask(daemon, machine.shop)
        assert len(answer["observations"]) == 2
        row = answer["observations"][0]
        assert row["title"] == "Large"
        assert row["concepts" if name == "metadata" else name] == []
        assert said(answer) == [("cell_too_large", name)]
        assert daemon.memory_kb("VmHWM") - idle < FEW


def test_a_large_name_costs_its_own_row_at_most(machine: Machine, admin: Admin) -> None:
    add_row(admin, "shop", "Row")
    for column, value in (("kind", "repeat('x', 40000000)"), ("content", "repeat('y', 90000000)")):
        identity = add_row(admin, "shop", None)
        admin.execute(f"UPDATE observations SET {column} = {value} WHERE id = '{identity}'")
    put(admin, add_row(admin, "shop", "Elsewhere"), "project", "'shop/' || repeat('x', 40000000)")
    add_row(admin, "shop", "With a session", session="s")
    admin.execute(
        "UPDATE server_sessions SET content_session_id = repeat('s', 40000000),"
        " platform_source = repeat('p', 40000000)"
    )
    with Daemon(machine.home) as daemon:
        idle = daemon.memory_kb()
        answer = ask(daemon, machine.shop)
        titles = [one["title"] for one in answer["observations"]]
        assert {"Row", "Local row", "With a session"} <= set(titles)
        assert "Elsewhere" not in titles
        assert daemon.memory_kb("VmHWM") - idle < FEW


@pytest.mark.parametrize("metadata", ["[1, 2]", '"text"', "7", '{"project": "shop", "facts": {}}'])
def test_metadata_of_another_shape_costs_no_answer(
    machine: Machine, admin: Admin, metadata: str
) -> None:
    add_row(admin, "shop", "Row")
    odd = add_row(admin, "shop", "Odd")
    admin.execute("UPDATE observations SET metadata = %s WHERE id = %s", (metadata, odd))
    with Daemon(machine.home) as daemon:
        answer = ask(daemon, machine.shop)
        assert {"Row", "Local row"} <= {one["title"] for one in answer["observations"]}


def test_of_a_summary_too_and_the_bound_itself_is_whole(machine: Machine, admin: Admin) -> None:
    deep = json.loads("[" * 500 + "]" * 500)
    add_row(
        admin, "shop", "Whole", at="2100-01-01T00:00:00Z", narrative="x" * MAX_TEXT, facts=deep,
        files_read=["y" * (MAX_LIST - 4)],
    )  # fmt: skip
    identity = add_row(admin, "shop", None, kind="summary", at="2100-01-01T00:00:00Z")
    put(admin, identity, "request", "repeat('words ', 1000000)")
    with Daemon(machine.home) as daemon:
        answer = ask(daemon, machine.shop)
        assert answer["observations"][0]["narrative"] == "x" * MAX_TEXT
        assert answer["observations"][0]["files_read"] == ["y" * (MAX_LIST - 4)]
        assert answer["summaries"][0]["request"] == "[left out: 6,000,000 bytes]"
        assert said(answer) == [("cell_too_large", "request")]
