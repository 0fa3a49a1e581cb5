"""`config`: every setting, its value, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.ask import explained
from claudemem_daemon.cli.options import json_option, make_question, plain, print_json, setting_text
from claudemem_daemon.shapes import of_settings


@click.command("config")
@click.option("--cwd", hidden=True, expose_value=False, help="No setting depends on it.")
@json_option
def config_command(as_shape: bool) -> None:
    """List every setting as this shell's hooks get it: value and source.

    Strongest first: the environment, settings.json, the active mode, the built-in default. The
    running daemon is asked, because it may use last good values; without one, the files are read.
    """
    # A project that no store can have, because only the settings are wanted.
    shape = of_settings(explained(make_question(cwd=None, projects="/")))
    if as_shape:
        print_json(shape)
        return
    screen.say(f"settings file: {screen.home(shape['settings_path'])}", "bold")
    rows = [
        [
            key,
            screen.home(plain(setting_text(setting["value"]), 300)) or "-",
            source_text(key, setting),
        ]
        for key, setting in shape["settings"].items()
    ]
    screen.table(["SETTING", "VALUE", "FROM"], rows)
    screen.warn(shape["warnings"])


def source_text(key: str, setting: Mapping[str, Any]) -> str:
    """Where a setting's value is from: `file: ~/.claude-mem/settings.json`."""
    origins = {"caller": "environment", "daemon": "the daemon's environment", "settings": "file"}
    origin = origins.get(setting["origin"], setting["origin"])
    detail = screen.home(setting["detail"] or "")
    if setting["origin"] == "mode":
        return detail
    return origin if detail in ("", key) else f"{origin}: {detail}"
