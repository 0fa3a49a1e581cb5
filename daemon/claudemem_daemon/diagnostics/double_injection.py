"""Whether claude-mem's own context hook is active beside ours, so that context comes twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from claudemem_daemon.diagnostics.finding import Finding
from claudemem_daemon.hookfiles.codex import has_plugin
from claudemem_daemon.local import home_dir
from claudemem_daemon.permissions import quoted
from claudemem_daemon.settings.sources import read_bytes, read_values

CODE = "double injection"
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


def double_injection(environ: Mapping[str, str], settings_path: str) -> Finding | None:
    """That it comes twice, and what to set; None where it comes once.

    claude-mem's own hook is active as an enabled plugin of Claude Code or Codex. It reads its
    settings.json at `settings_path` itself and has no last good values of a damaged one.
    """
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home_dir(environ), ".claude")
    if not _enabled(os.path.join(folder, "settings.json")) and not has_plugin(environ):
        return None
    settings = read_values(settings_path)
    sentence = "claude-mem's own plugin injects context at session start too, "
    if settings is None:
        sentence += (
            "unless its settings.json turns that off, which cannot be told while that file is"
            " damaged: fix it"
        )
        return Finding(CODE, sentence, f"python3 -m json.tool {quoted(settings_path)}")
    missing = {
        name: value
        for name, value in ONCE.items()
        if str(settings.get(name, "")).strip().lower() != value
    }
    if not missing:
        return None
    missing |= {name: value for name, value in OURS.items() if name not in settings}
    wanted = ", ".join(f'"{name}": "{value}"' for name, value in missing.items())
    sentence += (
        "so it comes twice; these keys turn that off, but for a header that says it found nothing, and"
        " leave ours as it is"
    )
    return Finding(CODE, sentence, f"put {wanted} into {settings_path}")


def _enabled(path: str) -> bool:
    data = read_bytes(path)
    try:
        plugins = json.loads(data).get("enabledPlugins") if isinstance(data, bytes) else None
    except (ValueError, AttributeError, RecursionError):
        return False
    if not isinstance(plugins, dict):
        plugins = dict.fromkeys(map(str, plugins if isinstance(plugins, list) else ()), True)
    return any(name.startswith("claude-mem@") and bool(on) for name, on in plugins.items())
