"""What the headers of a request say, to us and of its client."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

ENVIRONMENT: Final = b"claudemem-env"
PLATFORM: Final = b"x-platform-source"
ACKNOWLEDGES: Final = b"claudemem-acknowledge"
"""Of a client that sends an empty line once it has printed the answer."""
DEADLINE: Final = b"claudemem-deadline-ms"
"""How long the client will wait, from when it sent the request."""
OF_QUESTION: Final = (ENVIRONMENT, PLATFORM)
"""What besides the query string decides what is asked."""

OUR_HOST: Final = re.compile(rb"([A-Za-z0-9_-]*)(:[0-9]*)?")
"""`localhost`, nothing, or another name without a dot: a browser has no other reason to come here."""

Headers = Iterable[tuple[bytes, bytes]]
"""Names in lower case, as ASGI has them."""


class Client(NamedTuple):
    """What a client says of itself."""

    seconds: float
    """For which it waits, from when its request came."""
    acknowledges: bool
    came: float
    """When its request had come, on the monotonic clock."""


def client_of(headers: Headers) -> Client:
    named = dict(headers)
    digits = named.get(DEADLINE, b"")
    seconds = int(digits[:9]) / 1000 if digits.isdigit() else math.inf
    return Client(seconds, ACKNOWLEDGES in named, time.monotonic())


def environment_of(headers: Headers) -> dict[str, str]:
    """The caller's environment from `Claudemem-Env: NAME=percent-encoded value` headers."""
    environ: dict[str, str] = {}
    for name, value in headers:
        if name == ENVIRONMENT:
            key, _, encoded = value.partition(b"=")
            environ[os.fsdecode(key.strip())] = os.fsdecode(unquote_to_bytes(encoded))
    return environ


def platform_of(headers: Headers) -> str | None:
    """Whose rows are wanted, where the first header of that name says so."""
    first = next((value for name, value in headers if name == PLATFORM), b"")
    return first.decode("utf-8", "replace") or None


def come_from_a_browser(headers: Headers) -> bool:
    """Through whatever bridge leads to the socket."""
    for name, value in headers:
        if name == b"origin" or (name == b"host" and OUR_HOST.fullmatch(value) is None):
            return True
    return False
