"""A hook's answer without a daemon, in the hook's own process."""

from __future__ import annotations

from collections.abc import Mapping

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.server.hooks.handler import read_call
from claudemem_daemon.server.hooks.output import no_output
from claudemem_daemon.server.hooks.reply import reply


def answer_in_process(
    platform: str, body: bytes, environ: Mapping[str, str], until: float
) -> bytes:
    """What the hook prints; `until` is a moment on the monotonic clock, in seconds. Nobody
    remembers what a session was told, so a prompt gets a whole context or nothing."""
    with open_pipeline(environ) as pipeline:
        call, detail = read_call(platform, body, environ, pipeline.configuration.home)
        if call is None or detail is not None or call.kind == "forget":
            return no_output(platform if call is None else call.caller)
        return reply(call, environ, None, pipeline, Deadline(until)).body
