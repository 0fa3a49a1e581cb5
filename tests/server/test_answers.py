"""Answers are kept as long as they are true, and made once for all who ask at once."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest

from claudemem_daemon.api import build_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.errors import DeadlineExceeded
from claudemem_daemon.memo import MAX_COUNT, MAX_WEIGHT
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.server.answers import Answers, Body, _Making, make
from claudemem_daemon.server.workers import Workers
from tests.support.daemon import eventually
from tests.support.stores import add_observation, make_store


class Watched(Pipeline):
    """The daemon's own pipeline, which can be held up and counts how often it is asked."""

    def __init__(self) -> None:
        built = build_pipeline(os.environ)
        super().__init__(
            built.configuration, built.repositories, built.trust, built.pool, built.memo
        )
        self.walks = 0
        self.gate = threading.Event()
        self.gate.set()
        self.inside = threading.Event()

    def ask(self, question: Question, deadline: Deadline) -> Answer:
        self.walks += 1
        answer = super().ask(question, deadline)
        self.inside.set()
        self.gate.wait(60)
        return answer


@pytest.fixture
def store(home: Path) -> str:
    path = make_store(home / ".claude-mem" / "claude-mem.db")
    add_observation(path, project="p", title="first")
    return path


@pytest.fixture
def pipeline(store: str) -> Iterator[Watched]:
    walked = Watched()
    yield walked
    walked.gate.set()
    walked.close()


def asked(project: str = "p", **values: str) -> Question:
    return Question(cwd=None, projects=(project,), env=values)


async def text(answers: Answers, question: Question) -> str:
    return (await answers.get("query", question)).decode()


def answering(pipeline: Pipeline) -> Answers:
    return Answers(pipeline, Workers())


def known(pipeline: Pipeline, question: Question) -> bytes | None:
    body: Body | None = pipeline.memo.get(("query", question))
    return body.data if body is not None else None


def settled(pipeline: Pipeline, answers: Answers, question: Question) -> bytes:
    """Ask until the answer holds: files that changed a moment ago prove nothing yet."""

    def holding() -> bytes | None:
        asyncio.run(text(answers, question))
        return known(pipeline, question)

    body = eventually(holding, "the answer holds")
    assert body is not None
    return body


def test_an_answer_that_stands_is_given_without_a_walk(pipeline: Watched) -> None:
    answers = answering(pipeline)
    body = settled(pipeline, answers, asked())
    before = pipeline.walks
    for _ in range(5):
        assert asyncio.run(text(answers, asked())).encode() == body
    assert pipeline.walks == before


@pytest.mark.parametrize("change", ["insert", "settings", "store"])
def test_an_answer_falls_with_anything_it_was_made_of(
    pipeline: Watched, store: str, home: Path, change: str
) -> None:
    answers = answering(pipeline)
    settled(pipeline, answers, asked())
    if change == "insert":
        add_observation(store, project="p", title="second")
    elif change == "settings":
        (home / ".claude-mem" / "settings.json").write_text("{}")
    else:
        os.unlink(store)
    assert known(pipeline, asked()) is None


def test_the_same_question_at_once_is_walked_once(pipeline: Watched) -> None:
    answers = answering(pipeline)
    pipeline.gate.clear()

    async def together() -> list[str]:
        waiting = [asyncio.ensure_future(text(answers, asked())) for _ in range(20)]
        await asyncio.to_thread(pipeline.inside.wait, 60)
        pipeline.gate.set()
        return await asyncio.gather(*waiting)

    results = asyncio.run(together())
    assert len(set(results)) == 1
    # Those who came while it was being made may need one more walk, never one each.
    assert pipeline.walks <= 2


