"""OpenCode has no hooks but plugins: one JavaScript file that runs the line of an entry."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from typing import Final

from claudemem_daemon import folders
from claudemem_daemon.errors import SettingsError
from claudemem_daemon.hookfiles.commands import MARK
from claudemem_daemon.hookfiles.disk import check_writable, read_file, write_file
from claudemem_daemon.hookfiles.files import Change
from claudemem_daemon.local import home_dir

NAME: Final = "opencode"
EVENTS: Final = ("chat.message", "session.compacted")
_HEAD: Final = f"// Written by `{MARK} hooks install {NAME}`, "


def plugin_path(environ: Mapping[str, str], project: str | None) -> str:
    """The user's plugin, or with `project` that checkout's."""
    if project is not None:
        return os.path.join(project, ".opencode", "plugins", f"{MARK}.js")
    given = environ.get("XDG_CONFIG_HOME", "")
    config = given if given.startswith("/") else os.path.join(home_dir(environ), ".config")
    return os.path.join(config, NAME, "plugins", f"{MARK}.js")


def plugin_text(command: str) -> str:
    """The plugin that runs `command`, behind a line that tells whether somebody changed it."""
    source = resources.files(__package__).joinpath("plugin.js").read_text(encoding="utf-8")
    body = source.replace('"@COMMAND@"', json.dumps(command))
    return f"{_HEAD}{_digest(body)}\n{body}"


def install_plugin(environ: Mapping[str, str], command: str, project: str | None = None) -> Change:
    """Write the plugin, or bring it up to date.

    Raises `SettingsError` for a file in its place that we did not write, or may not.
    """
    path, text = plugin_path(environ, project), plugin_text(command)
    before = read_file(path)
    if before == text:
        return Change(path, "unchanged")
    if before is not None and not _is_ours(before):
        raise SettingsError(f"{path} is not as we wrote it; move it away, nothing was changed")
    check_writable(path)
    write_file(path, text, environ, like=path)
    return Change(path, "written")


def uninstall_plugin(environ: Mapping[str, str], project: str | None = None) -> Change:
    """Remove the plugin and the folders that were made for it; never one that somebody changed.

    Raises `SettingsError` as `install_plugin` does.
    """
    path = plugin_path(environ, project)
    before = read_file(path)
    if before is None:
        return Change(path, "nothing")
    if not _is_ours(before):
        return Change(path, "nothing", theirs=(("plugin", path),))
    check_writable(path)
    with suppress(FileNotFoundError):
        os.unlink(path)
    folders.unmake(os.path.dirname(os.path.realpath(path)), environ)
    return Change(path, "removed")


def plugin_command(environ: Mapping[str, str]) -> str | None:
    """The command of the user's plugin, for `doctor`; None where it is not there or not ours."""
    try:
        text = read_file(plugin_path(environ, None))
    except SettingsError:
        return None
    if text is None or not _is_ours(text):
        return None
    _, _, rest = text.partition("const COMMAND = ")
    command = json.JSONDecoder().raw_decode(rest)[0] if rest.startswith('"') else None
    return command if isinstance(command, str) else None


def _is_ours(text: str) -> bool:
    """Whether this is what some version of ours wrote, and nothing in it was changed."""
    head, _, body = text.partition("\n")
    return head == f"{_HEAD}{_digest(body)}"


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
