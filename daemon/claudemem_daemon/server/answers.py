"""Answers that still stand, kept ready; others made in a worker, each only once at a time.

Nothing expires by time. An answer stands while a glance at everything it was read from says that
it would come out the same (`Pipeline.stands`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from claudemem_daemon.context.model import Context
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import DeadlineExceeded
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.workers import Workers
from claudemem_daemon.shapes import as_json, query_shape

Kind = Literal["context", "query"]
Key = tuple[object, ...]

MOST_KEPT: Final = 256
MOST_BYTES: Final = 3 * 1024 * 1024
FILE_BYTES: Final = 350
"""What the memory of one looked-at file takes, about."""
SLOW_GLANCE: Final = 0.02
"""Seconds; a glance that once took longer (a share, a disk asleep) is left to a worker."""
PIPELINE_SHARE: Final = 0.9
"""Of the time of a request; the rest is for rendering and sending what came."""


@dataclass(frozen=True, slots=True)
class Made:
    """One finished answer: what goes out, and what tells whether it still stands."""

    body: bytes
    answer: Answer
    context: Context | None


@dataclass(slots=True)
class _Kept:
    made: Made
    size: int
    slow: bool = False


@dataclass(slots=True)
class _Flight:
    """One answer being made. `began` is set by the worker; until then nothing was read for it."""

    future: asyncio.Future[Made]
    began: list[float] = field(default_factory=list)


def key_of(kind: Kind, question: Question) -> Key:
    """Equal for questions that have the same answer while nothing changes."""
    return (
        kind,
        question.cwd,
        question.projects,
        tuple(sorted(question.env.items())),
        question.scope,
        question.limit,
        question.types,
        question.concepts,
        question.platform_source,
        question.full,
        question.human,
        question.session_id,
        question.transcript_path,
        None if question.since is None else tuple(sorted(question.since.items())),
        None if question.until is None else tuple(sorted(question.until.items())),
    )


class Answers:
    """The memory of the server; touched by the event loop alone."""

    def __init__(self, pipeline: Pipeline, workers: Workers) -> None:
        self._corridor = pipeline
        self._workers = workers
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._bytes = 0
        self._flights: dict[Key, _Flight] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        """About what the kept answers take; never more than `MOST_BYTES`."""
        return self._bytes

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def ready(self, key: Key) -> bytes | None:
        """The kept answer, if it stands; one stat a file and a glance at each store."""
        kept = self._kept.get(key)
        if kept is None or kept.slow:
            return None
        began = time.monotonic()
        stands = self._corridor.stands(kept.made.answer, kept.made.context)
        kept.slow = time.monotonic() - began > SLOW_GLANCE
        if not stands:
            self._forget(key)
            return None
        self._kept.move_to_end(key)
        return kept.made.body

    async def get(self, kind: Kind, question: Question, key: Key) -> bytes:
        """The answer, ready or made now.

        Raises `DeadlineExceeded` when nothing came in time, and what the pipeline raises.
        """
        body = self.ready(key)
        if body is not None:
            return body
        arrived = time.monotonic()
        seconds = self.seconds(question)
        try:
            async with asyncio.timeout(seconds):
                return await self._made(kind, question, key, arrived, seconds)
        except TimeoutError:
            raise DeadlineExceeded(
                f"no answer within {seconds:g} s; a store or a folder does not respond"
            ) from None

    def seconds(self, question: Question) -> float:
        """How long a request may take."""
        return self._corridor.configuration.snapshot(question).timeout_ms / 1000

    async def _made(
        self, kind: Kind, question: Question, key: Key, arrived: float, seconds: float
    ) -> bytes:
        stale: _Flight | None = None
        while True:
            flight = self._flights.get(key)
            # One that has just landed stays listed until its callback runs, and to await it does
            # not let the callback run: it must not be asked twice.
            if flight is None or flight is stale:
                flight = self._take_off(kind, question, key, seconds)
            made = await asyncio.shield(flight.future)
            # What was read before this request came may be older than a write that its sender
            # knows of; then it counts only if it still stands.
            if flight.began[0] >= arrived or self._corridor.stands(made.answer, made.context):
                return made.body
            stale = flight

    def _take_off(self, kind: Kind, question: Question, key: Key, seconds: float) -> _Flight:
        began: list[float] = []
        kept = self._kept.get(key)
        deadline = Deadline.after(seconds * PIPELINE_SHARE)

        def work() -> Made:
            began.append(time.monotonic())
            if (
                kept is not None
                and kept.slow
                and self._corridor.stands(kept.made.answer, kept.made.context)
            ):
                return kept.made
            return make(self._corridor, kind, question, deadline)

        flight = _Flight(self._workers.submit(work), began)
        self._flights[key] = flight

        def landed(future: asyncio.Future[Made]) -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]
            if not future.cancelled() and future.exception() is None:
                self._keep(key, future.result())

        flight.future.add_done_callback(landed)
        return flight

    def _keep(self, key: Key, made: Made) -> None:
        slow = key in self._kept and self._kept[key].slow
        self._forget(key)
        selection = made.answer.selection
        if not selection.complete or not (made.context is None or made.context.complete):
            return
        # Only what tells whether it stands is kept beside the bytes; the rows are in them.
        bare = replace(made.answer, selection=replace(selection, observations=(), summaries=()))
        size = len(made.body) + FILE_BYTES * (8 + len(made.answer.resolved.dependencies))
        if size > MOST_BYTES // 3:
            return
        self._kept[key] = _Kept(replace(made, answer=bare), size, slow)
        self._bytes += size
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size


def make(pipeline: Pipeline, kind: Kind, question: Question, deadline: Deadline) -> Made:
    """Walk the pipeline and write the answer down."""
    if kind == "query":
        answer = pipeline.ask(question, deadline)
        return Made(as_json(query_shape(answer)), answer, None)
    whole = pipeline.context(question, deadline)
    text = whole.context.text.encode("utf-8", "replace")
    return Made(text, whole.answer, replace(whole.context, text=""))
