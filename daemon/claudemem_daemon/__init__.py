"""One memory for a repository and all its git worktrees.

The public Python interface is `generate_context` and `query_observations`; both walk the same way
as a request to the daemon. They are imported when first asked for, because `claudemem-daemon hook`
imports this package on the way to a prompt and must not pay for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in `typing`, which the way to a hook cannot afford to import."""

__version__ = "0.1.0"

PROTOCOL = 2
"""The number of the interface on the socket; a change of it is a breaking change."""

if TYPE_CHECKING:
    from typing import Any

    from claudemem_daemon.api import generate_context, query_observations

__all__ = ["PROTOCOL", "__version__", "generate_context", "query_observations"]


def __getattr__(name: str) -> Any:
    if name in ("generate_context", "query_observations"):
        from claudemem_daemon import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
