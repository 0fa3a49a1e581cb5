"""The text of an assistant's settings file as a value, and a changed value as text. Pure."""

from __future__ import annotations

import json
from typing import Any

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.comments import blanked, comments
from claudemem_daemon.hookfiles.platforms import Platform
from claudemem_daemon.hookfiles.splice import splice


def parse(known: Platform, path: str, text: str | None) -> dict[str, Any]:
    """Raises `SettingsError` for what is no JSON object, or has a key twice in one object."""
    text = blanked(text) if text is not None and known.comments else text
    if text is None or not text.strip():
        return {}
    wrong = "is no JSON object"
    try:
        value = json.loads(
            text.removeprefix("\ufeff"), parse_constant=_no_json, object_pairs_hook=_once
        )
        if isinstance(value, dict):
            return value
    except _TwiceError as error:
        wrong = f"has {str(error)[:80]!r} twice in one object, of which only one could stay"
    except json.JSONDecodeError as error:
        wrong = f"is no JSON (line {error.lineno} column {error.colno}: {error.msg})"
    except (ValueError, RecursionError):
        wrong = "is no JSON that can be read"
    raise SettingsError(f"{path} {wrong}; mend it first, nothing was changed")


def dumped(known: Platform, path: str, value: dict[str, Any], before: str | None) -> str:
    """`before` with the change in it and all its comments. Raises `SettingsError` where that does
    not go."""
    if before is None or not comments(before):
        return dump(value, before)
    if not blanked(before).strip():
        return before.rstrip() + "\n" + dump(value, None)
    changed = splice(before, value, _unit(before) or "  ", ascii_only=False, with_comments=True)
    if changed is None:
        raise SettingsError(
            f"{path} cannot be changed without loss of a comment; nothing was changed: change it by"
            f" hand, as `claudemem-daemon hooks print {known.name}` shows it"
        )
    return changed


def dump(value: dict[str, Any], before: str | None) -> str:
    """What was written before with the change in it; where that does not go, written anew with the
    same indentation, script and last line break."""
    if before is None or not before.strip():
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    text = before.removeprefix("\ufeff")
    lead = _unit(text)
    ascii_only = text.isascii() and "\\u" in text
    changed = splice(text, value, lead or "  ", ascii_only=ascii_only)
    if changed is None:
        indent = (lead or 2) if "\n" in text.strip() else None
        changed = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        changed += text[len(text.rstrip()) :]
    return mark + changed


class _TwiceError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, part in pairs:
        if name in value:
            raise _TwiceError(name)
        value[name] = part
    return value


def _no_json(name: str) -> None:
    """NaN and Infinity, which Python reads and no assistant does."""
    raise ValueError(name)


def _unit(text: str) -> str:
    """The indentation of the second line, which is that of one level."""
    second = next((line for line in text.splitlines()[1:] if line.strip() not in ("", "}")), "")
    return second[: len(second) - len(second.lstrip())]
