"""Answers hooks: what a session is told, and whether that has arrived."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import INCOMPLETE
from claudemem_daemon.errors import NotFound
from claudemem_daemon.local import PLATFORMS
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.answers import Answers, RequestTime
from claudemem_daemon.server.headers import Client
from claudemem_daemon.server.hooks.assistants import ASSISTANTS
from claudemem_daemon.server.hooks.model import HookAnswer, HookCall
from claudemem_daemon.server.hooks.payload import parse_payload, read_payload
from claudemem_daemon.server.hooks.reply import answer_key, reply
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.metrics import Metrics
from claudemem_daemon.server.workers import USUAL_SECONDS, Workers
from claudemem_daemon.settings.checkout_env import forget_checkouts_home

WAITING: Final = 0.7
"""Of the time of a call, the share for which it waits for the answer before."""


class Connection(Protocol):
    """What a connection tells of the answer that goes out on it."""

    def when_delivered(self, told: Callable[[bool], None], *, acknowledged: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class HookHandler:
    """Used on the event loop."""

    pipeline: Pipeline
    sessions: Sessions
    answers: Answers
    workers: Workers
    metrics: Metrics

    async def answer(
        self,
        platform: str,
        body: bytes,
        environ: Mapping[str, str],
        client: Client,
        connection: Connection,
    ) -> bytes:
        """What the hook prints. Odd input is nothing to print, never an error.

        Raises `NotFound` for an unknown platform, `DeadlineExceeded`, and what the pipeline raises.
        """
        call = read_call(platform, body, environ, self.pipeline.configuration.home)
        nothing = ASSISTANTS[platform].nothing
        if call is None:
            event, answer = "", HookAnswer(nothing)
        else:
            event, answer = call.event, HookAnswer(nothing, call.cwd)
            if not call.silent:
                answer = await self._told(call, environ, client, connection) or answer
        self.metrics.hook(platform, event, answer.cwd, time.monotonic() - client.came)
        return answer.body

    async def _told(
        self, call: HookCall, environ: Mapping[str, str], client: Client, connection: Connection
    ) -> HookAnswer | None:
        """The answer, which the session remembers once it has arrived, and not too late; None where
        the session gets nothing."""
        question = Question(cwd=call.cwd, env=environ)
        if self.sessions.is_claimed(call):
            allowed = self.pipeline.configuration.timeout_ms(question) / 1000
            try:
                async with asyncio.timeout(min(allowed, client.seconds) * WAITING):
                    await self.sessions.free(call)
            except TimeoutError:
                return None
        claim = self.sessions.claim(call)
        try:
            answer = await self._planned(call, question, client)
        except BaseException:
            self.sessions.settle(call, claim)
            raise

        def told(arrived: bool) -> None:
            late = not client.acknowledges and time.monotonic() > client.came + client.seconds
            if answer is not None and arrived and not late:
                self.sessions.arrived(call, answer)
            self.sessions.settle(call, claim)

        connection.when_delivered(told, acknowledged=client.acknowledges)
        return answer

    async def _planned(
        self, call: HookCall, question: Question, client: Client
    ) -> HookAnswer | None:
        plan = self.sessions.plan(call)
        if plan is not None and plan.how == "nothing":
            return None
        key = answer_key(call, question.env, plan)

        async def make(allowed: RequestTime) -> HookAnswer:
            def work() -> HookAnswer:
                until = self.answers.deadline(question, allowed)
                answer = reply(call, question.env, plan, self.pipeline, until)
                if INCOMPLETE not in answer.dependencies:
                    self.pipeline.memo.put(key, answer, len(answer.body))
                return answer

            like = ("hook", call.kind, call.cwd)
            return await self.workers.submit(
                work, place=call.cwd, like=like, expected=USUAL_SECONDS
            )

        return await self.answers.known_or_made(key, question, make, client.came, client.seconds)


def answer_in_process(
    platform: str, body: bytes, environ: Mapping[str, str], until: float
) -> bytes:
    """What the hook prints without a daemon; `until` is a moment on the monotonic clock, in seconds.
    Nobody remembers what a session was told, so a prompt gets a whole context or nothing."""
    known = dict(environ)
    forget_checkouts_home(known)
    forget_checkouts_home(os.environ)
    with open_pipeline(known) as pipeline:
        call = read_call(platform, body, known, pipeline.configuration.home)
        if call is None or call.silent or call.kind == "forget":
            return ASSISTANTS[platform].nothing
        return reply(call, known, None, pipeline, Deadline(until)).body


def read_call(platform: str, body: bytes, environ: Mapping[str, str], home: str) -> HookCall | None:
    """None where the body is no JSON object. Raises `NotFound` for an unknown platform."""
    if platform not in PLATFORMS:
        raise NotFound(f"no platform {platform[:40]!r}; one of {', '.join(PLATFORMS)}")
    fields = parse_payload(body)
    return None if fields is None else read_payload(platform, fields, environ, home)
