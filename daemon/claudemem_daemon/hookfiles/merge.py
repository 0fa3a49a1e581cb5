"""Entries merged into a settings value and taken out again. Pure: a new value each time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.commands import is_ours, runs_us
from claudemem_daemon.hookfiles.platforms import Platform

_RUN = ("command", "bash", "powershell", "exec", "args")
"""What an entry may start."""
_WRITTEN = frozenset(("command", "bash", "timeout", "timeoutSec"))
"""Keys of an entry that this version or an older one wrote."""


def merged(settings: dict[str, Any], platform: Platform, command: str, path: str) -> dict[str, Any]:
    """The settings with an entry of ours at each event, everything else as it was. One of an older
    version is updated in its position, and so are copies that somebody made of it.

    Raises `SettingsError` when `hooks` in `path` has a shape that we would break.
    """
    fresh = copy.deepcopy(settings)
    hooks = fresh.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsError(f"{path}: hooks is not an object; fix it first, nothing was changed")
    for key, value in platform.extra.items():
        fresh.setdefault(key, value)
    wanted = {
        "type": "command",
        platform.command_key: command,
        platform.timeout_key: platform.timeout,
    }
    present = set()
    for event, _, entry in _our_entries(fresh, platform):
        # Only what we wrote; a status line that somebody put beside it stays.
        for name in _WRITTEN - wanted.keys():
            entry.pop(name, None)
        entry.update(wanted)
        present.add(event)
    for event in platform.events:
        groups = hooks.setdefault(event, [])
        if not isinstance(groups, list):
            raise SettingsError(
                f"{path}: hooks.{event} is not a list; fix it first, nothing was changed"
            )
        if event not in present:
            entry = dict(wanted)
            groups.append(entry if platform.shape == "flat" else {"hooks": [entry]})
    return fresh


def without(settings: dict[str, Any], platform: Platform) -> dict[str, Any]:
    """The settings without any entry of ours; lists and objects that only held those go too. Looked
    for where `merged` puts them and nowhere else."""
    fresh = copy.deepcopy(settings)
    for event, holder, entry in list(_our_entries(fresh, platform)):
        groups = fresh["hooks"][event]
        holder[:] = [other for other in holder if other is not entry]
        if not holder:
            groups[:] = [
                group for group in groups
                if not (isinstance(group, dict) and group.get("hooks") is holder)
            ]  # fmt: skip
        if not groups:
            del fresh["hooks"][event]
    if fresh.get("hooks") == {} and settings["hooks"]:
        del fresh["hooks"]
    return fresh


def our_commands(settings: dict[str, Any], platform: Platform) -> list[str]:
    """The command of each entry of ours, in the order in which the events are written."""
    found = sorted(_our_entries(settings, platform), key=lambda at: platform.events.index(at[0]))
    return [str(entry.get("command") or entry.get("bash")) for _, _, entry in found]


def their_commands(settings: dict[str, Any], platform: Platform) -> list[tuple[str, str]]:
    """Event and command of each entry that asks us for context and is not of our making."""
    return [
        (event, command)
        for event, _, entry in _entries(settings, platform)
        if not _is_ours(event, entry, platform)
        for command in (entry.get("command"), entry.get("bash"))
        if isinstance(command, str) and runs_us(command)
    ]


_Entry = tuple[str, list[Any], dict[str, Any]]
"""The event, the list that the entry is in, and the entry."""


def _our_entries(settings: dict[str, Any], platform: Platform) -> Iterator[_Entry]:
    for event, holder, entry in _entries(settings, platform):
        if _is_ours(event, entry, platform):
            yield event, holder, entry


def _entries(settings: dict[str, Any], platform: Platform) -> Iterator[_Entry]:
    hooks = settings.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        holders = [groups]
        if platform.shape == "nested" and isinstance(groups, list):
            holders = [group.get("hooks") for group in groups if isinstance(group, dict)]
        for holder in holders:
            for entry in holder if isinstance(holder, list) else ():
                if isinstance(entry, dict):
                    yield str(event), holder, entry


def _is_ours(event: str, entry: dict[str, Any], platform: Platform) -> bool:
    """An entry at an event of ours that starts one thing, and that is a line of ours."""
    runs = [entry[name] for name in _RUN if name in entry]
    return event in platform.events and len(runs) == 1 and is_ours(runs[0], platform.name)
