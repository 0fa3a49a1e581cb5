"""settings.json as bytes become values: what is accepted, what is rejected and why."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Rejected:
    """A settings.json that cannot be used; one line, with line and column where they are known."""

    reason: str


def read_bytes(path: str) -> bytes | Rejected | None:
    """The file's content; None when there is no file. Never waits for a FIFO or a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Rejected(f"cannot be read ({getattr(error, 'strerror', None) or error})")
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            return Rejected("is not a regular file")
        if seen.st_size > MOST_BYTES:
            return Rejected(f"has more than {MOST_BYTES} bytes")
        data = b""
        while chunk := os.read(handle, MOST_BYTES + 1):
            data += chunk
            if len(data) > MOST_BYTES:
                return Rejected(f"has more than {MOST_BYTES} bytes")
        return data
    except OSError as error:
        return Rejected(f"cannot be read ({error.strerror})")
    finally:
        os.close(handle)


def parse(data: bytes) -> Mapping[str, Any] | Rejected:
    """The settings of one file, `env` on top of flat keys: claude-mem has written both."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Rejected(f"is not UTF-8 (byte {error.start})")
    if not text.strip():
        return Rejected("is empty")
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        return Rejected(f"is no JSON: {error.msg}, line {error.lineno} column {error.colno}")
    except (ValueError, RecursionError):
        return Rejected("is no JSON that can be read")
    if not isinstance(values, dict):
        return Rejected("is no JSON object")
    nested = values.get("env")
    return {**values, **nested} if isinstance(nested, dict) else values
