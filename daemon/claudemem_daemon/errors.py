"""Every error a user can meet, and nothing else.

    ClaudememError
    ├── InvalidRequest      the question itself is wrong            HTTP 400, exit 2
    ├── NotFound            no such route, platform or row          HTTP 404, exit 2
    ├── SettingsError       settings.json or a mode file            HTTP 500
    ├── StoreError          one store cannot be read                a warning in the answer
    ├── DeadlineExceeded    the deadline passed with nothing        HTTP 504
    ├── ServiceError        systemd or launchd said no
    └── DaemonError         the daemon cannot start or be reached
        ├── AlreadyRunning
        └── NotRunning      exit 3

The message of each is one line: what is wrong, which file or key, what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from claudemem_daemon.dependencies import Dependency


class ClaudememError(Exception):
    """Base of all; `message` is one line for a person, `code` a word for a script."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(ClaudememError):
    code = "invalid_request"
    http_status = 400
    exit_code = 2


class NotFound(ClaudememError):
    code = "not_found"
    http_status = 404
    exit_code = 2


class SettingsError(ClaudememError):
    code = "settings"


class StoreError(ClaudememError):
    """One store cannot be read; `reason` is a word of `stores.model.STORE_REASONS`. While
    `lasting` holds, reading it fails in the same way; None where the next attempt may not."""

    code = "store"

    def __init__(
        self, message: str, *, path: str, reason: str, lasting: Dependency | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason
        self.lasting = lasting


class DeadlineExceeded(ClaudememError):
    code = "deadline"
    http_status = 504


class ServiceError(ClaudememError):
    code = "service"


class DaemonError(ClaudememError):
    code = "daemon"


class AlreadyRunning(DaemonError):
    code = "already_running"

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class NotRunning(DaemonError):
    code = "not_running"
    exit_code = 3
