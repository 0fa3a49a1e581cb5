"""A warning: the answer stands, but the user must be told."""

from __future__ import annotations

from typing import NamedTuple


class AnswerWarning(NamedTuple):
    """One line that goes with an answer.

    `code` is a word for scripts and never changes its meaning; `message` says what, which file or
    key, and what to do. `path` or `key` name the culprit where there is one.
    """

    code: str
    message: str
    path: str | None = None
    key: str | None = None

    def as_json(self) -> dict[str, str]:
        """The contract's shape: `path` and `key` only where they are known."""
        shape = {"code": self.code, "message": self.message}
        if self.path is not None:
            shape["path"] = self.path
        if self.key is not None:
            shape["key"] = self.key
        return shape
