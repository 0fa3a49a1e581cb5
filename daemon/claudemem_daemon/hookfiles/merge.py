"""Entries merged into a settings value and taken out again. Pure: a new value each time."""

from __future__ import annotations

import copy
from typing import Any

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.commands import MARK, is_ours
from claudemem_daemon.hookfiles.platforms import Platform

ANY = f"{MARK} hook any"
"""A command of ours, for working out what merging changes."""


def merged(settings: dict[str, Any], platform: Platform, command: str, path: str) -> dict[str, Any]:
    """The settings with one entry of ours at each event, everything else as it was. An entry of an
    older version is updated where it stands.

    Raises `SettingsError` when `hooks` in `path` has a shape that we would break.
    """
    fresh = copy.deepcopy(settings)
    hooks = _hooks(fresh, path)
    for key, value in platform.extra.items():
        fresh.setdefault(key, value)
    for event, matcher in platform.events:
        groups = hooks.setdefault(event, [])
        if not isinstance(groups, list):
            raise SettingsError(
                f"{path}: hooks.{event} is no list; mend it first, nothing was changed"
            )
        entry = _entry(platform, command)
        ours = [one for one in _entries(groups, platform) if is_ours(_command(one))]
        if ours:
            # Only what we wrote; a status line that somebody put beside it stays.
            for name in ("command", "bash", "timeout", "timeoutSec"):
                if name not in entry:
                    ours[0].pop(name, None)
            ours[0].update(entry)
            for extra in ours[1:]:
                _drop(groups, extra)
        elif platform.shape == "flat":
            groups.append(entry)
        else:
            group = {} if matcher is None else {"matcher": matcher}
            groups.append({**group, "hooks": [entry]})
    return fresh


def without(settings: dict[str, Any], platform: Platform) -> dict[str, Any]:
    """The settings without any entry of ours; lists and objects that only held those go too."""
    fresh = copy.deepcopy(settings)
    hooks = fresh.get("hooks")
    if not isinstance(hooks, dict):
        return fresh
    for event in list(hooks):
        groups = hooks[event]
        if not isinstance(groups, list):
            continue
        ours = [one for one in _entries(groups, platform) if is_ours(_command(one))]
        for entry in ours:
            _drop(groups, entry)
        if ours and not groups:
            del hooks[event]
    if not hooks and settings.get("hooks"):
        del fresh["hooks"]
    return fresh


def has_ours(settings: dict[str, Any], platform: Platform) -> bool:
    return without(settings, platform) != settings


def our_commands(settings: dict[str, Any], platform: Platform) -> list[str]:
    """The command of each entry of ours, in the order of the file."""
    hooks = settings.get("hooks")
    groups = (
        [one for one in hooks.values() if isinstance(one, list)] if isinstance(hooks, dict) else []
    )
    return [
        str(_command(entry))
        for group in groups
        for entry in _entries(group, platform)
        if is_ours(_command(entry))
    ]


def _hooks(settings: dict[str, Any], path: str) -> dict[str, Any]:
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsError(f"{path}: hooks is no object; mend it first, nothing was changed")
    return hooks


def _entry(platform: Platform, command: str) -> dict[str, Any]:
    return {
        "type": "command",
        platform.command_key: command,
        platform.timeout_key: platform.timeout,
    }


def _entries(groups: list[Any], platform: Platform) -> list[dict[str, Any]]:
    if platform.shape == "flat":
        return [one for one in groups if isinstance(one, dict)]
    return [
        entry
        for group in groups
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for entry in group["hooks"]
        if isinstance(entry, dict)
    ]


def _command(entry: dict[str, Any]) -> object:
    return entry.get("command") or entry.get("bash")


def _drop(groups: list[Any], entry: dict[str, Any]) -> None:
    """Take one entry out, and its group if nothing else is in it."""
    for group in list(groups):
        if group is entry:
            groups.remove(group)
            return
        inside = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(inside, list) and any(one is entry for one in inside):
            inside[:] = [one for one in inside if one is not entry]
            if not inside:
                groups[:] = [one for one in groups if one is not group]
            return
