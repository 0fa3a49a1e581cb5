"""Answers that still hold, given as they are; others made in a worker, each only once at a time.

Whether an answer holds is found out in a thread as well: nothing on the event loop touches a path.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.errors import DeadlineExceeded
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.workers import Workers
from claudemem_daemon.shapes import as_json, query_shape

T = TypeVar("T")
Kind = Literal["context", "query"]
Key = tuple[Kind, Question]

PIPELINE_SHARE: Final = 0.9
"""Of the time of a request; the rest is for rendering and sending what came."""
CHECK_SLOW: Final = 0.02
"""Seconds; a check that takes longer hangs in a share or a sleeping disk."""


@dataclass(frozen=True, slots=True)
class Body:
    """One finished answer as it goes out."""

    data: bytes
    dependencies: tuple[Dependency, ...]


@dataclass(slots=True)
class _Making:
    """One answer being made. `began` is set by the worker; until then nothing was read for it."""

    future: asyncio.Future[Body]
    began: list[float]
    waiting: int = 0


@dataclass(slots=True)
class RequestTime:
    """How long one request may take: at first what is known without touching a path."""

    arrived: float
    seconds: float
    most: float
    """What the client allows, whatever the settings say."""
    timeout: asyncio.Timeout
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def until(self) -> Deadline:
        return Deadline(self.arrived + self.seconds * PIPELINE_SHARE)

    def correct(self, seconds: float) -> None:
        """From a worker, which knows by now what the settings say."""
        seconds = min(seconds, self.most)
        if seconds != self.seconds:
            self.seconds = seconds
            self._loop.call_soon_threadsafe(self._reschedule)

    def _reschedule(self) -> None:
        if not self.timeout.expired():
            with suppress(RuntimeError):  # The request was answered already.
                left = self.arrived + self.seconds - time.monotonic()
                self.timeout.reschedule(self._loop.time() + left)


class Answers:
    """Used on the event loop alone."""

    def __init__(self, pipeline: Pipeline, workers: Workers, checkers: Workers) -> None:
        self._pipeline = pipeline
        self._workers = workers
        self._checkers = checkers
        self._making: dict[Key, _Making] = {}

    async def get(self, kind: Kind, question: Question) -> bytes:
        """The answer, ready or made now.

        Raises `DeadlineExceeded` when nothing came in time, and what the pipeline raises.
        """
        key = (kind, question)
        async with self.within(question) as allowed:
            body = await self._known(key)
            if body is None:
                body = await self._made(key, allowed)
            return body.data

    async def work(
        self, question: Question, work: Callable[[Deadline], T], like: str | None = None
    ) -> T:
        """Run in a worker, inside the question's deadline. Raises as `get`."""
        place = question.cwd or question.projects
        async with self.within(question) as allowed:
            return await self._workers.submit(
                lambda: work(self.deadline(question, allowed)),
                place=place,
                like=None if like is None else (like, place),
            )

    @asynccontextmanager
    async def within(
        self, question: Question, most: float = math.inf
    ) -> AsyncIterator[RequestTime]:
        """Raises `DeadlineExceeded` when the time of the question, or `most` seconds, is over."""
        seconds = min(self._pipeline.configuration.timeout_ms(question) / 1000, most)
        timeout = asyncio.timeout(seconds)
        allowed = RequestTime(time.monotonic(), seconds, most, timeout)
        try:
            async with timeout:
                yield allowed
        except TimeoutError:
            raise DeadlineExceeded(
                f"no answer within {allowed.seconds:g} s; a store or a folder does not respond"
            ) from None

    def deadline(self, question: Question, allowed: RequestTime) -> Deadline:
        """What the settings say now. To be called in a worker."""
        allowed.correct(self._pipeline.configuration.snapshot(question).timeout_ms / 1000)
        return allowed.until

    async def _known(self, key: Key) -> Body | None:
        memo, question = self._pipeline.memo, key[1]
        if memo.last(key) is None:
            return None
        body: Body | None = await self._checkers.submit(
            lambda: memo.get(key), place=question.cwd or question.projects
        )
        return body

    async def _made(self, key: Key, allowed: RequestTime) -> Body:
        while True:
            making = self._making.get(key)
            if making is None or making.future.done():
                making = self._make(key, allowed)
            making.waiting += 1
            try:
                body = await asyncio.shield(making.future)
            finally:
                making.waiting -= 1
                if not making.waiting and not making.began:
                    making.future.cancel()  # Nobody waits for it any more.
            # What was read before this request came may be older than a write that its sender
            # knows of; then it counts only if it still holds.
            if making.began[0] >= allowed.arrived:
                return body
            known = await self._known(key)
            if known is not None:
                return known

    def _make(self, key: Key, allowed: RequestTime) -> _Making:
        kind, question = key
        began: list[float] = []

        def work() -> Body:
            began.append(time.monotonic())
            body = make(self._pipeline, kind, question, self.deadline(question, allowed))
            self._pipeline.memo.put(key, body, len(body.data))
            return body

        future = self._workers.submit(work, place=question.cwd or question.projects, like=key)
        making = self._making[key] = _Making(future, began)

        def finished(future: asyncio.Future[Body]) -> None:
            if self._making.get(key) is making:
                del self._making[key]
            if not future.cancelled():
                future.exception()  # Whoever waited has it.

        future.add_done_callback(finished)
        return making


def make(pipeline: Pipeline, kind: Kind, question: Question, deadline: Deadline) -> Body:
    """Ask the pipeline and write the answer down."""
    if kind == "query":
        answer = pipeline.ask(question, deadline)
        return Body(as_json(query_shape(answer)), answer.dependencies)
    whole = pipeline.context(question, deadline)
    return Body(whole.context.text.encode("utf-8", "replace"), whole.dependencies)
