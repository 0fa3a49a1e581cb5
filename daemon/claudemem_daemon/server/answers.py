"""Answers that still hold, given as they are; others made in a worker, each only once at a time.

Whether an answer holds is found out in a thread as well: nothing on the event loop touches a path.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.dependencies import Dependency
from claudemem_daemon.errors import DeadlineExceeded
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.checker import Checker, SlowCheckError
from claudemem_daemon.server.workers import (
    STUCK_SECONDS,
    UNKNOWN_SECONDS,
    USUAL_SECONDS,
    Workers,
)
from claudemem_daemon.shapes import as_json, query_shape

T = TypeVar("T")
Kind = Literal["context", "query"]
Key = tuple[Kind, Question]

PIPELINE_SHARE: Final = 0.9
"""Of the time of a request; the rest is for rendering and sending what came."""
USUAL_ROWS: Final = 200
USUAL_PROJECTS: Final = 16


class Body(NamedTuple):
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

    def __init__(self, pipeline: Pipeline, workers: Workers) -> None:
        self._pipeline = pipeline
        self._workers = workers
        self._checker = Checker(pipeline.memo)
        self._making: dict[Key, _Making] = {}

    @property
    def stuck(self) -> int:
        """Threads that have been at one piece of work for longer than `STUCK_SECONDS`."""
        return self._workers.stuck + (self._checker.seconds > STUCK_SECONDS)

    async def get(self, kind: Kind, question: Question) -> bytes:
        """The answer, ready or made now.

        Raises `DeadlineExceeded` when nothing came in time, and what the pipeline raises.
        """
        key = (kind, question)
        body = await self.known_or_made(
            key, question, lambda allowed: self._shared(key, allowed), time.monotonic()
        )
        return body.data

    async def known_or_made(
        self,
        key: Hashable,
        question: Question,
        make: Callable[[RequestTime], Awaitable[T]],
        arrived: float,
        most: float = math.inf,
    ) -> T:
        """What the memo has by `key` if that holds, else what `make` gives, within the question's
        time and `most` seconds from `arrived`, on the monotonic clock. Raises as `get`."""
        known: T | None
        slow = False
        try:
            known = await self._checker.get(key)
        except SlowCheckError:
            known, slow = None, True
        if known is not None:
            return known
        async with self.within(question, arrived, most) as allowed:
            if slow:
                known = await self._check(key, question)
            return await make(allowed) if known is None else known

    async def work(
        self, question: Question, work: Callable[[Deadline], T], like: str | None = None
    ) -> T:
        """Run in a worker, inside the question's deadline. Raises as `get`."""
        place = question.cwd or question.projects
        async with self.within(question, time.monotonic()) as allowed:
            return await self._workers.submit(
                lambda: work(self.deadline(question, allowed)),
                place=place,
                like=None if like is None else (like, place),
            )

    @asynccontextmanager
    async def within(
        self, question: Question, arrived: float, most: float = math.inf
    ) -> AsyncIterator[RequestTime]:
        """Raises `DeadlineExceeded` when the time of the question, or `most` seconds, is over."""
        seconds = min(self._pipeline.configuration.timeout_ms(question) / 1000, most)
        timeout = asyncio.timeout(arrived + seconds - time.monotonic())
        allowed = RequestTime(arrived, seconds, most, timeout)
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

    async def _check(self, key: Hashable, question: Question) -> Any:
        """The value of `key` if it holds, by a worker."""
        get = functools.partial(self._pipeline.memo.get, key)
        place = question.cwd or question.projects
        return await self._workers.submit(get, place=place, like="check", expected=0.0)

    async def _shared(self, key: Key, allowed: RequestTime) -> Body:
        """Made once for all who ask at once."""
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
            known: Body | None = await self._check(key, key[1])
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

        place, expected = question.cwd or question.projects, _expected(question)
        future = self._workers.submit(work, place=place, like=key, expected=expected)
        making = self._making[key] = _Making(future, began)

        def finished(future: asyncio.Future[Body]) -> None:
            if self._making.get(key) is making:
                del self._making[key]
            if not future.cancelled():
                future.exception()  # Whoever waited has it.

        future.add_done_callback(finished)
        return making


def _expected(question: Question) -> float:
    """Seconds of the processor, by what makes a question large before anything is read for it."""
    rows = 0 if question.limit is None else question.limit
    usual = rows <= USUAL_ROWS and len(question.projects) <= USUAL_PROJECTS and not question.full
    return USUAL_SECONDS if usual else UNKNOWN_SECONDS


def make(pipeline: Pipeline, kind: Kind, question: Question, deadline: Deadline) -> Body:
    """Ask the pipeline and write the answer down."""
    if kind == "query":
        answer = pipeline.ask(question, deadline)
        return Body(as_json(query_shape(answer)), answer.dependencies)
    whole = pipeline.context(question, deadline)
    return Body(whole.context.text.encode("utf-8", "replace"), whole.dependencies)
