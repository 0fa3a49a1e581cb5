"""The daemon's pipeline: rows that were selected a moment ago and still stand are not selected
again. That is what the hooks of one repository ask, session after session, prompt after prompt."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from claudemem_daemon.deadline import Deadline
from claudemem_daemon.pipeline import Answer, Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Selection
from claudemem_daemon.server.answers import Key, key_of

MOST_REMEMBERED: Final = 64
MOST_TEXT: Final = 128 * 1024
"""Characters of narrative in one answer; larger ones are rare and would fill the memory."""
MOST_TEXT_OF_ALL: Final = 512 * 1024


class RememberingPipeline(Pipeline):
    """A `Pipeline` with a bounded memory of rows. Safe from several threads."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(
            pipeline.configuration, pipeline.repositories, pipeline.trust, pipeline.pool
        )
        self._rows: OrderedDict[Key, tuple[Answer, int]] = OrderedDict()
        self._text = 0
        self._lock = threading.Lock()

    def ask(self, question: Question, deadline: Deadline) -> Answer:
        """As `Pipeline.ask`, by a glance where nothing changed."""
        key = _rows_key(question)
        with self._lock:
            known = self._rows.get(key)
        if known is not None and self.stands(known[0]):
            return replace(known[0], resolved=replace(known[0].resolved, question=question))
        answer = super().ask(question, deadline)
        self._remember(key, answer)
        return answer

    def _remember(self, key: Key, answer: Answer) -> None:
        size = _text_of(answer.selection)
        with self._lock:
            self._forget(key)
            if not answer.selection.complete or size > MOST_TEXT:
                return
            self._rows[key] = (answer, size)
            self._text += size
            while len(self._rows) > MOST_REMEMBERED or self._text > MOST_TEXT_OF_ALL:
                self._forget(next(iter(self._rows)))

    def _forget(self, key: Key) -> None:
        known = self._rows.pop(key, None)
        if known is not None:
            self._text -= known[1]


def _rows_key(question: Question) -> Key:
    """Rows depend on the session only where its own are left out, and never on who reads them."""
    session = question.session_id if question.since is not None else None
    return key_of("query", replace(question, session_id=session, transcript_path=None, human=False))


def _text_of(selection: Selection) -> int:
    rows = sum(len(row.narrative) + sum(map(len, row.facts)) for row in selection.observations)
    return rows + sum(
        len(row.learned) + len(row.completed) + len(row.investigated) + len(row.notes)
        for row in selection.summaries
    )
