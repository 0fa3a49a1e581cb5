"""`config`: every setting, its value, and where it came from."""

from __future__ import annotations

import click

from claudemem_daemon.cli import screen
from claudemem_daemon.cli.context import explained
from claudemem_daemon.cli.options import json_option, make_question, plain, print_json, setting_text
from claudemem_daemon.shapes import of_settings


@click.command("config")
@click.option("--cwd", type=click.Path(), hidden=True, help="Taken, but no setting depends on it.")
@json_option
def config_command(cwd: str | None, as_shape: bool) -> None:  # noqa: ARG001 - taken and ignored
    """Every setting as this shell's hooks get it: value and source.

    Strongest first: the environment, settings.json, the active mode, the built-in default. Told by
    the daemon, which may hold last good values; where none runs, read from the files.
    """
    # A project that no store can have: only the settings are wanted.
    shape = of_settings(explained(make_question(cwd=None, projects="/")))
    if as_shape:
        print_json(shape)
        return
    screen.say(f"settings file: {screen.home(shape['settings_path'])}", "bold")
    rows = []
    for key, setting in shape["settings"].items():
        where = (
            f": {screen.home(setting['detail'])}" if setting["detail"] not in (None, key) else ""
        )
        origin = _ORIGIN.get(setting["origin"], setting["origin"])
        rows.append([key, plain(setting_text(setting["value"]), 300) or "-", f"{origin}{where}"])
    screen.table(["KEY", "VALUE", "FROM"], rows)
    screen.warn(shape["warnings"])


_ORIGIN = {
    "request": "this request",
    "caller": "environment",
    "daemon": "the daemon's environment",
    "settings": "file",
    "mode": "mode",
    "default": "default",
}
