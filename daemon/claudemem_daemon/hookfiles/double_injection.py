"""Whether claude-mem's own context hook is active beside ours, so that context comes twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from claudemem_daemon.hookfiles.codex import has_plugin
from claudemem_daemon.local import home_dir
from claudemem_daemon.settings.sources import read_bytes

ONCE = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": "0",
    "CLAUDE_MEM_CONTEXT_SESSION_COUNT": "0",
    "CLAUDE_MEM_CONTEXT_SHOW_LAST_SUMMARY": "false",
}
"""claude-mem's settings that turn its own context off, as far as that goes."""

OURS = {
    "CLAUDE_MEM_DAEMON_OBSERVATIONS": "50",
    "CLAUDE_MEM_DAEMON_SESSION_COUNT": "10",
    "CLAUDE_MEM_DAEMON_SHOW_LAST_SUMMARY": "true",
}
"""The same for this daemon alone, as it is without those."""


def double_injection(environ: Mapping[str, str], settings: Mapping[str, Any] | None) -> str | None:
    """The sentence that says so and what to set; None where it comes once.

    `settings` is claude-mem's settings.json as it is, None where it is damaged: claude-mem reads it
    itself and holds no last good values. It is active as an enabled plugin of Claude Code or Codex.
    """
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home_dir(environ), ".claude")
    if not _enabled(os.path.join(folder, "settings.json")) and not has_plugin(environ):
        return None
    if settings is None:
        return (
            "claude-mem's own plugin injects context at session start too, unless its settings.json"
            " turns that off, which cannot be told while that file is damaged: fix it"
        )
    missing = {
        name: value
        for name, value in ONCE.items()
        if str(settings.get(name, "")).strip().lower() != value
    }
    if not missing:
        return None
    missing |= {name: value for name, value in OURS.items() if name not in settings}
    wanted = ", ".join(f'"{name}": "{value}"' for name, value in missing.items())
    return (
        "claude-mem's own plugin injects context at session start too, so it comes twice. To have"
        f" it once, put {wanted} into claude-mem's settings.json: the CLAUDE_MEM_DAEMON_ keys are for"
        " us alone; of claude-mem's own context a header that says it found nothing stays"
    )


def _enabled(path: str) -> bool:
    data = read_bytes(path)
    try:
        plugins = json.loads(data).get("enabledPlugins") if isinstance(data, bytes) else None
    except (ValueError, AttributeError, RecursionError):
        return False
    if not isinstance(plugins, dict):
        plugins = dict.fromkeys(map(str, plugins if isinstance(plugins, list) else ()), True)
    return any(name.startswith("claude-mem@") and bool(on) for name, on in plugins.items())
