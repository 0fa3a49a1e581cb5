"""What Codex's own config.toml says about hooks: which it may run, and whose plugins it has."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from claudemem_daemon.hookfiles.commands import is_ours
from claudemem_daemon.local import home_dir
from claudemem_daemon.settings.sources import read_bytes

ASK: Final = "start codex once and answer yes when it asks about hooks, or use /hooks there"


def codex_home(environ: Mapping[str, str]) -> str:
    given = environ.get("CODEX_HOME", "")
    return given if given.startswith("/") else os.path.join(home_dir(environ), ".codex")


def read_config(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """config.toml; empty where it is missing, damaged or no regular file."""
    data = read_bytes(os.path.join(codex_home(environ), "config.toml"))
    try:
        return tomllib.loads(data.decode("utf-8-sig")) if isinstance(data, bytes) else {}
    except (ValueError, RecursionError):
        return {}


def untrusted(environ: Mapping[str, str], path: str, settings: Mapping[str, Any]) -> list[str]:
    """Events of our entries in `path` (whose content is `settings`) that Codex has not been allowed
    to run. Until then it skips them, and `codex exec` does so without a word.

    An entry that was allowed and then changed cannot be told from here: Codex keeps a hash.
    """
    state = _table(_table(read_config(environ), "hooks"), "state")
    return [
        event
        for event, position in _our_entries(settings)
        if not _table(state, f"{path}:{_snake(event)}:{position}").get("trusted_hash")
    ]


def has_plugin(environ: Mapping[str, str]) -> bool:
    """Whether claude-mem is an enabled plugin of Codex."""
    plugins = _table(read_config(environ), "plugins")
    return any(
        name.startswith("claude-mem@")
        and not (isinstance(plugin, Mapping) and plugin.get("enabled") is False)
        for name, plugin in plugins.items()
    )


def _our_entries(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Event, and `group:hook` of each entry of ours."""
    for event, groups in _table(settings, "hooks").items():
        for number, group in enumerate(groups if isinstance(groups, list) else []):
            hooks = group.get("hooks") if isinstance(group, Mapping) else None
            for position, entry in enumerate(hooks if isinstance(hooks, list) else []):
                if isinstance(entry, Mapping) and is_ours(entry.get("command"), "codex"):
                    yield event, f"{number}:{position}"


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
