"""Answers hooks in the daemon: what a session is told, and whether that has arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from claudemem_daemon.dependencies import INCOMPLETE
from claudemem_daemon.errors import NotFound
from claudemem_daemon.local import PLATFORMS
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.answers import Answers, RequestTime
from claudemem_daemon.server.headers import Client
from claudemem_daemon.server.hooks.model import HookAnswer, HookCall
from claudemem_daemon.server.hooks.output import no_output
from claudemem_daemon.server.hooks.payload import parse_payload, read_payload
from claudemem_daemon.server.hooks.reply import answer_key, reply, silent
from claudemem_daemon.server.hooks.sessions import Sessions
from claudemem_daemon.server.workers import USUAL_SECONDS, Workers

WAITING: Final = 0.7
"""Of the time of a call, the share for which it waits for the answer before."""


class Connection(Protocol):
    """What a connection tells of the answer that goes out on it."""

    def when_delivered(self, told: Callable[[bool], None], *, acknowledged: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One answer on its way to the client."""

    answer: HookAnswer
    told: Callable[[bool], None]
    """To be called once: whether it has arrived."""

    def follow(self, connection: Connection, client: Client) -> None:
        """Have the session remember the answer once it has arrived, and not too late."""

        def told(arrived: bool) -> None:
            late = not client.acknowledges and time.monotonic() > client.came + client.seconds
            self.told(arrived and not late)

        connection.when_delivered(told, acknowledged=client.acknowledges)


@dataclass(frozen=True, slots=True)
class HookHandler:
    """Used on the event loop."""

    pipeline: Pipeline
    sessions: Sessions
    answers: Answers
    workers: Workers

    async def answer(
        self, platform: str, body: bytes, environ: Mapping[str, str], client: Client
    ) -> Delivery:
        """Odd input is nothing to print, never an error.

        Raises `NotFound` for an unknown platform, `DeadlineExceeded`, and what the pipeline raises.
        """
        call, detail = read_call(platform, body, environ, self.pipeline.configuration.home)
        if call is None or detail is not None:
            return Delivery(_nothing(platform, call, detail or ""), _ignore)
        question = Question(cwd=call.cwd, env=environ)
        if self.sessions.is_claimed(call):
            allowed = self.pipeline.configuration.timeout_ms(question) / 1000
            try:
                async with asyncio.timeout(min(allowed, client.seconds) * WAITING):
                    await self.sessions.free(call)
            except TimeoutError:
                return Delivery(
                    _nothing(platform, call, "the answer before is on its way"), _ignore
                )
        claim = self.sessions.claim(call)
        try:
            answer = await self._planned(call, question, client)
        except BaseException:
            self.sessions.settle(call, claim)
            raise

        def told(arrived: bool) -> None:
            if arrived:
                self.sessions.arrived(call, answer)
            self.sessions.settle(call, claim)

        return Delivery(answer, told)

    async def _planned(self, call: HookCall, question: Question, client: Client) -> HookAnswer:
        plan = self.sessions.plan(call)
        if plan is not None and plan.how == "nothing":
            return _nothing(call.caller, call, "told before, or for the next prompt")
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


def read_call(
    platform: str, body: bytes, environ: Mapping[str, str], home: str
) -> tuple[HookCall | None, str | None]:
    """The call, and why it gets nothing whatever its session was told.

    Raises `NotFound` for an unknown platform.
    """
    if platform not in PLATFORMS:
        raise NotFound(f"no platform {platform[:40]!r}; one of {', '.join(PLATFORMS)}")
    fields = parse_payload(body)
    if fields is None:
        return None, "no JSON object on standard input"
    call = read_payload(platform, fields, environ, home)
    return call, silent(call)


def _nothing(platform: str, call: HookCall | None, detail: str) -> HookAnswer:
    if call is None:
        return HookAnswer(no_output(platform), detail, "", None)
    return HookAnswer(no_output(call.caller), detail, call.event, call.cwd)


def _ignore(_arrived: bool) -> None:
    return
