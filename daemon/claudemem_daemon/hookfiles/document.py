"""The text of an assistant's settings file as a value, and a changed value as text. Pure."""

from __future__ import annotations

import json
from typing import Any

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.splice import blanked, comments, indentation, splice

_BOM = "\ufeff"


def parse(text: str | None, path: str, *, with_comments: bool) -> dict[str, Any]:
    """Raises `SettingsError` for what is not a JSON object, or has a key twice in one object."""
    text = (text or "").removeprefix(_BOM)
    text = blanked(text) if with_comments else text
    if not text.strip():
        return {}
    wrong = "is not a JSON object"
    try:
        value = json.loads(text, parse_constant=_no_json, object_pairs_hook=_object)
        if isinstance(value, dict):
            return value
    except json.JSONDecodeError as error:
        wrong = f"is not valid JSON (line {error.lineno} column {error.colno}: {error.msg})"
    except _RepeatedKeyError as error:
        wrong = f"has {str(error)[:80]!r} twice in one object, of which only one could stay"
    except (ValueError, RecursionError):
        wrong = "is not valid JSON"
    raise SettingsError(f"{path} {wrong}; fix it first, nothing was changed")


def dump(value: dict[str, Any], before: str | None) -> str | None:
    """What was written before with the change in it; where that does not go, written anew with the
    same indentation and last line break. None where a comment would be lost."""
    text = (before or "").removeprefix(_BOM)
    mark = _BOM if text != before and before else ""
    if not blanked(text).strip():
        remarks = text.rstrip() + "\n" if text.strip() else ""
        return mark + remarks + json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    changed = splice(text, value)
    if changed is None and comments(text):
        return None
    if changed is None:
        indent = (indentation(text) or 2) if "\n" in text.strip() else None
        changed = json.dumps(value, indent=indent, ensure_ascii=text.isascii())
        changed += text[len(text.rstrip()) :]
    return mark + changed


class _RepeatedKeyError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, part in pairs:
        if name in value:
            raise _RepeatedKeyError(name)
        value[name] = part
    return value


def _no_json(name: str) -> None:
    """NaN and Infinity, which Python reads and no assistant does."""
    raise ValueError(name)
