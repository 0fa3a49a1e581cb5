"""No password is printed, logged or sent; and the unit of the service fits a database."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from claudemem_daemon.database_url import public, without_secrets
from tests.postgres.conftest import Machine
from tests.service.test_service_files import fake
from tests.support.daemon import Daemon, clean_environ, run_to_end
from tests.support.postgres import Cluster

TELLING: Final = (["status"], ["doctor"], ["config"], ["context"], ["explain", "--verbose"])
"""The commands that tell of stores and settings."""
OTHERS: Final = (
    ["status", "--json"], ["config", "--json"], ["explain"], ["context", "--json"],
    ["query", "--json"], ["worktrees", "--json"], ["projects", "--json"], ["search", "row"],
    ["show", "b:1"], ["show", "1"], ["allow"], ["reload"], ["logs"],
    ["service", "install", "--print"], ["hooks", "print", "claude-code"],
)  # fmt: skip
ROUTES: Final = ("/v1/status", "/v1/projects", "/v1/search", "/v1/observations", "/healthz")
URLS: Final = {
    "wrong": "postgresql://with_password:hunter2@/{db}?host={host}&password=hunter3",
    "right": "postgresql://with_password:hunter@/{db}?host={host}",
    "away": "postgres://reader:hunter2@127.0.0.1:1/{db}",
    "port": "postgresql://reader:hunter2@127.0.0.1:none/{db}",
    "bracket": "postgresql://reader:hunter2@[::1/{db}",
    "option": "postgresql://reader:hunter2@127.0.0.1/{db}?passwort=hunter3",
    "quotes": "postgresql://reader:hun'ter2 hun\"ter3@127.0.0.1:1/{db}",
    "slash": "postgresql://reader:hunter1/hunter2@127.0.0.1:1/{db}",
    "sign": "postgresql://reader:hunter1#hunter2?hunter3@127.0.0.1:1/{db}",
}


VALUE: Final = '{{"*": {u}}}'
SHAPES: Final = ("{u}", VALUE, '{{"*": [{u}, 7]}}', '{{"*": {{"x": {u}}}}}')


@pytest.mark.parametrize(
    ("kind", "shape"),
    [*((kind, VALUE) for kind in URLS), *(("quotes", shape) for shape in SHAPES if shape != VALUE)],
)
def test_no_password_is_ever_printed(
    machine: Machine, cluster: Cluster, database: str, kind: str, shape: str
) -> None:
    with cluster.admin(database) as admin:
        admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'with_password'")
        admin.execute(
            "DO $$ BEGIN CREATE ROLE with_password LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
        )
        admin.execute("ALTER ROLE with_password PASSWORD 'hunter'")
        admin.execute("GRANT SELECT ON observations, server_sessions TO with_password")
    url = URLS[kind].format(db=database, host=cluster.socket_folder)
    settings = machine.home / ".claude-mem" / "settings.json"
    stores = shape.format(u=json.dumps(url))
    settings.write_text(f'{{"CLAUDE_MEM_DAEMON_STORES": {stores}}}')
    said = every_output(machine, (*TELLING, *(OTHERS if kind == "wrong" else ())))
    settings.unlink()
    for value in (stores, stores[:-1]):
        said += every_output(machine, TELLING[:3], CLAUDE_MEM_DAEMON_STORES=value)
    assert "hun" not in said, said[max(0, said.index("hun") - 300) : said.index("hun") + 100]
    assert "Local row" in said


def every_output(machine: Machine, commands: Iterable[Sequence[str]], **environ: str) -> str:
    said = ""
    with Daemon(machine.home) as daemon:
        asked = {"cwd": str(machine.shop), "env": environ}
        said += daemon.post("/v1/query", asked).text + daemon.post("/v1/explain", asked).text
        for route in ROUTES:
            said += daemon.get(route, {"cwd": str(machine.shop), "q": "row", "ids": "1,b:1"}).text
        for event in ("SessionStart", "UserPromptSubmit"):
            said += machine.hook(daemon, event, "s")
        for arguments in commands:
            found = run_to_end(clean_environ(machine.home, **environ), *arguments, cwd=machine.shop)
            said += found.stdout + found.stderr
        said += daemon.errors()
        state = machine.home / ".claude-mem" / "daemon"
        said += "".join(
            path.read_text(errors="replace") for path in state.rglob("*") if path.is_file()
        )
        listed = ["ps", "-ww", "-o", "args=", "-p", str(daemon.pid)]
        said += subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return said


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("postgresql://a:b@h:5/d?x=y", "postgresql://a@h:5/d"),
        ("postgresql://h/d?user=a&password=b", "postgresql://a@h/d"),
        ("postgresql://a:b@g:5,[::1]:6/d", "postgresql://a@g:5,[::1]:6/d"),
        ("postgresql://?host=/run/pg&port=5&dbname=d", "postgresql://%2Frun%2Fpg:5/d"),
        ("postgresql://?service=a b&password=c", "postgresql:///?service=a%20b"),
        ("postgresql://a:1?b@h/d", "postgresql://"),
        ("postgresql://a:c@b:x/d", "postgresql://"),
        ("a postgresql://a:b@h/d, and postgres://c:d@e/f.", None),
        ("postgresql://h/d?password=b c@d", "postgresql://h/d"),
        ("plain text", "plain text"),
    ],
)
def test_the_form_for_people(text: str, wanted: str | None) -> None:
    shown = without_secrets(text)
    if wanted is not None:
        assert shown == wanted
    assert ":b@" not in shown
    assert ":d@" not in shown
    assert "://" not in text or public(text.split()[-1]).startswith("postgresql://")


def test_the_unit_allows_the_network_for_a_database_alone(machine: Machine) -> None:
    environ = clean_environ(machine.home)
    shown = run_to_end(environ, "service", "install", "--print")
    assert "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n" in shown.stdout
    (machine.home / ".claude-mem" / "settings.json").unlink()
    shown = run_to_end(environ, "service", "install", "--print")
    assert "RestrictAddressFamilies=AF_UNIX\n" in shown.stdout


def test_doctor_tells_a_unit_that_does_not_fit_the_settings(machine: Machine) -> None:
    """The service was installed before the database was named."""
    tools = machine.home / "tools"
    tools.mkdir()
    fake(tools, "systemctl", "exit 0")
    environ = clean_environ(machine.home, PATH=f"{tools}:{os.environ['PATH']}")
    settings = machine.home / ".claude-mem" / "settings.json"
    named = settings.read_text()
    settings.write_text("{}")
    assert run_to_end(environ, "service", "install").returncode == 0
    with Daemon(machine.home):
        for text, told in (("{}", False), (named, True)):
            settings.write_text(text)
            said = run_to_end(environ, "doctor").stdout
            assert ("the unit allows no network" in " ".join(said.split())) is told, said
        assert run_to_end(environ, "service", "install").returncode == 0
        assert "the unit allows no network" not in " ".join(
            run_to_end(environ, "doctor").stdout.split()
        )
