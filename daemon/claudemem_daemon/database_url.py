"""The address of a claude-mem server's database, and its form for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES: Final = ("postgresql://", "postgres://")

CREATE_INDEX: Final = (
    "CREATE INDEX CONCURRENTLY ON observations ((metadata->>'project'), created_at DESC)"
)
"""With it each question reads a few rows of a server's database, without it the table."""
_URL: Final = re.compile(r"postgres(?:ql)?://(?:.*@)?[^\s'\"]*", re.DOTALL)
"""Up to the last `@`: a password that should have been percent-encoded may hold anything."""


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
    """The URL without what may be secret: user, host, port and database alone. libpq takes a
    password in the user part and in the query."""
    before, _, parameters = url.partition("://")[2].partition("?")
    # The last `@`: a password that should have been percent-encoded may hold another.
    person, _, place = before.rpartition("@")
    try:
        parts = urlsplit(f"postgresql://{place}")
        query = dict(parse_qsl(parameters))
        host = parts.hostname or query.get("host") or query.get("hostaddr") or ""
        port = parts.port or query.get("port")
        user = unquote(person.partition(":")[0]) or query.get("user", "")
        database = parts.path.removeprefix("/") or query.get("dbname", "")
    except ValueError:
        return "postgresql://"
    if ":" in host:
        host = f"[{host}]"
    elif host.startswith("/"):
        host = host.replace("/", "%2F")
    at = f"{user}@" if user else ""
    return f"postgresql://{at}{host}{f':{port}' if port else ''}/{database}"
