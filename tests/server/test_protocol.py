"""What is taken from uvicorn's protocol: names and signatures that a new release may change."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from claudemem_daemon.server import protocol
from claudemem_daemon.server.protocol import BoundedProtocol

OVERRIDDEN = {
    "__init__": ["self", "config", "server_state", "app_state", "_loop"],
    "connection_made": ["self", "transport"],
    "connection_lost": ["self", "exc"],
    "eof_received": ["self"],
    "data_received": ["self", "data"],
    "on_message_begin": ["self"],
    "on_headers_complete": ["self"],
    "on_body": ["self", "body"],
    "on_message_complete": ["self"],
    "on_response_complete": ["self"],
    "send_400_response": ["self", "msg"],
    "shutdown": ["self"],
}
USED = {
    "connections", "cycle", "flow", "headers", "loop", "pipeline", "scope", "server_state",
    "transport", "url", "_unset_keepalive_if_required",
}  # fmt: skip
USED_OF_CYCLE = {
    "disconnected", "keep_alive", "message_event", "response_complete", "response_started",
}  # fmt: skip


def assigned(cls: type) -> set[str]:
    """Names that the code of a class sets on itself, and its methods."""
    source = inspect.getsource(cls)
    return set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", source)) | set(vars(cls))


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_what_is_overridden_has_the_signature_it_had(name: str) -> None:
    parameters = inspect.signature(getattr(HttpToolsProtocol, name)).parameters
    assert list(parameters) == OVERRIDDEN[name]


def test_nothing_else_is_overridden() -> None:
    theirs = {
        name for name in vars(HttpToolsProtocol) if callable(getattr(HttpToolsProtocol, name))
    }
    assert set(vars(BoundedProtocol)) & theirs == set(OVERRIDDEN)


def test_nothing_of_ours_has_a_name_of_theirs() -> None:
    ours = assigned(BoundedProtocol) - set(OVERRIDDEN)
    assert {
        name for name in ours & assigned(HttpToolsProtocol) if not name.startswith("__")
    } == set()


def test_what_is_used_is_there() -> None:
    assert assigned(HttpToolsProtocol) >= USED
    assert assigned(RequestResponseCycle) >= USED_OF_CYCLE


def test_nothing_else_is_used() -> None:
    source = Path(protocol.__file__).read_text(encoding="utf-8")
    known = assigned(BoundedProtocol)
    assert set(re.findall(r"self\.(\w+)", source)) - known == USED
    assert set(re.findall(r"self\.cycle\.(\w+)", source)) == USED_OF_CYCLE
