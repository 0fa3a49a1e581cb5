"""The address of a claude-mem server's database, and its form for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

SCHEMES: Final = ("postgresql://", "postgres://")

CREATE_INDEX: Final = (
    "CREATE INDEX CONCURRENTLY ON observations ((metadata->>'project'), created_at DESC)"
)
"""With it each question reads a few rows of a server's database, without it the table."""
_URL: Final = re.compile(r"postgres(?:ql)?://(?:.*@)?[^\s'\"]*", re.DOTALL)
"""Up to the last `@`: a password that should have been percent-encoded may hold anything."""

_HOST: Final = r"(\[[\w:.%]+\]|[\w.%-]*)(:\d+)?"
_HOSTS: Final = re.compile(rf"{_HOST}(,{_HOST})*")


def is_database(value: str) -> bool:
    """Whether a store's place is a libpq URL and not a path."""
    return value.startswith(SCHEMES)


def names_database(stores: Mapping[str, Sequence[str]]) -> bool:
    """Whether CLAUDE_MEM_DAEMON_STORES names a database."""
    return any(is_database(value) for values in stores.values() for value in values)


def without_secrets(text: str) -> str:
    """A text in which database URLs, and all from the first to the last, are replaced by the form
    for people."""
    if is_database(text):
        return public(text)
    return _URL.sub(lambda match: public(match[0]), text) if "://" in text else text


def public(url: str) -> str:
    """The URL without what may be secret: user, hosts, ports, database and service alone. libpq
    takes a password in the user part and among the parameters."""
    before, _, parameters = url.partition("://")[2].partition("?")
    # The last `@`: a password that should have been percent-encoded may hold another.
    person, _, place = before.rpartition("@")
    hosts, _, database = place.partition("/")
    try:
        query = dict(parse_qsl(parameters, strict_parsing=True)) if parameters else {}
    except ValueError:
        return "postgresql://"
    if not _HOSTS.fullmatch(hosts):
        return "postgresql://"
    if not hosts:
        names = query.get("host") or query.get("hostaddr", "")
        hosts = ",".join(f"[{n}]" if ":" in n else quote(n, safe="") for n in names.split(","))
    if "port" in query:
        hosts += f":{query['port']}"
    user = unquote(person.partition(":")[0]) or query.get("user", "")
    at = f"{user}@" if user else ""
    service = f"?service={quote(query['service'], safe='')}" if "service" in query else ""
    return f"postgresql://{at}{hosts}/{database or query.get('dbname', '')}{service}"
