"""The finished context."""

from __future__ import annotations

from dataclasses import dataclass

from claudemem_daemon.dependencies import FileState
from claudemem_daemon.warning import AnswerWarning


@dataclass(frozen=True, slots=True)
class Context:
    """`text` is empty when there is nothing to say (limit 0, excluded project).

    left_out: rows of the selection that the size budget dropped. trimmed: rows that kept their
    line but lost detail. observations: rows whose line is in the text.
    """

    text: str
    observations: int
    left_out: int
    trimmed: int
    warnings: tuple[AnswerWarning, ...]
    dependencies: tuple[FileState, ...] = ()
    """The transcript, when the prior message was read from it."""
    complete: bool = True
    """Whether time was enough to write all of it."""
