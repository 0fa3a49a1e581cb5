"""Whether claude-mem's own observer saves anything, by the file in which it counts its failures."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.settings.sources import line_of, read_values
from claudemem_daemon.warning import AnswerWarning

FILE: Final = "observer-health.json"
MIN_FAILURES: Final = 3
"""As in claude-mem: a single failure heals on retry."""
MAX_ERROR_CHARS: Final = 160


class ObserverHealth(NamedTuple):
    """What the file of one data dir gives reason to warn of. It is rewritten at every save, so this
    holds for as long as the warning would be the same."""

    file: FileState
    warning: AnswerWarning | None

    def holds(self) -> bool:
        return self.file.holds() or _warning(self.file.path) == self.warning


def observer_health(data_dir: str) -> ObserverHealth:
    """Never raises; a file that is missing or damaged says nothing."""
    path = os.path.join(data_dir, FILE)
    state = file_state(path)
    return ObserverHealth(state, _warning(path) if state.state is not None else None)


def _warning(path: str) -> AnswerWarning | None:
    values = read_values(path) or {}
    failures, failed, saved = (
        _number(values.get(name))
        for name in ("consecutiveFailures", "lastErrorAt", "lastSuccessAt")
    )
    if failures < MIN_FAILURES or failed <= saved:
        return None
    # Without the number of failures: an equal text can stay in a prompt cache.
    since = _day(_number(values.get("failingSinceAt")) or failed)
    provider, error = (
        line_of(values.get(name), MAX_ERROR_CHARS)
        for name in ("lastErrorProvider", "lastErrorMessage")
    )
    message = (
        f"memory is not being saved: claude-mem's observer{f' ({provider})' if provider else ''}"
        f" has failed again and again{since}{f', last with: {error}' if error else ''};"
        f" check key, limits and base URL of its provider in"
        f" {os.path.join(os.path.dirname(path), 'settings.json')}"
    )
    return AnswerWarning("observer_failing", message, path)


def _number(value: Any) -> float:
    """0 for anything that is no number of a size that a time or a count may have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 < value < 1e15 else 0


def _day(epoch_ms: float) -> str:
    try:
        return f" since {datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
