"""A hook's answer without a daemon, in the hook's own process."""

from __future__ import annotations

from collections.abc import Mapping

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.server.hooks.answering import answer


def answer_in_process(
    platform: str, body: bytes, environ: Mapping[str, str], until: float
) -> bytes:
    """What the hook prints; `until` is a moment on the monotonic clock, in seconds."""
    with open_pipeline(environ) as pipeline:
        return answer(platform, body, environ, pipeline, None, Deadline(until)).body
