"""Entries merged into a settings value and taken out again. Pure: a new value each time."""

from __future__ import annotations

import copy
from typing import Any

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.commands import is_ours, runs_us
from claudemem_daemon.hookfiles.platforms import Platform

_RUN = ("command", "bash", "powershell", "exec", "args")
"""What an entry may start."""


def merged(settings: dict[str, Any], platform: Platform, command: str, path: str) -> dict[str, Any]:
    """The settings with an entry of ours at each event, everything else as it was. One of an older
    version is updated where it stands, and so are all of several that somebody made of one.

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
        ours = _ours(groups, platform)
        for one in ours:
            # Only what we wrote; a status line that somebody put beside it stays.
            for name in ("command", "bash", "timeout", "timeoutSec"):
                if name not in entry:
                    one.pop(name, None)
            one.update(entry)
        if ours:
            continue
        if platform.shape == "flat":
            groups.append(entry)
        else:
            group = {} if matcher is None else {"matcher": matcher}
            groups.append({**group, "hooks": [entry]})
    return fresh


def without(settings: dict[str, Any], platform: Platform) -> dict[str, Any]:
    """The settings without any entry of ours; lists and objects that only held those go too. Looked
    for where `merged` puts them and nowhere else."""
    fresh = copy.deepcopy(settings)
    hooks = fresh.get("hooks")
    if not isinstance(hooks, dict):
        return fresh
    for event, _ in platform.events:
        groups = hooks.get(event)
        if not isinstance(groups, list):
            continue
        ours = _ours(groups, platform)
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
    """The command of each entry of ours, in the order in which the events are written."""
    hooks = settings.get("hooks")
    groups = [hooks.get(event) for event, _ in platform.events] if isinstance(hooks, dict) else []
    return [
        str(entry.get("command") or entry.get("bash"))
        for one in groups
        if isinstance(one, list)
        for entry in _ours(one, platform)
    ]


def their_commands(settings: dict[str, Any], platform: Platform) -> list[tuple[str, str]]:
    """Event and command of each entry that asks us for context and is not of our making."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return []
    written = {event for event, _ in platform.events}
    return [
        (str(event), command)
        for event, groups in hooks.items()
        if isinstance(groups, list)
        for entry in _entries(groups, platform)
        if not (event in written and _is_ours(entry, platform))
        for command in (entry.get("command"), entry.get("bash"))
        if isinstance(command, str) and runs_us(command)
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


def _ours(groups: list[Any], platform: Platform) -> list[dict[str, Any]]:
    return [one for one in _entries(groups, platform) if _is_ours(one, platform)]


def _is_ours(entry: dict[str, Any], platform: Platform) -> bool:
    """An entry that starts one thing, and that is a line of ours."""
    runs = [entry[name] for name in _RUN if name in entry]
    return len(runs) == 1 and is_ours(runs[0], platform.name)


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