def test_who_asks_after_a_write_never_gets_what_was_read_before_it(
    pipeline: Watched, store: str
) -> None:
    answers = answering(pipeline)
    pipeline.gate.clear()

    async def overtaken() -> tuple[str, str]:
        early = asyncio.ensure_future(text(answers, asked()))
        await asyncio.to_thread(pipeline.inside.wait, 60)
        add_observation(store, project="p", title="second")
        late = asyncio.ensure_future(text(answers, asked()))
        await asyncio.sleep(0)  # it asks before the gate opens
        pipeline.gate.set()
        return await early, await late

    early, late = asyncio.run(overtaken())
    assert "second" not in early
    assert "second" in late


def test_an_outdated_answer_that_has_just_landed_does_not_stop_the_loop(
    pipeline: Watched, store: str
) -> None:
    """It is finished, its callback has not run yet, and to await it gives nobody else a turn."""
    answers = answering(pipeline)
    question = asked()

    async def landing() -> str:
        outdated = make(pipeline, "query", question, Deadline.after(5))
        add_observation(store, project="p", title="second")
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        future.set_result(outdated)
        answers._making["query", question] = _Making(future, [0.0])
        return await text(answers, question)

    assert "second" in asyncio.run(landing())
    assert answers._making == {}


def test_a_walk_that_never_ends_is_given_up_and_holds_up_nobody(pipeline: Watched) -> None:
    """Case busy-daemon-taken-for-dead."""
    answers = answering(pipeline)
    pipeline.gate.clear()

    async def stuck() -> str:
        hanging = [
            asyncio.ensure_future(
                text(answers, asked(f"p{number}", CLAUDE_MEM_DAEMON_TIMEOUT_MS="300"))
            )
            for number in range(6)
        ]
        for one in hanging:
            with pytest.raises(DeadlineExceeded, match=r"0\.3 s"):
                await one
        pipeline.gate.set()
        return await text(answers, asked())

    assert "first" in asyncio.run(stuck())


def test_an_error_reaches_everybody_who_waits(store: str) -> None:
    class Broken(Watched):
        def ask(self, question: Question, deadline: Deadline) -> Answer:
            raise ZeroDivisionError

    pipeline = Broken()
    answers = answering(pipeline)

    async def together() -> list[str | BaseException]:
        waiting = [text(answers, asked()) for _ in range(3)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(one) for one in asyncio.run(together())] == [ZeroDivisionError] * 3
    pipeline.close()


def test_the_memory_is_bounded(pipeline: Watched, store: str) -> None:
    add_observation(store, project="big", title="long", narrative="x" * 100_000)
    answers = answering(pipeline)

    async def many() -> None:
        for number in range(200):
            await text(answers, Question(cwd=None, projects=("big",), limit=number))

    asyncio.run(many())
    assert 0 < len(pipeline.memo) <= MAX_COUNT
    assert MAX_WEIGHT // 2 < pipeline.memo.weight <= MAX_WEIGHT
    pipeline.memo.clear()
    assert (len(pipeline.memo), pipeline.memo.weight) == (0, 0)


def test_hooks_of_many_sessions_share_the_rows(store: str) -> None:
    pipeline = build_pipeline(os.environ)
    deadline = Deadline.after(60)

    def of(session: str) -> Answer:
        question = Question(cwd=None, projects=("p",), session_id=session)
        return pipeline.ask(question, deadline)

    def shared() -> bool:
        return of("one").selection is of("two").selection

    try:
        eventually(shared, "the rows stand")
        assert of("two").resolved.question.session_id == "two"
        before = of("one")
        add_observation(store, project="p", title="second")
        after = of("two")
        assert len(after.selection.observations) == len(before.selection.observations) + 1
    finally:
        pipeline.close()


def test_rows_that_are_too_many_to_be_remembered_do_not_live_on_in_their_text(
    pipeline: Watched, store: str
) -> None:
    for number in range(60):
        add_observation(store, project="big", title=f"row {number}", narrative="x" * 20_000)
    question = Question(cwd=None, projects=("big",), limit=60)
    made = pipeline.context(question, Deadline.after(60))
    rows = [ref(shown.row) for shown in made.answer.selection.observations]
    assert len(rows) == 60
    del made
    gc.collect()
    assert [row() for row in rows] == [None] * 60
